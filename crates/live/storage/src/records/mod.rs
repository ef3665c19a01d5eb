//! Destinations of call detail records: lines of JSON in a rotated file, or a PostgreSQL database.
//!
//! A record is written before the end of the call is acknowledged, by one `write` to a file, so it survives the end of
//! the process. A separate thread feeds the database from such files, so a slow or unreachable database delays no call.
//! The database stores a repeated record once, by its `id`.

mod database;
mod file;
mod spool;

pub use database::{RecordDatabase, RecordDatabaseStatus};
pub use file::RecordFile;

use std::fs::File;
use std::io::{self, Write};

/// A file to which whole lines are added. No other process writes to it meanwhile.
struct Lines {
    file: File,
    size: u64,
    /// Whether the last write ended within a line.
    is_torn: bool,
}

impl Lines {
    fn new(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { file, size, is_torn: false })
    }

    /// Adds lines, in one write as long as the disk has room. Written lines are removed from `lines`.
    ///
    /// # Errors
    /// If the system fails; the lines left in `lines` must be added again.
    fn add(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        if self.is_torn {
            self.write(b"\n").1?;
            self.is_torn = false;
        }
        let (written, outcome) = self.write(lines);
        let whole = lines[..written].iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
        self.is_torn = whole < written;
        // An absent line is better than its beginning. A program of an earlier version may have appended since.
        if self.is_torn && self.file.metadata().is_ok_and(|now| now.len() == self.size) {
            let size = self.size - (written - whole) as u64;
            if self.file.set_len(size).is_ok() {
                (self.size, self.is_torn) = (size, false);
            }
        }
        lines.drain(..whole);
        outcome
    }

    /// Writes as much as there is room for; returns the number of bytes.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.write(&bytes[done..]) {
                Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    self.size += written as u64;
                    done += written;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }
}

/// Makes an empty directory for a test.
#[cfg(test)]
fn scratch(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("sarabande-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory");
    path
}
