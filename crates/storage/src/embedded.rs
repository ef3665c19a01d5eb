//! The embedded store: a file that survives crashes, and a copy of it in memory.

use base::UnixTime;
use location::{Aor, MemoryLimits, MemoryStore, Record, Replaced, Store, StoreError};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// Replacements of one commit. More would make those that came first wait without making the commit cheaper.
const BATCH_MAX: usize = 1024;

/// Replacements that may wait. More come faster than the disk takes them: who is refused at once can try again, and what
/// waits takes a bounded piece of memory.
const QUEUE_MAX: usize = 8 * BATCH_MAX;

/// Records looked at for each replacement, to drop those that have expired.
const SWEPT: usize = 4;

/// Who is told what became of a replacement; called on the store's own thread, so it must not wait.
pub type Reply = Box<dyn FnOnce(Result<Replaced, StoreError>) + Send>;

struct Job {
    now: UnixTime,
    aor: Aor,
    expected: Option<Record>,
    new: Option<Record>,
    reply: Reply,
}

/// A handle to the store; all clones are the same store.
///
/// Reads come from memory at once. Replacements are done by one thread, in the order in which they come; all that wait are
/// written in one commit. A reply is given once the commit is on the disk (`redb`, `Durability::Immediate`), and only then
/// do readers see the record: what was acknowledged is never lost, and nothing is seen that could be.
///
/// The limits are checked against what was there before a commit, so one commit may exceed them by what is in it.
#[derive(Clone)]
pub struct Embedded {
    memory: Arc<RwLock<MemoryStore>>,
    jobs: SyncSender<Job>,
}

fn unavailable(what: &str, error: &dyn core::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("{what}: {error}"))
}

impl Embedded {
    /// Opens the file, makes it if it is not there, and loads what is good at `now`. Fails when the file cannot be used: it is
    /// open in another process, is no such file, or has something else than records in it.
    pub fn open(path: &Path, limits: MemoryLimits, now: UnixTime) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let database = Database::create(path).map_err(|error| unavailable(&name, &error))?;
        let (memory, expired) = load(&database, &name, limits, now)?;
        let memory = Arc::new(RwLock::new(memory));
        let (jobs, queue) = sync_channel(QUEUE_MAX);
        let writer = Writer { database, memory: Arc::clone(&memory), name };
        // Nobody sweeps what is not in memory.
        if !expired.is_empty() {
            writer.commit(&expired.into_iter().map(|aor| (aor, None)).collect())?;
        }
        let thread = std::thread::Builder::new().name("bindings".to_owned());
        thread.spawn(move || writer.run(&queue)).map_err(|error| unavailable("its thread", &error))?;
        Ok(Self { memory, jobs })
    }

    /// The record of an address-of-record, as last committed.
    pub fn get(&self, aor: &Aor) -> Option<Record> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner).get(aor).cloned()
    }

    /// Puts `new` in the place of `expected`, and tells `reply` when that is on the disk, or at once when too many wait.
    pub fn submit(
        &self,
        now: UnixTime,
        aor: Aor,
        expected: Option<Record>,
        new: Option<Record>,
        reply: Reply,
    ) {
        let refuse = |job: Job, why: &str| (job.reply)(Err(StoreError::Unavailable(why.to_owned())));
        match self.jobs.try_send(Job { now, aor, expected, new, reply }) {
            Ok(()) => {}
            Err(TrySendError::Full(job)) => refuse(job, "too many registrations wait for the disk"),
            Err(TrySendError::Disconnected(job)) => refuse(job, "its thread has ended"),
        }
    }
}

/// For threads that may wait.
impl Store for Embedded {
    fn read(&mut self, aor: &Aor) -> Result<Option<Record>, StoreError> {
        Ok(self.get(aor))
    }

