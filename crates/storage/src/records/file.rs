//! Records as lines of JSON in a file that is rotated.

use super::Lines;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A file of records. When it has grown to a size it becomes `FILE.1`, what that was becomes `FILE.2`, and so on up to a number
/// of them. Two processes may add to the same file, as while one takes over from the other.
pub struct RecordFile {
    path: PathBuf,
    lines: Lines,
    largest: u64,
    kept: u32,
}

impl RecordFile {
    /// Opens the file, or makes it. It is rotated before it would grow larger than so many bytes; so many files are `kept` beside.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path, (largest, kept): (u64, u32)) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), lines: open(path)?, largest, kept })
    }

    /// Adds whole lines.
    ///
    /// # Errors
    /// What the system says; then they are to be given again.
    pub fn add(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.lines.size > 0 && self.lines.size + lines.len() as u64 > self.largest {
            self.rotate()?;
        }
        self.lines.add(lines)
    }

    /// Opens the file anew, which somebody else may have moved away.
    ///
    /// # Errors
    /// What the system says; the one that was open is gone on with.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.lines = open(&self.path)?;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        // Another process may have done so: then there is a file with room.
        if fs::metadata(&self.path).is_ok_and(|now| now.len() >= self.lines.size) {
            for number in (1..self.kept).rev() {
                rename(&self.numbered(number), &self.numbered(number + 1))?;
            }
            if self.kept > 0 {
                rename(&self.path, &self.numbered(1))?;
            } else {
                fs::remove_file(&self.path)?;
            }
        }
        self.reopen()
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn open(path: &Path) -> io::Result<Lines> {
    let mut lines = Lines::new(OpenOptions::new().create(true).append(true).open(path)?)?;
    let ends_well = || -> io::Result<bool> {
        let text = fs::read(path)?;
        Ok(text.last().is_none_or(|&last| last == b'\n'))
    };
    lines.is_torn = lines.is_torn && !ends_well()?;
    Ok(lines)
}

/// Moves a file; one that is not there is no error.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_rotated_and_the_oldest_goes() {
        let directory = crate::records::scratch("records");
        let path = directory.join("calls.jsonl");
        let mut file = RecordFile::open(&path, (20, 2)).expect("open");
        for number in 0..8 {
            file.add(format!("line {number}\n").as_bytes()).expect("written");
        }
        let text = |path: &Path| fs::read_to_string(path).expect("there");
        assert_eq!(text(&path), "line 6\nline 7\n");
        assert_eq!(text(&file.numbered(1)), "line 4\nline 5\n");
        assert_eq!(text(&file.numbered(2)), "line 2\nline 3\n");
        assert!(!file.numbered(3).exists());
        // Somebody else moves it away.
        fs::rename(&path, directory.join("moved")).expect("moved");
        file.reopen().expect("open");
        file.add(b"line 8\n").expect("written");
        assert_eq!(text(&path), "line 8\n");
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let directory = crate::records::scratch("records-torn");
        let path = directory.join("calls.jsonl");
        fs::write(&path, "whole\nhal").expect("written");
        RecordFile::open(&path, (1000, 2)).expect("open").add(b"next\n").expect("written");
        RecordFile::open(&path, (1000, 2)).expect("open").add(b"last\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "whole\nhal\nnext\nlast\n");
    }
}
