//! The alarms of an agent's calls, in exact order.

use base::Instant;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Exact alarms for a large number of calls, each known by a `u32` key.
///
/// A timer wheel's tick would bunch the requests of an agent and show up in the response times that it
/// measures, hence a heap. To keep it small, a call has one alarm at most, mostly: the owner remembers the
/// instant that it has [`set`](Self::set), lets it stand when the call's deadline moves away, and sets it
/// again when it has rung too early. An alarm that rings for a call that remembers another instant is old.
#[derive(Debug, Default)]
pub(crate) struct Alarms(BinaryHeap<Reverse<(Instant, u32)>>);

impl Alarms {
    pub(crate) fn set(&mut self, at: Instant, key: u32) {
        self.0.push(Reverse((at, key)));
    }

    /// The next alarm that is due at `now`, with the instant it was set to.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, u32)> {
        self.deadline().filter(|&at| at <= now)?;
        self.0.pop().map(|Reverse(alarm)| alarm)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.0.peek().map(|&Reverse((at, _))| at)
    }
}
