//! Constant share, set by hand or by a plan for the whole network ("a centralized solver": SERvartuka paper, section
//! 2.3.1).

use super::PathLoad;
use crate::DistributionSettings;

pub(super) fn adjust(settings: &DistributionSettings, paths: &mut [PathLoad<'_>]) {
    for path in paths {
        path.share.keep = settings.keep;
    }
}
