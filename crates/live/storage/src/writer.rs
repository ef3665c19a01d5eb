//! Writer thread of the embedded store: takes replacements, commits them, and answers.

use crate::file::{Changes, File};
use base::UnixTime;
use location::{Aor, BindingsRecord, MemoryStore, Replaced, StoreError};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError, RwLock};

/// Maximum number of replacements of one commit. More would delay the first ones without making the commit cheaper.
pub(crate) const BATCH_MAX: usize = 1024;

/// Records that are checked for expiry with each replacement.
const SWEPT: usize = 4;

/// Records written to memory at a time. Readers wait meanwhile, some microseconds.
const PUBLISHED: usize = 32;

/// Callback for the result of a replacement; called on the store's own thread, so it must neither wait nor panic.
pub type OnReplaced = Box<dyn FnOnce(Result<Replaced, StoreError>) + Send>;

/// A reply that is given in any case: with an error if it is dropped, for example by a panic of the thread.
pub(crate) struct Pending(Option<OnReplaced>);

impl Pending {
    pub(crate) fn new(reply: OnReplaced) -> Self {
        Self(Some(reply))
    }

    pub(crate) fn answer(mut self, result: Result<Replaced, StoreError>) {
        if let Some(reply) = self.0.take() {
            reply(result);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply(Err(StoreError::Unavailable("its thread has ended".to_owned())));
        }
    }
}

/// Replacement to be made.
pub(crate) struct Job {
    pub(crate) now: UnixTime,
    pub(crate) aor: Aor,
    pub(crate) expected: Option<BindingsRecord>,
    pub(crate) new: Option<BindingsRecord>,
    pub(crate) reply: Pending,
}

/// The only writer of the file and of memory.
pub(crate) struct Writer {
    pub(crate) file: File,
    pub(crate) memory: Arc<RwLock<MemoryStore>>,
    /// Last key of the sweep, which continues after it.
    pub(crate) swept: Option<Aor>,
}

impl Writer {
    /// Runs until the last handle is dropped.
    pub(crate) fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let jobs: Vec<_> = std::iter::once(first).chain(queue.try_iter().take(BATCH_MAX - 1)).collect();
            let (results, failed) = match self.batch(&jobs) {
                Ok(results) => (results, None),
                // A conflict with an uncommitted replacement may not be a conflict, so all fail.
                Err(error) => (Vec::new(), Some(error)),
            };
            let mut results = results.into_iter();
            for job in jobs {
                let result = failed.clone().map_or_else(|| results.next(), |error| Some(Err(error)));
                if let Some(result) = result {
                    job.reply.answer(result);
                }
            }
        }
    }

    /// Makes one commit, then updates the copy in memory. Returns the result of each job.
    fn batch(&mut self, jobs: &[Job]) -> Result<Vec<Result<Replaced, StoreError>>, StoreError> {
        let found = self.file.reopen()?;
        self.publish(found);
        let mut changes = Changes::new();
        let now = jobs.iter().map(|job| job.now).max().unwrap_or_default();
        let results = {
            // Readers may read at the same time.
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            let (expired, last) = memory.expired(now, self.swept.as_ref(), SWEPT * jobs.len());
            self.swept = last;
            // Records leave memory after they have left the file: a key that only the file has would never be swept.
            changes.extend(expired.into_iter().map(|aor| (aor, None)));
            jobs.iter().map(|job| decide(&memory, job, &mut changes)).collect()
        };
        if !changes.is_empty() {
            self.file.commit(&changes)?;
            self.publish(changes);
        }
        Ok(results)
    }

    /// Copies records of the file into memory.
    fn publish(&self, changes: Changes) {
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            for (aor, record) in changes.by_ref().take(PUBLISHED) {
                memory.set(&aor, record);
            }
        }
    }
}

/// Result of a job, given the changes of earlier jobs in its batch.
fn decide(memory: &MemoryStore, job: &Job, changes: &mut Changes) -> Result<Replaced, StoreError> {
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
