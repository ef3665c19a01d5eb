//! Spool files, in which records wait for the database. Each process writes and locks a file of its own; any process
//! may read the files of processes that have ended.

use super::Lines;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Size at which a new spool file is started. After a restart a file that remains is written to the database again from
/// its beginning, so files are small.
const LARGEST: u64 = 1 << 20;

/// Maximum number of bytes read at a time.
const READ_MAX: u64 = 256 << 10;

const EXTENSION: &str = "jsonl";

/// The spool file that a process writes.
pub(crate) struct SpoolFile {
    directory: PathBuf,
    path: PathBuf,
    lines: Lines,
    serial: u64,
}

impl SpoolFile {
    pub(crate) fn create(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let (path, lines, serial) = create(directory, 0)?;
        Ok(Self { directory: directory.to_owned(), path, lines, serial })
    }

    /// Adds whole lines; written lines are removed from `lines`.
    pub(crate) fn add(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        if self.lines.size >= LARGEST {
            (self.path, self.lines, self.serial) = create(&self.directory, self.serial + 1)?;
        }
        self.lines.add(lines)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates a file, which is locked as long as it is open.
fn create(directory: &Path, first: u64) -> io::Result<(PathBuf, Lines, u64)> {
    for serial in first.. {
        let path = directory.join(format!("{:010}-{serial:06}.{EXTENSION}", std::process::id()));
        // With this name, no process takes it for an abandoned file before it is locked.
        let unfinished = path.with_extension("new");
        if path.exists() {
            continue;
        }
        match OpenOptions::new().create_new(true).append(true).mode(0o600).open(&unfinished) {
            Ok(file) => {
                file.lock()?;
                fs::rename(&unfinished, &path)?;
                return Ok((path, Lines::new(file)?, serial));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("there are more numbers than files")
}

/// Reader of an abandoned file or of the own one, which continues at the last position.
pub(crate) struct SpoolReader {
    path: PathBuf,
    file: File,
    offset: u64,
    /// Whether lines may still be added to it.
    pub(crate) is_own: bool,
}

impl SpoolReader {
    /// Whole lines that were not [`taken`](Self::taken), at most some 256 KiB.
    pub(crate) fn lines(&mut self) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        (&self.file).take(READ_MAX).read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
        // An incomplete line of an abandoned file is returned, too.
        let is_rest = whole == 0 && !self.is_own && !bytes.is_empty();
        bytes.truncate(if is_rest { bytes.len() } else { whole });
        Ok(bytes)
    }

    /// Marks that many bytes as handled.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.offset += bytes as u64;
    }

    /// Deletes the file, after all of it was handled and no process writes to it.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens the oldest abandoned file; `own` is the file that this process writes.
pub(crate) fn oldest_left(directory: &Path, own: &Path) -> io::Result<Option<SpoolReader>> {
    let mut paths: Vec<_> = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION) && path != own);
    paths.sort_by_key(|path| (fs::metadata(path).and_then(|data| data.modified()).ok(), path.clone()));
    for path in paths {
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            // Another process may have handled and deleted it meanwhile.
            Ok(()) if path.exists() => {
                return Ok(Some(SpoolReader { path, file, offset: 0, is_own: false }));
            }
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Opens the own file, from its beginning.
pub(crate) fn own(path: &Path) -> io::Result<SpoolReader> {
    Ok(SpoolReader { path: path.to_owned(), file: File::open(path)?, offset: 0, is_own: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_files_are_read_and_files_in_use_are_not() {
        let directory = crate::records::scratch("spool");
        let mut one = SpoolFile::create(&directory).expect("a file");
        let mut other = SpoolFile::create(&directory).expect("a file");
        one.add(&mut b"a\nb\n".to_vec()).expect("written");
        other.add(&mut b"c\n".to_vec()).expect("written");
        assert!(oldest_left(&directory, other.path()).expect("read").is_none(), "both files are in use");
        let mut reader = own(other.path()).expect("open");
        assert_eq!(reader.lines().expect("read"), b"c\n");
        reader.taken(2);
        other.add(&mut b"d\n".to_vec()).expect("written");
        assert_eq!(reader.lines().expect("read"), b"d\n");
        // The process dies within a line.
        one.lines.write(b"tor").1.expect("written");
        drop(one);
        let mut left = oldest_left(&directory, other.path()).expect("read").expect("left");
        assert!(
            oldest_left(&directory, other.path()).expect("read").is_none(),
            "another process has the file"
        );
        assert_eq!(left.lines().expect("read"), b"a\nb\n");
        left.taken(4);
        assert_eq!(left.lines().expect("read"), b"tor");
        left.taken(3);
        assert_eq!(left.lines().expect("read"), b"");
        left.remove().expect("removed");
        assert!(oldest_left(&directory, other.path()).expect("read").is_none());
    }
}
