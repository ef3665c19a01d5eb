//! Where call detail records go: lines of JSON in a file that is rotated, or a PostgreSQL database.
//!
//! Both are written before the end of a call is acknowledged, by one `write` to a file: what the kernel has taken
//! survives the process, whatever kills it. The database is fed from such files by a thread of its own, so that a
//! database that is slow or gone holds up nobody; a record that comes there twice is taken once, by its `id`.

mod database;
mod file;
mod spool;

pub use database::{RecordDatabase, RecordDatabaseStatus};
pub use file::RecordFile;

use std::fs::File;
use std::io::{self, Write};

/// A file that whole lines are added to. Nobody else writes to it meanwhile.
struct Lines {
    file: File,
    size: u64,
    /// The last write stopped within a line.
    is_torn: bool,
}

impl Lines {
    fn new(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { file, size, is_torn: false })
    }

    /// Adds lines, in one piece as long as the disk has room. Those that are there leave `lines`.
    ///
    /// # Errors
    /// What the system says; what is left in `lines` is to be given again.
    fn add(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        if self.is_torn {
            self.write(b"\n").1?;
            self.is_torn = false;
        }
        let (written, outcome) = self.write(lines);
        let whole = lines[..written].iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
        self.is_torn = whole < written;
        // Nothing of a line is better than its beginning. A program of an earlier version may have written behind it.
        if self.is_torn && self.file.metadata().is_ok_and(|now| now.len() == self.size) {
            let size = self.size - (written - whole) as u64;
            if self.file.set_len(size).is_ok() {
                (self.size, self.is_torn) = (size, false);
            }
        }
        lines.drain(..whole);
        outcome
    }

    /// Writes as much as there is room for; how much that was.
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

/// An empty directory for a test.
#[cfg(test)]
fn scratch(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("sarabande-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory");
    path
}
