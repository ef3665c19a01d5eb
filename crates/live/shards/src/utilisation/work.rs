//! What threads have done, and what that took.

use crate::proc::sleeps;
use base::{Ledger, Operation};
use core::ops::AddAssign;
use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};

/// The work of one thread, or of several, since they began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Messages that were read.
    pub read: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Transactions that were made.
    pub transactions: u64,
    /// How often a thread slept until it was woken.
    pub sleeps: u64,
    /// Processor time of the threads, the kernel's included.
    pub processor: Duration,
}

impl Work {
    /// That of the calling thread, by what its shard and its sockets have counted.
    pub fn of_this_thread(ledger: Ledger, sent: u64) -> Self {
        Self {
            read: ledger[Operation::Scan],
            sent,
            transactions: ledger[Operation::CreateTransaction],
            // Without /proc it seems to sleep never, and the price of work holds that of waking up.
            sleeps: sleeps().unwrap_or_default(),
            processor: time_of(ClockId::ThreadCPUTime),
        }
    }

    /// What was done since then.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            sent: self.sent.saturating_sub(before.sent),
            transactions: self.transactions.saturating_sub(before.transactions),
            sleeps: self.sleeps.saturating_sub(before.sleeps),
            processor: self.processor.saturating_sub(before.processor),
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.sent += other.sent;
        self.transactions += other.transactions;
        self.sleeps += other.sleeps;
        self.processor += other.processor;
    }
}

/// The time that a clock shows.
pub(super) fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
