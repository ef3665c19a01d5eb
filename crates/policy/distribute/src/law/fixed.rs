//! Constant share, set by hand or by a plan for the whole network ("a centralized solver": SERvartuka paper, section
//! 2.3.1).

use super::PathLoad;
use crate::Settings;

pub(super) fn adjust(settings: &Settings, paths: &mut [PathLoad<'_>]) {
    for path in paths {
        path.share.keep = settings.keep;
    }
}
