//! The jobs that wait for a simulated processor, in the order of service.

use base::Instant;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// How many [`Priority`]s there are.
const PRIORITIES: usize = 4;

/// Order of service, non-preemptive: a waiting job of a lower number goes first (Overload paper, section IV-A).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Priority {
    /// Served first: timer messages in the paper.
    P1,
    /// In the paper external messages; with early rejection (section VI) requests chosen for rejection.
    P2,
    /// With early rejection all other messages.
    P3,
    /// Served last.
    P4,
}

impl Priority {
    /// All of them, the first to be served first.
    pub const ALL: [Self; PRIORITIES] = [Self::P1, Self::P2, Self::P3, Self::P4];
}

/// What became of a job that was brought to a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It waits.
    Queued,
    /// The buffer is full: gone.
    Dropped,
    /// One like it waits already ([`QueueTriage::key`]): gone.
    Coalesced,
    /// The host is down: gone.
    Lost,
}

/// Rules of a queue that looks at what waits in it. They belong to whoever knows what the jobs mean.
pub trait QueueTriage<J> {
    /// A job is not queued while another of the same key waits. Must depend on the job alone.
    fn key(&self, job: &J) -> Option<u64> {
        let _ = job;
        None
    }

    /// Whether a job counts for the limit of the buffer, and is dropped when that is full unless it [is
    /// spared](Self::is_spared). Must depend on job and priority alone. Timers must not be lost, so theirs have room
    /// without a limit (Overload paper, section IV-A).
    fn is_bounded(&self, class: Priority, job: &J) -> bool {
        let _ = job;
        class != Priority::P1
    }

    /// Whether a bounded job is taken even when the buffer is full: it counts for the limit, and waits beyond it.
    fn is_spared(&self, job: &J) -> bool {
        let _ = job;
        false
    }

    /// Whether a job whose turn has come is no longer worth serving; `since` is when it was queued. It is then
    /// dropped without service.
    fn is_stale(&mut self, now: Instant, since: Instant, job: &J) -> bool {
        let _ = (now, since, job);
        false
    }
}

/// A queue that serves whatever it has taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Plain;

impl<J> QueueTriage<J> for Plain {}

/// The message buffer of a host: one first-in first-out queue a priority, with a common limit for the bounded jobs.
#[derive(Debug)]
pub(crate) struct Buffer<J> {
    queues: [VecDeque<(Instant, J)>; PRIORITIES],
    /// A bit a queue that holds jobs, P1's the lowest.
    filled: u8,
    limit: usize,
    /// Jobs waiting that count.
    occupied: usize,
    /// Keys of waiting jobs; looked up only.
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
    ) -> Admission {
        let bounded = rules.is_bounded(class, &job);
        if bounded && self.occupied >= self.limit && !rules.is_spared(&job) {
            return Admission::Dropped;
        }
        if let Some(key) = rules.key(&job) {
            if self.keys.find(spread(key), |&other| other == key).is_some() {
                return Admission::Coalesced;
            }
            self.keys.insert_unique(spread(key), key, |&other| spread(other));
        }
        self.occupied += usize::from(bounded);
        self.queues[class as usize].push_back((now, job));
        self.filled |= 1 << class as u8;
        Admission::Queued
    }

    /// The next job to be served, and since when it has waited.
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

    /// How many waiting jobs count for the limit.
    pub(crate) fn occupied(&self) -> usize {
        self.occupied
    }
}

/// A hash of a key: keys are often numbers in sequence, and the table wants its upper bits to differ.
fn spread(key: u64) -> u64 {
    let wide = u128::from(key ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15;
    (wide >> 64) as u64 ^ wide as u64
}
