//! Records as lines of JSON in a file that is rotated.

use super::Lines;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
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

    /// Adds whole lines; those that are there leave `lines`.
    ///
    /// # Errors
    /// What the system says; what is left in `lines` is to be given again.
    pub fn add(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        if !self.is_in_place()? {
            self.reopen()?;
        }
        // More than a file holds has waited for room, and is tried again and again: only a full file is put aside for it.
        let (size, more) = (self.lines.size, lines.len() as u64);
        let room_for = if more > self.largest { 1 } else { more };
        if size > 0 && size + room_for > self.largest {
            self.rotate()?;
        }
        self.lines.add(lines)
    }

    /// Whether what is open is what its path leads to: another process, or another program, may have moved it away.
    fn is_in_place(&self) -> io::Result<bool> {
        let open = self.lines.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the file anew, which somebody else may have moved away.
    fn reopen(&mut self) -> io::Result<()> {
        self.lines = open(&self.path)?;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        // One process at a time; the other one may have done so meanwhile.
        self.lines.file.lock()?;
        if self.is_in_place()? {
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
    // It says who calls whom: for the owner alone. One that is there keeps its mode.
    let file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?;
    let mut lines = Lines::new(file)?;
    if lines.is_torn {
        let mut last = [0];
        lines.file.read_exact_at(&mut last, lines.size - 1)?;
        lines.is_torn = last != *b"\n";
    }
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
            file.add(&mut format!("line {number}\n").into_bytes()).expect("written");
        }
        let text = |path: &Path| fs::read_to_string(path).expect("there");
        assert_eq!(text(&path), "line 6\nline 7\n");
        assert_eq!(text(&file.numbered(1)), "line 4\nline 5\n");
        assert_eq!(text(&file.numbered(2)), "line 2\nline 3\n");
        assert!(!file.numbered(3).exists());
        for path in [&path, &file.numbered(1)] {
            let mode = fs::metadata(path).expect("there").mode();
            assert_eq!(mode & 0o777, 0o600, "who calls whom is the owner's to know");
        }
        // Somebody else moves it away.
        fs::rename(&path, directory.join("moved")).expect("moved");
        file.add(&mut b"line 8\n".to_vec()).expect("written");
        assert_eq!(text(&path), "line 8\n");
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let directory = crate::records::scratch("records-torn");
        let path = directory.join("calls.jsonl");
        fs::write(&path, "whole\nhal").expect("written");
        RecordFile::open(&path, (1000, 2)).expect("open").add(&mut b"next\n".to_vec()).expect("written");
        RecordFile::open(&path, (1000, 2)).expect("open").add(&mut b"last\n".to_vec()).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "whole\nhal\nnext\nlast\n");
    }

    /// As while one process takes over from another: whoever rotates, all lines are there once, but for those that go.
    #[test]
    fn two_processes_lose_no_line() {
        let directory = crate::records::scratch("records-two");
        let path = directory.join("calls.jsonl");
        let mut files = [0; 2].map(|_| RecordFile::open(&path, (40, 50)).expect("open"));
        for number in 0..60 {
            files[number % 2].add(&mut format!("line {number:02}\n").into_bytes()).expect("written");
        }
        let all = (1..50).map(|number| files[0].numbered(number)).chain([path]);
        let text: String = all.filter_map(|path| fs::read_to_string(path).ok()).collect();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        let wanted: Vec<_> = (0..60).map(|number| format!("line {number:02}")).collect();
        assert_eq!(lines, wanted);
    }

    /// What there was no room for is written later, once.
    #[test]
    fn a_full_disk_doubles_nothing() {
        let path = Path::new("/dev/full");
        let mut lines = b"one\ntwo\n".to_vec();
        let full = OpenOptions::new().append(true).open(path).expect("there is such a device");
        let mut torn = Lines { file: full, size: 0, is_torn: false };
        assert!(torn.add(&mut lines).is_err());
        assert_eq!(lines, b"one\ntwo\n");
    }
}
