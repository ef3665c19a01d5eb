//! Embedded store: a file that survives crashes, and a copy of it in memory.

use crate::file::{File, Open, unavailable};
use crate::writer::{BATCH_MAX, Job, OnReplaced, Pending, Writer};
use base::UnixTime;
use location::{Aor, BindingsRecord, MemoryLimits, MemoryStore, Replaced, Store, StoreError};
use redb::{Database, DatabaseError, StorageError};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};

/// Longest queue of replacements. If they arrive faster than the disk writes, a refused client can try again, and the
/// queue takes bounded memory.
const QUEUE_MAX: usize = 8 * BATCH_MAX;

/// Reason why the file cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// It is open in another process.
    Taken,
    /// Another error.
    Failed(StoreError),
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Taken => f.write_str("the file is open in another process"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// Catches panics of `redb`, which it has on some truncated or overwritten files.
fn unless_damaged(open: impl FnOnce() -> Result<Database, DatabaseError>) -> Result<Database, DatabaseError> {
    let damaged = |_| Err(DatabaseError::Storage(StorageError::Corrupted("the file is damaged".to_owned())));
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(damaged)
}

fn damaged(name: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "{name}: the file is damaged, perhaps truncated, or copied while in use; replace it by a complete copy, or \
         move it away. Then each telephone is found again after its next registration"
    ))
}

/// Handle to the store; all clones share one store.
///
/// Reads are served from memory at once. One thread makes the replacements, in order; all waiting ones are written in
/// one commit. A reply is given after the commit is on disk (`redb`, `Durability::Immediate`), and only then do readers
/// see the record. So an acknowledged record is never lost, and readers see only records that cannot be lost.
///
/// After a disk error the replacements of that commit fail, and the file is reopened before the next one; reads
/// continue from memory. Every request gets a reply, with an error if the result of the replacement is unknown.
///
/// Limits are checked against the state before a commit, so one commit may exceed them by its own records.
#[derive(Clone)]
pub struct Embedded {
    memory: Arc<RwLock<MemoryStore>>,
    jobs: SyncSender<Job>,
}

impl Embedded {
    /// Opens the file, creates it if it is missing, and loads the records that are live at `now`. Expired records are
    /// removed from the file, so the clock must be set before. Fails if the file cannot be used: it is open in another
    /// process, has another format, or holds other data than records.
    pub fn open(path: &Path, limits: MemoryLimits, now: UnixTime) -> Result<Self, OpenError> {
        let name = path.display().to_string();
        // The file contains locations of users, so only the owner may read it. An existing file keeps its mode.
        drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path));
        let database = unless_damaged(|| Database::create(path)).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::Taken,
            DatabaseError::Storage(StorageError::Corrupted(_)) => OpenError::Failed(damaged(&name)),
            error => OpenError::Failed(unavailable(&name, &error)),
        })?;
        // A deleted file must not be taken for an empty one.
        let path = path.to_owned();
        let open: Open = Box::new(move || unless_damaged(|| Database::open(&path)));
        let start = || Self::start(File::new(name.clone(), database, open), limits, now);
        let started = catch_unwind(AssertUnwindSafe(start)).unwrap_or_else(|_| Err(damaged(&name)));
        started.map_err(OpenError::Failed)
    }

    fn start(mut file: File, limits: MemoryLimits, now: UnixTime) -> Result<Self, StoreError> {
        let (memory, expired) = file.load(limits, now)?;
        // Records that are not in memory would never be swept.
        if !expired.is_empty() {
            file.commit(&expired.into_iter().map(|aor| (aor, None)).collect())?;
        }
        let memory = Arc::new(RwLock::new(memory));
        let (jobs, queue) = sync_channel(QUEUE_MAX);
        let writer = Writer { file, memory: Arc::clone(&memory), swept: None };
        let thread = std::thread::Builder::new().name("bindings".to_owned());
        thread.spawn(move || writer.run(&queue)).map_err(|error| unavailable("its thread", &error))?;
        Ok(Self { memory, jobs })
    }

    /// Record of an address-of-record, as last committed.
    pub fn get(&self, aor: &Aor) -> Option<BindingsRecord> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner).get(aor).cloned()
    }

    /// Replaces `expected` by `new`, and calls `reply` when that is on disk, or at once if the queue is full.
    pub fn submit(
        &self,
        now: UnixTime,
        aor: Aor,
        expected: Option<BindingsRecord>,
        new: Option<BindingsRecord>,
        reply: OnReplaced,
    ) {
        let refuse = |job: Job, why: &str| job.reply.answer(Err(StoreError::Unavailable(why.to_owned())));
        match self.jobs.try_send(Job { now, aor, expected, new, reply: Pending::new(reply) }) {
            Ok(()) => {}
            Err(TrySendError::Full(job)) => refuse(job, "too many registrations wait for the disk"),
            Err(TrySendError::Disconnected(job)) => refuse(job, "its thread has ended"),
        }
    }
}

/// Blocking access, for threads that may wait.
impl Store for Embedded {
    fn read(&mut self, aor: &Aor) -> Result<Option<BindingsRecord>, StoreError> {
        Ok(self.get(aor))
    }