    fn replace(
        &mut self,
        now: UnixTime,
        aor: &Aor,
        expected: Option<&Record>,
        new: Option<&Record>,
    ) -> Result<Replaced, StoreError> {
        let (sender, result) = channel();
        // Who does not wait any more needs no reply.
        let reply: Reply = Box::new(move |result| drop(sender.send(result)));
        let job = Job { now, aor: aor.clone(), expected: expected.cloned(), new: new.cloned(), reply };
        self.jobs.send(job).map_err(|error| unavailable("its thread", &error))?;
        result.recv().map_err(|error| unavailable("its thread", &error))?
    }
}

/// What is good at `now`, and the keys of what is not. Limits do not keep out what was acknowledged before.
fn load(
    database: &Database,
    name: &str,
    limits: MemoryLimits,
    now: UnixTime,
) -> Result<(MemoryStore, Vec<Aor>), StoreError> {
    let (mut memory, mut expired) = (MemoryStore::new(limits), Vec::new());
    let transaction = database.begin_read().map_err(|error| unavailable(name, &error))?;
    let table = match transaction.open_table(RECORDS) {
        Ok(table) => table,
        // A new file has no table yet.
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok((memory, expired)),
        Err(error) => return Err(unavailable(name, &error)),
    };
    for entry in table.iter().map_err(|error| unavailable(name, &error))? {
        let (key, value) = entry.map_err(|error| unavailable(name, &error))?;
        let record = Record::from_bytes(value.value())
            .ok_or_else(|| StoreError::Corrupt(format!("{name}, key {}", key.value().escape_ascii())))?;
        let aor = Aor::from_key(key.value());
        if record.expires_at() > now {
            memory.set(&aor, Some(record));
        } else {
            expired.push(aor);
        }
    }
    Ok((memory, expired))
}

struct Writer {
    database: Database,
    memory: Arc<RwLock<MemoryStore>>,
    name: String,
}

impl Writer {
    /// Until the last handle is gone.
    fn run(&self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let jobs: Vec<_> = std::iter::once(first).chain(queue.try_iter().take(BATCH_MAX - 1)).collect();
            self.batch(jobs);
        }
    }

    /// One commit, then the copy in memory, then the replies.
    fn batch(&self, jobs: Vec<Job>) {
        let mut changes = BTreeMap::new();
        let now = jobs.iter().map(|job| job.now).max().unwrap_or_default();
        let results: Vec<_> = {
            let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            let expired = memory.sweep(now, SWEPT * jobs.len());
            changes.extend(expired.into_iter().map(|aor| (aor, None)));
            jobs.iter().map(|job| decide(&memory, job, &mut changes)).collect()
        };
        let committed = if changes.is_empty() { Ok(()) } else { self.commit(&changes) };
        if committed.is_ok() {
            let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            for (aor, record) in changes {
                memory.set(&aor, record);
            }
        }
        for (job, result) in jobs.into_iter().zip(results) {
            // A conflict with what was not committed is not known to be one.
            (job.reply)(committed.clone().and(result));
        }
    }

    fn commit(&self, changes: &BTreeMap<Aor, Option<Record>>) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(RECORDS)?;
                for (aor, record) in changes {
                    match record {
                        Some(record) => table.insert(aor.key(), record.as_bytes())?,
                        None => table.remove(aor.key())?,
                    };
                }
            }
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|error| unavailable(&self.name, &error))
    }
}

/// What becomes of a job, given what earlier ones of its batch change.
fn decide(
    memory: &MemoryStore,
    job: &Job,
    changes: &mut BTreeMap<Aor, Option<Record>>,
) -> Result<Replaced, StoreError> {
    let present = changes.get(&job.aor).map_or_else(|| memory.get(&job.aor), Option::as_ref);
    if present != job.expected.as_ref() {
        return Ok(Replaced::Conflict);
    }
    if job.new.as_ref().is_some_and(|new| !memory.has_room(&job.aor, new)) {
        return Err(StoreError::Full);
    }
    changes.insert(job.aor.clone(), job.new.clone());
    Ok(Replaced::Done)
}
