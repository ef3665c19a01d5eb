//! Requests without any answer, by the quarter of a second in which they were sent.

use base::Instant;

const PLACE_NANOS: u64 = 250_000_000;
/// A request that has no answer for so many quarters of a second counts no more: it was lost, or nobody answers its
/// kind. Longer than a pause of a server, and than three retransmissions (RFC 3261 §17.1.1.2). So a server that stands
/// still gets as many as its limit allows every four seconds.
const PLACES: u64 = 16;
/// Servers answer in about the order of arrival. A request counts no more, either, once another one is answered that
/// was sent so many quarters of a second later (as RACK has it for segments of TCP, RFC 8985).
const PASSED: u64 = 2;

const SIZE: usize = PLACES as usize + 1;

/// How many requests a server has without any answer.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Open {
    /// The oldest quarter of a second that counts.
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
        // A clock that goes back is none: what is older than all that counts does not.
        if now >= self.from {
            self.counts[now as usize % SIZE] += 1;
            self.total += 1;
        }
    }

    /// A request that was sent then has an answer, or is over.
    pub(super) fn remove(&mut self, sent: Instant) {
        let sent = place(sent);
        if sent >= self.from && self.counts[sent as usize % SIZE] > 0 {
            self.counts[sent as usize % SIZE] -= 1;
            self.total -= 1;
        }
    }

    /// A request that was sent then was answered.
    pub(super) fn answer(&mut self, sent: Instant) {
        self.remove(sent);
        self.leave_behind(place(sent).saturating_sub(PASSED));
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
