//! Utilisation is levelled out with the nodes behind: a law of our own.
//!
//! For each path with level L (how busy those are who would keep the state of one more call), once a period:
//!
//! `keep <- keep + GAIN * (max(U_high, L) - U - D) / S`, between 0 and 1,
//!
//! where S is the utilisation that the state of all calls that came open would take:
//! `S = r * open * U / (calls + r * kept)` with `r` the extra cost of a call with state. D is what the calls would take
//! that overload control has refused while U is above `U_high`, as far as the path has room below it:
//! `D = U * refused / calls`. A full node says 1 of itself, and without D would give state away by a tenth of the calls
//! a period while it refuses half of them.
//!
//! Up to `U_high` a node keeps all state, as in the paper. Above, it gives away what is too much in about 1 / GAIN
//! periods, however much that is, and takes back as fast. When the nodes behind are as busy, it keeps more, up to
//! their level: at rest all nodes that can help each other are equally busy, which is what the linear program asks of
//! the largest load. The paper's throttle stops one way alone; here a path that is full is kept free at the cost of
//! another that has room, since each has a goal of its own.
//!
//! # Where nobody has room
//!
//! A full node says 1 of itself, however much too much there is. When this node and all nodes behind are full, their
//! levels are equal and say nothing: shares would stay where they happen to be, or follow noise. So there are two
//! rules for a path whose neighbour throttles:
//! - A difference of less than [`NOISE`] is none.
//! - Once a node at the entry and all of its paths were full for [`PATIENCE`] periods, `keep` goes to 1 there: the
//!   best split that is possible by hand, "state at the first". State that is kept there leaves the node fewer calls
//!   to forward, and what the first node cannot do costs the others nothing. It stays there until the node is no
//!   longer full, and then levels again. The node refuses calls of clients meanwhile (`entry.rs`), which ends this
//!   where the load stays. A node that gets calls without state from a neighbour does nothing of this: that neighbour
//!   may have room.

use super::{NodeLoad, PathLoad, Saturation};
use crate::Settings;

/// Part of the distance to its goal that the law goes in a period. A node sees what its neighbours make of it one period
/// late, and two nodes correct the same difference: above a half they would overshoot for ever.
const GAIN: f64 = 0.25;

/// The least utilisation that a law divides by: a node that is idle needs no correction.
const IDLE: f64 = 0.01;

/// The difference of two utilisations that chance makes of the calls of a period.
const NOISE: f64 = 0.005;

/// Periods in a row in which all were full until that is believed: a burst is shorter, and a notice is a period old.
const PATIENCE: u8 = 3;

pub(super) fn adjust(
    settings: &Settings,
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
    // Where state costs nothing, nothing is to be shared out.
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
    /// Whether all were full for so long that it is no burst, and this node still is.
    pub(super) fn is_standing(self) -> bool {
        self.periods >= PATIENCE
    }

    /// Counts the periods in a row in which this node and all paths with calls were full.
    fn note(&mut self, settings: &Settings, node: NodeLoad, paths: &[PathLoad<'_>]) {
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
