//! Settings of the queue.

use crate::estimate::VALIDITY;
use core::time::Duration;

/// How often a member may pull: its credit, of which each call takes one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Accrual {
    /// As it answers: what it has unanswered bounds it, so a [threshold](QueueSettings::threshold) is needed: by its
    /// capacity, or by the calls a second that it answers now. So a capacity that is too low makes no call wait.
    Answers {
        /// Calls a second that it gets at most, more than none, with 100 ms of that in store.
        most: f64,
    },
    /// Evenly at its capacity, with no more in store than comes in 100 ms, but room for one call: calls reach the
    /// member at the rate that it asked for, not all at the beginning of a second.
    Smooth,
    /// The paper's: each second begins with the capacity as a counter (listing 1, lines 17 and 19), what is left over
    /// is gone.
    PerSecond,
}

/// Which member with room gets a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The one with the most credit, as part of what it can hold: members get calls in proportion to their
    /// capacities, a small one too. The paper says "a server with capacity > 0".
    MostRoom,
    /// Transaction-Least-Work-Left: the one with the least load by its capacity, by the load that the caller told.
    /// Load follows contention at once, a capacity only after some windows.
    #[default]
    Tlwl,
    /// Index packing (`AutoScale`): the first in order, so that the last ones have nothing to do and can be stopped.
    IndexPacking,
}

/// The response to a call that cannot wait, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// 503 with a Retry-After between these numbers of seconds, both included, spread by the injected number so that
    /// the refused do not come back at once.
    Refuse {
        /// At least.
        least: u32,
        /// At most.
        most: u32,
    },
    /// Nothing: "new calls are dropped" (section V-B). Over UDP the INVITE comes again.
    Drop,
}

/// How many calls may wait: as many as all members take within the wanted delay (`queue_length` of section V-B).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthSettings {
    /// The wanted delay: 200 ms.
    pub delay: Duration,
    /// At least so many: 8, for members that have not announced anything yet.
    pub least: usize,
    /// At most so many, whatever members announce: 10,000. What waits takes memory.
    pub most: usize,
}

impl LengthSettings {
    /// How many may wait before members of this total capacity, calls a second.
    pub fn length(&self, total: f64) -> usize {
        let wanted = (self.delay.as_secs_f64() * total) as usize;
        wanted.max(self.least).min(self.most)
    }
}

/// Settings of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueSettings {
    /// How long an item waits at most: 250 ms, half of T1. The client sends its INVITE again after T1 (RFC 3261
    /// section 17.1.1.2), so a call that is delivered in time needs no copy. More for callers that are told to wait
    /// by 100, which stops the copies.
    pub bound: Duration,
    /// How many wait.
    pub length: LengthSettings,
    /// The response to a call that finds the queue full.
    pub overflow: Overflow,
    /// How credit accrues: evenly at the capacity.
    pub accrual: Accrual,
    /// Which member gets the next call.
    pub choice: Choice,
    /// No call for a member that has as many calls unanswered as it can take in this time, but one at a time
    /// ([`MemberView::unanswered_most`](super::MemberView::unanswered_most)). The caller has to tell of answers
    /// ([`FrontQueue::answered`](super::FrontQueue::answered)), so none by default.
    pub threshold: Option<Duration>,
    /// How long an announced capacity holds: [`VALIDITY`].
    pub validity: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            bound: Duration::from_millis(250),
            length: LengthSettings { delay: Duration::from_millis(200), least: 8, most: 10_000 },
            overflow: Overflow::Refuse { least: 5, most: 15 },
            accrual: Accrual::Smooth,
            choice: Choice::default(),
            threshold: None,
            validity: VALIDITY,
        }
    }
}
