//! Alarms of an agent's calls, in exact order.

use base::Instant;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Exact alarms for a large number of calls, each identified by a `u32` key.
///
/// A heap, because the tick of a timer wheel would bunch an agent's requests and distort the measured response times.
/// To keep the heap small, a call usually has only one alarm, and the owner of the call remembers its instant. When the
/// deadline becomes later, the owner leaves the alarm unchanged. An alarm that fires too early is [`set`](Self::set)
/// again. An alarm for another instant than the remembered one is outdated.
#[derive(Debug, Default)]
pub(crate) struct Alarms(BinaryHeap<Reverse<(Instant, u32)>>);

impl Alarms {
    pub(crate) fn set(&mut self, at: Instant, key: u32) {
        self.0.push(Reverse((at, key)));
    }

    /// Removes the next alarm that is due at `now`. Returns it with the instant it was set to.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Instant, u32)> {
        self.deadline().filter(|&at| at <= now)?;
        self.0.pop().map(|Reverse(alarm)| alarm)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.0.peek().map(|&Reverse((at, _))| at)
    }
}
