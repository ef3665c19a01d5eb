//! Utilisation is levelled out with the nodes behind: a law of our own.
//!
//! For each path with level L (how busy those are who would keep the state of one more call), once a period:
//!
//! `keep <- keep + gain * (max(U_high, L) - U) / S`, between 0 and 1,
//!
//! where S is the utilisation that the state of all calls that came open would take:
//! `S = r * open * U / (calls + r * kept)` with `r` the extra cost of a call with state.
//!
//! Up to `U_high` a node keeps all state, as in the paper. Above, it gives away what is too much in about 1 / gain
//! periods, however much that is, and takes back as fast. When the nodes behind are as busy, it keeps more, up to
//! their level: at rest all nodes that can help each other are equally busy, which is what the linear program asks of
//! the largest load. The paper's throttle stops one way alone; here a path that is full is kept free at the cost of
//! another that has room, since each has a goal of its own.

use super::{NodeLoad, PathLoad};
use crate::Settings;

/// The least utilisation that a law divides by: a node that is idle needs no correction.
const IDLE: f64 = 0.01;

pub(super) fn adjust(settings: &Settings, node: NodeLoad, paths: &mut [PathLoad<'_>]) {
    let open: f64 = paths.iter().map(|path| path.open).sum();
    let work = node.calls + settings.state_cost * node.kept;
    if open <= 0.0 || work <= 0.0 {
        return;
    }
    let all_state = settings.state_cost * open * node.utilisation.max(IDLE) / work;
    // Where state costs nothing, nothing is to be shared out.
    if all_state <= 0.0 {
        return;
    }
    for path in paths {
        let goal = path.level.max(settings.high);
        let step = settings.gain * (goal - node.utilisation) / all_state;
        path.share.keep = (path.share.keep + step).clamp(0.0, 1.0);
    }
}
