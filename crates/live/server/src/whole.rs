//! Files that are there whole or not at all: a crash, a full disk or a power failure must not leave half of one where
//! it is looked for.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Writes a line to a file beside this one that only the owner can read, and returns its name. Linked or renamed it
/// is whole.
pub(crate) fn draft(file: &Path, line: &str) -> io::Result<PathBuf> {
    let draft = file.with_added_extension(std::process::id().to_string());
    // Left behind by a process that had the same number.
    let _ = std::fs::remove_file(&draft);
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = writeln!(new, "{line}").and_then(|()| new.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written.map(|()| draft)
}

/// The directory has the name. Not every file system can be told to keep that; the file is there anyway.
pub(crate) fn settle(file: &Path) {
    let _ = file.parent().map(|parent| File::open(parent).and_then(|parent| parent.sync_all()));
}
