//! Levels the utilisation of a node and the nodes behind it: a law of this project.
//!
//! For each path with level L (utilisation of the nodes that would keep the state of one more call), once a period:
//!
//! `keep <- keep + GAIN * (max(U_high, L) - U - D) / S`, between 0 and 1.
//!
//! S is the utilisation that the state of all calls arriving without state would cause, with `r` the extra cost of a
//! call with state:
//!
//! `S = r * open * U / (calls + r * kept)`.
//!
//! D is the utilisation of the calls that overload control refused while U is above `U_high`, as far as the path has
//! room below it: `D = U * refused / calls`. A full node measures 1. Without D it would give state away for a tenth of
//! the calls a period while it refuses half of them.
//!
//! Up to `U_high` a node keeps all state, as in the paper. Above, it gives the excess away in about 1 / GAIN periods,
//! whatever its amount, and takes it back as fast. When the nodes behind are as busy, it keeps more, up to their level.
//! In equilibrium all nodes that can help each other are equally busy, as the linear program requires for the largest
//! load. The paper's throttle stops a single path. Here each path has its own goal, so a full path is relieved at the
//! cost of another with room.
//!
//! # When no node has room
//!
//! A full node measures 1, whatever the excess. When this node and all nodes behind are full, their levels are equal
//! and carry no information: shares would stay at random values, or follow noise. So there are two rules for a path
//! whose neighbour throttles:
//! - A difference of less than [`NOISE`] counts as none.
//! - When a node at the entry and all of its paths were full for [`PATIENCE`] periods, `keep` goes to 1: the best split
//!   that is possible by hand, "state at the first". State kept there leaves the node fewer calls to forward, and calls
//!   that the first node cannot handle cost the other nodes nothing. `keep` stays at 1 until the node is no longer
//!   full; then levelling resumes. Meanwhile the node refuses calls of clients (`entry.rs`), which ends the overload if
//!   the load stays. This rule does not apply to a node that gets calls without state from a neighbour, since this
//!   neighbour may have room.

use super::{NodeLoad, PathLoad, Saturation};
use crate::DistributionSettings;

/// Fraction of the distance to its goal that the law moves in a period. A node sees its neighbours' reaction one period
/// late, and two nodes correct the same difference. Above one half they would overshoot for ever.
const GAIN: f64 = 0.25;

/// Smallest utilisation used as a divisor: an idle node needs no correction.
const IDLE: f64 = 0.01;

/// Difference of two utilisations that chance causes in a period.
const NOISE: f64 = 0.005;

/// Periods in a row that all nodes must be full: a burst is shorter, and a notice is a period old.
const PATIENCE: u8 = 3;

pub(super) fn adjust(
    settings: &DistributionSettings,
    node: NodeLoad,
    paths: &mut [PathLoad<'_>],
    saturation: &mut Saturation,
) {
    let open: f64 = paths.iter().map(|path| path.open).sum();
    let work = node.calls + settings.state_cost * node.kept;
    if open <= 0.0 || work <= 0.0 {
        return;
    }
    saturation.note(settings, node, paths);
    if saturation.is_standing() {
        for path in paths {
            path.share.keep += GAIN * (1.0 - path.share.keep);
        }
        return;
    }
    let all_state = settings.state_cost * open * node.utilisation.max(IDLE) / work;
    // If state costs nothing, there is nothing to distribute.
    if all_state <= 0.0 {
        return;
    }
    let is_busy = node.calls > 0.0 && node.utilisation >= settings.high;
    let wanted = if is_busy { node.utilisation * node.refused / node.calls } else { 0.0 };
    for path in paths {
        let room = (settings.high - path.level).max(0.0);
        let missing = path.level.max(settings.high) - node.utilisation - wanted.min(room);
        if path.throttled && missing.abs() < NOISE {
            continue;
        }
        path.share.keep = (path.share.keep + GAIN * missing / all_state).clamp(0.0, 1.0);
    }
}

impl Saturation {
    /// Whether all nodes were full for longer than a burst, and this node still is.
    pub(super) fn is_standing(self) -> bool {
        self.periods >= PATIENCE
    }

    /// Counts the periods in a row in which this node and all paths with calls were full.
    fn note(&mut self, settings: &DistributionSettings, node: NodeLoad, paths: &[PathLoad<'_>]) {
        let full = settings.room().full();
        let is_full = |path: &PathLoad<'_>| path.open <= 0.0 || (path.throttled && path.level >= full);
        let is_first = !node.is_between;
        if is_first && node.utilisation >= full && (self.is_standing() || paths.iter().all(is_full)) {
            self.periods = (self.periods + 1).min(PATIENCE);
        } else {
            self.periods = 0;
        }
    }
}
