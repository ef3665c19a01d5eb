//! Counts of the work of threads, and the processor time that it took.

use crate::proc::sleeps;
use base::{Ledger, Operation};
use core::ops::AddAssign;
use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};

/// Work of one or more threads since they started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadWork {
    /// Messages read.
    pub read: u64,
    /// Messages sent.
    pub sent: u64,
    /// Transactions created.
    pub transactions: u64,
    /// Number of sleeps that ended with a wake-up.
    pub sleeps: u64,
    /// Processor time of the threads, in user mode and in the kernel.
    pub processor: Duration,
}

impl ThreadWork {
    /// Returns the work of the calling thread, from the counts of its shard and sockets.
    pub fn of_this_thread(ledger: Ledger, sent: u64) -> Self {
        Self {
            read: ledger[Operation::Scan],
            sent,
            transactions: ledger[Operation::CreateTransaction],
            // Without /proc the count of sleeps stays 0, and the price of work includes the price of wake-ups.
            sleeps: sleeps().unwrap_or_default(),
            processor: time_of(ClockId::ThreadCPUTime),
        }
    }

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

impl AddAssign for ThreadWork {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.sent += other.sent;
        self.transactions += other.transactions;
        self.sleeps += other.sleeps;
        self.processor += other.processor;
    }
}

pub(super) fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
