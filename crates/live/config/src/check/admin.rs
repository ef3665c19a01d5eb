//! `[admin]`

use std::path::Path;

use super::token::{InFile, secret_file};
use crate::raw::RawAdmin;
use crate::report::Report;
use crate::typed::{Admin, Bearer};

const TOKEN: InFile<Bearer> = InFile {
    read: Bearer::from_bytes,
    holds: "a token of 16 or more letters, digits and -._~+/",
    or: "bytes that are none",
};

pub(super) fn check(raw: &RawAdmin, directory: &Path, report: &mut Report<'_>) -> Option<Admin> {
    let token = match (&raw.token, &raw.token_file) {
        (None, None) => Some(None),
        (Some(token), None) => token.value().map(Some),
        (None, Some(path)) => secret_file(path, directory, &TOKEN, report).map(Some),
        (Some(token), Some(_)) => {
            report.secret_conflict(token, "expected either `token` or `token_file`, not both; remove one");
            None
        }
    };
    Some(Admin { listen: raw.listen.value()?, token: token? })
}