    fn replace(
        &mut self,
        now: UnixTime,
        aor: &Aor,
        expected: Option<&BindingsRecord>,
        new: Option<&BindingsRecord>,
    ) -> Result<Replaced, StoreError> {
        let (sender, result) = channel();
        // A caller that no longer waits needs no reply.
        let reply: OnReplaced = Box::new(move |result| drop(sender.send(result)));
        let (expected, new, reply) = (expected.cloned(), new.cloned(), Pending::new(reply));
        let job = Job { now, aor: aor.clone(), expected, new, reply };
        self.jobs.send(job).map_err(|error| unavailable("its thread", &error))?;
        result.recv().map_err(|error| unavailable("its thread", &error))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::RECORDS;
    use core::time::Duration;
    use invariants::store as contract;
    use redb::backends::FileBackend;
    use redb::{ReadableDatabase, ReadableTableMetadata, StorageBackend};
    use std::io::{Error, Result as IoResult};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

    /// A file on a disk whose writes fail while `fails` is set.
    #[derive(Debug)]
    struct Disk {
        file: FileBackend,
        fails: Arc<AtomicBool>,
    }

    impl Disk {
        fn works(&self) -> IoResult<()> {
            if self.fails.load(SeqCst) { Err(Error::other("the disk fails")) } else { Ok(()) }
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> IoResult<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> IoResult<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> IoResult<()> {
            self.works().and_then(|()| self.file.set_len(len))
        }

        fn sync_data(&self) -> IoResult<()> {
            self.works().and_then(|()| self.file.sync_data())
        }

        fn write(&self, offset: u64, data: &[u8]) -> IoResult<()> {
            self.works().and_then(|()| self.file.write(offset, data))
        }

        fn close(&self) -> IoResult<()> {
            self.file.close()
        }
    }

    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sarabande-disk-{name}-{}", std::process::id()));
        drop(std::fs::remove_file(&path));
        path
    }

    /// Makes a store on such a disk.
    fn start(path: &Path, fails: &Arc<AtomicBool>) -> Embedded {
        let (path, fails) = (path.to_owned(), Arc::clone(fails));
        let open: Open = Box::new(move || {
            let file =
                std::fs::File::options().read(true).write(true).create(true).truncate(false).open(&path);
            let disk = Disk { file: FileBackend::new(file?)?, fails: Arc::clone(&fails) };
            Database::builder().create_with_backend(disk)
        });
        let database = open().expect("a file");
        Embedded::start(File::new("a disk".into(), database, open), MemoryLimits::default(), NOW)
            .expect("a store")
    }

    fn key(n: usize) -> Aor {
        Aor::of(format!("sip:{n}@example.com").as_bytes()).expect("a URI")
    }

    fn record(now: UnixTime) -> BindingsRecord {
        BindingsRecord::of(&[contract::binding(now, "sip:a@192.0.2.1")]).expect("a binding")
    }

    /// Number of records in a file that is no longer in use.
    fn in_file(path: &Path) -> u64 {
        for _ in 0..100 {
            if let Ok(database) = Database::open(path) {
                let table = database.begin_read().unwrap().open_table(RECORDS).unwrap();
                return table.len().unwrap();
            }
            // The thread of the store still holds it.
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} cannot be opened", path.display());
    }

    #[test]
    fn the_store_continues_after_a_disk_error() {
        let (path, fails) = (path("error"), Arc::new(AtomicBool::new(false)));
        let mut store = start(&path, &fails);
        let known = record(NOW);
        assert_eq!(store.replace(NOW, &key(1), None, Some(&known)), Ok(Replaced::Done));
        fails.store(true, SeqCst);
        for n in 2..5 {
            let result = store.replace(NOW, &key(n), None, Some(&known));
            assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
        }
        assert_eq!((store.get(&key(1)), store.get(&key(2))), (Some(known.clone()), None));
        fails.store(false, SeqCst);
        // It is unknown whether the failed commit of the second is in the file; a read shows it.
        assert_eq!(store.replace(NOW, &key(3), None, Some(&known)), Ok(Replaced::Done));
        let second = store.get(&key(2));
        assert_eq!(store.replace(NOW, &key(2), second.as_ref(), Some(&known)), Ok(Replaced::Done));
        drop(store);
        assert_eq!(in_file(&path), 3);
        std::fs::remove_file(path).expect("the file exists");
    }

    /// An expired record leaves memory only with its commit; otherwise it would stay in the file.
    #[test]
    fn a_sweep_whose_commit_fails_is_done_again() {
        let (path, fails) = (path("sweep"), Arc::new(AtomicBool::new(false)));
        let mut store = start(&path, &fails);
        assert_eq!(store.replace(NOW, &key(1), None, Some(&record(NOW))), Ok(Replaced::Done));
        fails.store(true, SeqCst);
        let late = NOW + Duration::from_hours(2);
        assert!(store.replace(late, &key(2), None, Some(&record(late))).is_err());
        fails.store(false, SeqCst);
        assert_eq!(store.replace(late, &key(3), None, Some(&record(late))), Ok(Replaced::Done));
        let second = store.get(&key(2));
        assert_eq!(store.replace(late, &key(2), second.as_ref(), None), Ok(Replaced::Done));
        drop(store);
        assert_eq!(in_file(&path), 1, "only the third record");
        std::fs::remove_file(path).expect("the file exists");
    }

    /// A thread that has ended early still answers.
    #[test]
    fn dropped_requests_are_answered() {
        let path = path("dropped");
        let store = start(&path, &Arc::new(AtomicBool::new(false)));
        let (sender, results) = channel();
        let submit = |n: usize, reply: OnReplaced| store.submit(NOW, key(n), None, Some(record(NOW)), reply);
        submit(1, Box::new(|_| panic!("a reply that panics, as this test wants")));
        for n in 2..10 {
            let sender = sender.clone();
            submit(n, Box::new(move |result| sender.send(result).expect("the receiver waits")));
        }
        for _ in 2..10 {
            let result = results.recv_timeout(Duration::from_secs(10)).expect("an answer");
            assert!(matches!(result, Ok(Replaced::Done) | Err(StoreError::Unavailable(_))), "{result:?}");
        }
        assert!(store.clone().replace(NOW, &key(20), None, None).is_err());
        std::fs::remove_file(path).expect("the file exists");
    }
}
