//! The queue of jobs before a simulated processor, in the order of service.

use base::Instant;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Number of [`Priority`]s.
const PRIORITIES: usize = 4;

/// Order of service, non-preemptive: waiting jobs with a lower number go first (Overload paper, section IV-A).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Priority {
    /// Served first: timer messages in the paper.
    P1,
    /// In the paper, external messages. With early rejection (section VI), requests chosen for rejection.
    P2,
    /// With early rejection, all other messages.
    P3,
    /// Served last.
    P4,
}

impl Priority {
    /// All priorities in the order of service.
    pub const ALL: [Self; PRIORITIES] = [Self::P1, Self::P2, Self::P3, Self::P4];
}

/// Outcome of queueing a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnqueueOutcome {
    /// The job waits.
    Queued,
    /// The job is dropped because the buffer is full.
    Dropped,
    /// The job is dropped because another with the same [key](QueueTriage::key) waits already.
    Coalesced,
    /// The job is lost because the host is down.
    Lost,
}

/// Rules of a queue that depend on the waiting jobs. The model implements them.
pub trait QueueTriage<J> {
    /// Key of a job: the job is not queued while another with the same key waits. Must depend on the job alone.
    fn key(&self, job: &J) -> Option<u64> {
        let _ = job;
        None
    }

    /// Whether a job counts for the limit of the buffer. Such a job is dropped when the buffer is full, unless it [is
    /// spared](Self::is_spared). Must depend on job and priority alone. Timers must not be lost, so they wait without a
    /// limit (Overload paper, section IV-A).
    fn is_bounded(&self, class: Priority, job: &J) -> bool {
        let _ = job;
        class != Priority::P1
    }

    /// Whether a bounded job is queued even when the buffer is full. It still counts for the limit.
    fn is_spared(&self, job: &J) -> bool {
        let _ = job;
        false
    }

    /// Whether a job is dropped at its turn because service is no longer useful. It was queued at `since`.
    fn is_stale(&mut self, now: Instant, since: Instant, job: &J) -> bool {
        let _ = (now, since, job);
        false
    }
}

/// A queue that serves every accepted job.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Plain;

impl<J> QueueTriage<J> for Plain {}

/// Message buffer of a host: one first-in first-out queue per priority, with a common limit for the bounded jobs.
#[derive(Debug)]
pub(crate) struct Buffer<J> {
    queues: [VecDeque<(Instant, J)>; PRIORITIES],
    /// One bit for each queue with jobs; P1 is the lowest bit.
    filled: u8,
    limit: usize,
    /// Number of waiting jobs that count for the limit.
    occupied: usize,
    /// Keys of waiting jobs. Only looked up, never iterated.
    keys: HashTable<u64>,
}

impl<J> Buffer<J> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            queues: core::array::from_fn(|_| VecDeque::new()),
            filled: 0,
            limit,
            occupied: 0,
            keys: HashTable::new(),
        }
    }

    pub(crate) fn push(
        &mut self,
        now: Instant,
        class: Priority,
        job: J,
        rules: &impl QueueTriage<J>,
    ) -> EnqueueOutcome {
        let bounded = rules.is_bounded(class, &job);
        if bounded && self.occupied >= self.limit && !rules.is_spared(&job) {
            return EnqueueOutcome::Dropped;
        }
        if let Some(key) = rules.key(&job) {
            if self.keys.find(spread(key), |&other| other == key).is_some() {
                return EnqueueOutcome::Coalesced;
            }
            self.keys.insert_unique(spread(key), key, |&other| spread(other));
        }
        self.occupied += usize::from(bounded);
        self.queues[class as usize].push_back((now, job));
        self.filled |= 1 << class as u8;
        EnqueueOutcome::Queued
    }

    /// Removes the next job. Returns it with its priority and the time when it was queued.
    pub(crate) fn pop(&mut self, rules: &impl QueueTriage<J>) -> Option<(Priority, Instant, J)> {
        let &class = Priority::ALL.get(self.filled.trailing_zeros() as usize)?;
        let queue = &mut self.queues[class as usize];
        let (since, job) = queue.pop_front()?;
        if queue.is_empty() {
            self.filled &= !(1 << class as u8);
        }
        self.occupied -= usize::from(rules.is_bounded(class, &job));
        if let Some(key) = rules.key(&job)
            && let Ok(entry) = self.keys.find_entry(spread(key), |&other| other == key)
        {
            entry.remove();
        }
        Some((class, since, job))
    }

    /// Whether no job waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Number of waiting jobs that count for the limit.
    pub(crate) fn occupied(&self) -> usize {
        self.occupied
    }
}

/// Hash of a key. Keys are often sequential numbers, and the table needs upper bits that differ.
fn spread(key: u64) -> u64 {
    let wide = u128::from(key ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15;
    (wide >> 64) as u64 ^ wide as u64
}
