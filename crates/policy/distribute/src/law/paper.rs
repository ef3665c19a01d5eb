//! Additive decrease: algorithm 1 of the SERvartuka paper (section 3).
//!
//! While utilisation is at or above `U_high`, the limit of calls with state, `Csf_reduced`, falls by `deltaC` in each
//! period, on paths that are not throttled. The paper has one limit per node. Here each path has one, and `deltaC` is
//! divided among the paths in proportion to their calls. So a node with a single path behaves as in the paper. Line 2
//! computes the utilisation that a number of calls would cause; here it is measured.
//!
//! The paper does not say how the limit grows again. Here it is removed below `U_low`, where throttling ends too.

use super::{NodeLoad, PathLoad};
use crate::DistributionSettings;

pub(super) fn adjust(settings: &DistributionSettings, node: NodeLoad, paths: &mut [PathLoad<'_>]) {
    let open: f64 = paths.iter().filter(|path| !path.throttled).map(|path| path.open).sum();
    for path in paths {
        if node.utilisation < settings.low {
            path.share.reduced = f64::INFINITY;
        } else if node.utilisation >= settings.high && !path.throttled && path.open > 0.0 {
            // Line 8; `Csf_req` is the smaller of the arrivals and the limit (line 1).
            let delta = settings.delta_c * path.open / open;
            path.share.reduced = (path.share.reduced.min(path.open) - delta).max(0.0);
        }
        path.share.keep = if path.open > 0.0 { (path.share.reduced / path.open).min(1.0) } else { 1.0 };
    }
}
