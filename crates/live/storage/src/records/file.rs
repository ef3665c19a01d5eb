//! Call records as lines of JSON in a rotated file.

use super::Lines;
use core::time::Duration;
use std::fs::{self, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest wait for the lock of the file. Another process holds it for a few system calls; a stopped process must not
/// block this one.
const PATIENCE: Duration = Duration::from_millis(20);

/// Number of attempts to lock in this time.
const ATTEMPTS: u32 = 20;

/// A rotated file of call records. At its size limit it becomes `FILE.1`, the former `FILE.1` becomes `FILE.2`, and so
/// on up to a number of files. Two processes may add to one file during a takeover, so each locks it while writing. A
/// line for which the disk had no room is then removed, and a line left incomplete by another process is ended first.
pub struct RecordFile {
    path: PathBuf,
    lines: Lines,
    largest: u64,
    kept: u32,
    /// Whether the last attempt to lock failed: then the next one does not wait.
    is_locked_out: bool,
}

impl RecordFile {
    /// Opens or creates the file. It is rotated before it exceeds `largest` bytes; `kept` older files are kept.
    ///
    /// # Errors
    /// If the system fails.
    pub fn open(path: &Path, (largest, kept): (u64, u32)) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), lines: open(path)?, largest, kept, is_locked_out: false })
    }

    /// Adds whole lines; written lines are removed from `lines`.
    ///
    /// # Errors
    /// If the system fails, or another process keeps the file locked; the lines left in `lines` must be added
    /// again.
    pub fn add(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        let locked = self.lock();
        self.is_locked_out = locked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        locked?;
        // After a time without room, more may wait than fits into one file, and it is tried again and again. Then only
        // a full file is rotated.
        let (size, more) = (self.lines.size, lines.len() as u64);
        let room_for = if more > self.largest { 1 } else { more };
        if size > 0 && size + room_for > self.largest {
            self.put_aside()?;
            self.lock()?;
        }
        let outcome = self.lines.add(lines);
        // The lock also ends with the process.
        let _ = self.lines.file.unlock();
        outcome
    }

    /// Locks the file at the path, and checks its end. A file system without locks counts as locked.
    fn lock(&mut self) -> io::Result<()> {
        let attempts = if self.is_locked_out { 1 } else { ATTEMPTS };
        for attempt in 0..attempts {
            match self.lines.file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {
                    if attempt + 1 < attempts {
                        std::thread::sleep(PATIENCE / ATTEMPTS);
                    }
                    continue;
                }
            }
            let open = self.lines.file.metadata()?;
            if self.is_in_place(&open)? {
                return self.look_at_end(open.len());
            }
            // Another process or program has moved the file.
            self.lines = self::open(&self.path)?;
        }
        let path = self.path.display();
        let why =
            format!("another process keeps {path} locked; is a process of this program stopped or hung?");
        Err(io::Error::new(io::ErrorKind::WouldBlock, why))
    }

    /// Checks for an incomplete last line of a process that was killed, or had no room.
    fn look_at_end(&mut self, size: u64) -> io::Result<()> {
        let mut last = *b"\n";
        if size > 0 {
            self.lines.file.read_exact_at(&mut last, size - 1)?;
        }
        (self.lines.size, self.lines.is_torn) = (size, last != *b"\n");
        Ok(())
    }

    /// Whether the open file is still the one at its path.
    fn is_in_place(&self, open: &Metadata) -> io::Result<bool> {
        match fs::metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Rotates the locked file, and opens a new one.
    fn put_aside(&mut self) -> io::Result<()> {
        for number in (1..self.kept).rev() {
            rename(&self.numbered(number), &self.numbered(number + 1))?;
        }
        if self.kept > 0 {
            rename(&self.path, &self.numbered(1))?;
        } else {
            fs::remove_file(&self.path)?;
        }
        self.lines = open(&self.path)?;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn open(path: &Path) -> io::Result<Lines> {
    // The file contains the numbers of callers and callees, so only the owner may read it. An existing file keeps its
    // mode.
    Lines::new(OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?)
}

/// Moves a file; a missing file is not an error.
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
    fn files_are_rotated_and_the_oldest_is_deleted() {
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
            assert_eq!(mode & 0o777, 0o600, "only the owner may read who called whom");
        }
        // Another program moves the file.
        fs::rename(&path, directory.join("moved")).expect("moved");
        file.add(&mut b"line 8\n".to_vec()).expect("written");
        assert_eq!(text(&path), "line 8\n");
    }

    #[test]
    fn an_incomplete_line_damages_no_other() {
        let directory = crate::records::scratch("records-torn");
        let path = directory.join("calls.jsonl");
        fs::write(&path, "whole\nhal").expect("written");
        RecordFile::open(&path, (1000, 2)).expect("open").add(&mut b"next\n".to_vec()).expect("written");
        RecordFile::open(&path, (1000, 2)).expect("open").add(&mut b"last\n".to_vec()).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "whole\nhal\nnext\nlast\n");
    }

    /// Another process has no room, or is killed, while this one has the file open.
    #[test]
    fn an_incomplete_line_of_another_process_damages_no_other() {
        let directory = crate::records::scratch("records-other");
        let path = directory.join("calls.jsonl");
        let mut file = RecordFile::open(&path, (1000, 2)).expect("open");
        file.add(&mut b"first\n".to_vec()).expect("written");
        let other = OpenOptions::new().append(true).open(&path).expect("open");
        io::Write::write_all(&mut &other, b"hal").expect("written");
        file.add(&mut b"second\n".to_vec()).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "first\nhal\nsecond\n");
    }

    /// Records wait meanwhile, and no thread waits for long.
    #[test]
    fn a_stopped_process_blocks_no_other() {
        let directory = crate::records::scratch("records-locked");
        let path = directory.join("calls.jsonl");
        let mut file = RecordFile::open(&path, (1000, 2)).expect("open");
        let other = OpenOptions::new().append(true).open(&path).expect("open");
        other.lock().expect("locked");
        let mut lines = b"line\n".to_vec();
        let refused = file.add(&mut lines).expect_err("the file is locked");
        assert!(
            refused.kind() == io::ErrorKind::WouldBlock && refused.to_string().contains("calls.jsonl locked")
        );
        assert!(file.is_locked_out && lines == b"line\n");
        other.unlock().expect("unlocked");
        file.add(&mut lines).expect("written");
        assert_eq!((file.is_locked_out, fs::read(&path).expect("there")), (false, b"line\n".to_vec()));
    }

    /// During a takeover all lines are present once, whichever process rotates, except in deleted files.
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

    /// Lines for which there was no room are written later, once.
    #[test]
    fn a_full_disk_duplicates_no_line() {
        let path = Path::new("/dev/full");
        let mut lines = b"one\ntwo\n".to_vec();
        let full = OpenOptions::new().append(true).open(path).expect("/dev/full exists");
        let mut torn = Lines { file: full, size: 0, is_torn: false };
        assert!(torn.add(&mut lines).is_err());
        assert_eq!(lines, b"one\ntwo\n");
    }
}
