//! Requests without any response, counted by the quarter of a second in which they were sent.

use base::Instant;

const PLACE_NANOS: u64 = 250_000_000;
/// Number of quarters of a second after which an unanswered request no longer counts: it was lost, or the server does
/// not answer requests of its kind. The time is longer than a pause of a server, and than three retransmissions (RFC
/// 3261 §17.1.1.2). So a server that has stopped gets, every four seconds, as many requests as its limit allows.
const PLACES: u64 = 16;
/// Servers answer in about the order of arrival. A request sent this number of quarters of a second before an answered
/// one therefore stops counting (like RACK for TCP segments, RFC 8985).
const PASSED: u64 = 2;
/// A request this number of quarters of a second old stops counting when the server answers another one: it was lost, or
/// a person has to answer it. Otherwise requests lost in an overload would fill the limit.
const OLD: u64 = 4;

const SIZE: usize = PLACES as usize + 1;

/// Number of requests without any response.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Open {
    /// Oldest quarter of a second that counts.
    from: u64,
    /// Sum of the counts.
    total: u32,
    counts: [u32; SIZE],
}

fn place(at: Instant) -> u64 {
    at.as_nanos() / PLACE_NANOS
}

impl Open {
    pub(super) fn add(&mut self, now: Instant) {
        let now = place(now);
        self.leave_behind(now.saturating_sub(PLACES));
        // A request from before all counted quarters is ignored.
        if now >= self.from {
            self.counts[now as usize % SIZE] += 1;
            self.total += 1;
        }
    }

    /// Removes a request sent at `sent` that has a response or is over.
    pub(super) fn remove(&mut self, sent: Instant) {
        let sent = place(sent);
        if sent >= self.from && self.counts[sent as usize % SIZE] > 0 {
            self.counts[sent as usize % SIZE] -= 1;
            self.total -= 1;
        }
    }

    /// Handles a response to a request sent at `sent`.
    pub(super) fn answer(&mut self, now: Instant, sent: Instant) {
        self.remove(sent);
        self.leave_behind(place(sent).saturating_sub(PASSED).max(place(now).saturating_sub(OLD)));
    }

    fn leave_behind(&mut self, from: u64) {
        if from > self.from + SIZE as u64 {
            *self = Self { from, ..Self::default() };
        }
        while self.from < from {
            let gone = core::mem::take(&mut self.counts[self.from as usize % SIZE]);
            self.total -= gone;
            self.from += 1;
        }
    }

    pub(super) fn count(&self, now: Instant) -> u32 {
        let from = place(now).saturating_sub(PLACES);
        if from <= self.from {
            return self.total;
        }
        let counts = self.from..from.min(self.from + SIZE as u64);
        self.total - counts.map(|old| self.counts[old as usize % SIZE]).sum::<u32>()
    }
}
