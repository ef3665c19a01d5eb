//! Tickets: a request that may begin something holds one until its outcome is known.

use super::novelty::Novelty;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// How tickets ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Settled,
    Refused,
    Passed,
    Lost,
}

/// The gate's permission for a request: nothing is forwarded without one. Like a lease it is not `Clone`, and it ends once, since
/// ending it takes it. Tickets of requests that begin something are counted; one that is dropped instead counts as lost.
#[derive(Debug)]
pub(crate) struct Ticket {
    novelty: Novelty,
    count: Option<Count>,
}

#[derive(Debug)]
struct Count {
    counts: Arc<[AtomicU64; 4]>,
    ending: Ending,
}

impl Ticket {
    /// The relation of its request to earlier ones.
    pub(crate) fn novelty(&self) -> Novelty {
        self.novelty
    }

    /// Whether it is counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.count.is_some()
    }

    /// The request has its final response from whoever got it.
    pub(crate) fn settle(self) {
        self.end(Ending::Settled);
    }

    /// The request has a refusal of this proxy, or none that anybody hears of.
    pub(crate) fn refuse(self) {
        self.end(Ending::Refused);
    }

    /// The request went on without a transaction: nobody here waits for its response, but the lease of its session,
    /// if it has one.
    pub(crate) fn pass(self) {
        self.end(Ending::Passed);
    }

    fn end(self, ending: Ending) {
        if let Some(mut count) = self.count {
            count.ending = ending;
        }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.counts[self.ending as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The tickets of a shard: how many it has given, and how those ended that are no more.
#[derive(Clone, Debug, Default)]
pub struct TicketCounts {
    given: u64,
    ended: Arc<[AtomicU64; 4]>,
}

impl TicketCounts {
    /// A ticket; it counts if its request is new, and if no other one has counted for its first copy.
    pub(super) fn give(&mut self, novelty: Novelty) -> Ticket {
        let counts = matches!(novelty, Novelty::New | Novelty::CopyOfDropped | Novelty::Retry(_));
        self.given += u64::from(counts);
        let count = counts.then(|| Count { counts: Arc::clone(&self.ended), ending: Ending::Lost });
        Ticket { novelty, count }
    }

    fn of(&self, ending: Ending) -> u64 {
        self.ended[ending as usize].load(Ordering::Relaxed)
    }

    /// Given so far.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Requests with a final response from whoever got them.
    pub fn settled(&self) -> u64 {
        self.of(Ending::Settled)
    }

    /// Requests that this shard refused or dropped after they were admitted.
    pub fn refused(&self) -> u64 {
        self.of(Ending::Refused)
    }

    /// Requests that went on without a transaction.
    pub fn passed(&self) -> u64 {
        self.of(Ending::Passed)
    }

    /// Requests of which nobody has heard again.
    pub fn lost(&self) -> u64 {
        self.of(Ending::Lost)
    }

    /// Requests that are under way: they wait, or their transaction does.
    pub fn open(&self) -> u64 {
        self.given - self.settled() - self.refused() - self.passed() - self.lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ticket_ends_once() {
        let mut counts = TicketCounts::default();
        let tickets: Vec<_> = (0..5).map(|_| counts.give(Novelty::New)).collect();
        assert_eq!((counts.given(), counts.open()), (5, 5));
        let mut tickets = tickets.into_iter();
        let mut next = || tickets.next().expect("there are five");
        next().settle();
        next().refuse();
        next().pass();
        drop(next());
        assert_eq!((counts.settled(), counts.refused(), counts.passed(), counts.lost()), (1, 1, 1, 1));
        counts.give(Novelty::Copy).settle();
        assert_eq!(
            (counts.given(), counts.settled(), counts.open()),
            (5, 1, 1),
            "a copy counts with the first one"
        );
    }
}
