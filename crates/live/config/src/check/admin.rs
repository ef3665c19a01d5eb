//! `[admin]`

use std::path::Path;

use super::token::secret;
use crate::raw::RawAdmin;
use crate::report::Report;
use crate::typed::Admin;

pub(super) fn check(raw: &RawAdmin, directory: &Path, report: &mut Report<'_>) -> Option<Admin> {
    let token = raw.token.as_ref().map(|token| secret("admin.token", token, directory, report));
    let token = token.map_or(Some(None), |token| token.map(Some));
    Some(Admin {
        listen: raw.listen.value()?,
        token: token?,
        page: raw.page.value()?,
        member_histograms: raw.member_histograms.value()?,
    })
}
