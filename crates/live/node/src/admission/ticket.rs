//! Tickets: a request that may be new holds one until its outcome is known.

use super::novelty::Novelty;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// How a ticket ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Settled,
    Refused,
    Passed,
    Lost,
}

/// The gate's permission to forward a request. It is not `Clone`, and it ends only once, since the methods that end it
/// consume it. Tickets of new requests are counted. A counted ticket that is dropped without such a method counts as
/// lost.
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
    pub(crate) fn novelty(&self) -> Novelty {
        self.novelty
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.count.is_some()
    }

    /// Ends the ticket of a request with a final response from another element.
    pub(crate) fn settle(self) {
        self.end(Ending::Settled);
    }

    /// Ends the ticket of a request that this proxy refused or dropped.
    pub(crate) fn refuse(self) {
        self.end(Ending::Refused);
    }

    /// Ends the ticket of a request that was forwarded without a transaction. After that only the lease of its session,
    /// if it has one, waits for the response.
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

/// The tickets of a shard: the number given, and how they ended.
#[derive(Clone, Debug, Default)]
pub struct TicketCounts {
    given: u64,
    ended: Arc<[AtomicU64; 4]>,
}

impl TicketCounts {
    /// Creates a ticket. It is counted unless the request is a copy of a forwarded request, or belongs to a dialog or
    /// another request.
    pub(super) fn give(&mut self, novelty: Novelty) -> Ticket {
        let counts = matches!(novelty, Novelty::New | Novelty::CopyOfDropped | Novelty::Retry(_));
        self.given += u64::from(counts);
        let count = counts.then(|| Count { counts: Arc::clone(&self.ended), ending: Ending::Lost });
        Ticket { novelty, count }
    }

    fn of(&self, ending: Ending) -> u64 {
        self.ended[ending as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of tickets given.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Returns the number of requests with a final response from another element.
    pub fn settled(&self) -> u64 {
        self.of(Ending::Settled)
    }

    /// Returns the number of requests that this shard refused or dropped after admission.
    pub fn refused(&self) -> u64 {
        self.of(Ending::Refused)
    }

    /// Returns the number of requests that were forwarded without a transaction.
    pub fn passed(&self) -> u64 {
        self.of(Ending::Passed)
    }

    /// Returns the number of requests with an unknown outcome.
    pub fn lost(&self) -> u64 {
        self.of(Ending::Lost)
    }

    /// Returns the number of requests in progress: waiting, or with an open transaction.
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
        let mut next = || tickets.next().expect("there are five tickets");
        next().settle();
        next().refuse();
        next().pass();
        drop(next());
        assert_eq!((counts.settled(), counts.refused(), counts.passed(), counts.lost()), (1, 1, 1, 1));
        counts.give(Novelty::Copy).settle();
        assert_eq!(
            (counts.given(), counts.settled(), counts.open()),
            (5, 1, 1),
            "a copy counts with its first copy"
        );
    }
}
