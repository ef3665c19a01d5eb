//! Settings of the queue.

use crate::estimate::VALIDITY;
use core::time::Duration;

/// Rate at which a member may pull: its credit, of which each call takes one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Accrual {
    /// At the rate of its responses. The unanswered calls bound it, so a [threshold](QueueSettings::threshold) is
    /// required. The bound comes from its capacity or its present rate of responses, so that a capacity that is too low
    /// makes no call wait.
    Answers {
        /// Most calls a second, above 0; credit for 100 ms of them is kept.
        most: f64,
    },
    /// Evenly at its capacity. Keeps the credit of 100 ms, and at least one call. Calls reach the member at its rate,
    /// not all at the start of a second.
    Smooth,
    /// The paper's rule: each second starts with the capacity as a counter (listing 1, lines 17 and 19); the remainder
    /// is dropped.
    PerSecond,
}

/// Choice of the member with room that gets a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemberChoice {
    /// The member with the most credit relative to the most it can hold. All members, small ones too, get calls in
    /// proportion to their capacities. The paper says "a server with capacity > 0".
    MostRoom,
    /// Transaction-Least-Work-Left: the member with the least load divided by capacity; the caller sets the load. Load
    /// shows contention at once, capacity only after some windows.
    #[default]
    Tlwl,
    /// Index packing (`AutoScale`): the first member in order, so that the last ones are idle and can be stopped.
    IndexPacking,
}

/// Response to a call that cannot wait, or has waited too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// 503 with a Retry-After between these numbers of seconds, inclusive. The given random number spreads it, so that
    /// refused callers do not come back at once.
    Refuse {
        /// Least value.
        least: u32,
        /// Largest value.
        most: u32,
    },
    /// No response: "new calls are dropped" (section V-B). Over UDP the INVITE is retransmitted.
    Drop,
}

/// Most waiting calls: as many as all members take within the target delay (`queue_length` of section V-B).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthSettings {
    /// Target delay: 200 ms.
    pub delay: Duration,
    /// Least value: 8, for members without an announcement.
    pub least: usize,
    /// Largest value, whatever members announce: 10,000. Waiting calls take memory.
    pub most: usize,
}

impl LengthSettings {
    /// Most waiting calls for members of this total capacity, in calls a second.
    pub fn length(&self, total: f64) -> usize {
        let wanted = (self.delay.as_secs_f64() * total) as usize;
        wanted.max(self.least).min(self.most)
    }
}

/// Settings of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueSettings {
    /// Longest wait of an item: 250 ms, half of T1. The client retransmits its INVITE after T1 (RFC 3261 section
    /// 17.1.1.2), so a call delivered in time needs no copy. May be longer for callers that got a 100, which stops
    /// retransmissions.
    pub bound: Duration,
    /// Most waiting calls.
    pub length: LengthSettings,
    /// Response to a call when the queue is full.
    pub overflow: Overflow,
    /// Accrual of credit: evenly at the capacity.
    pub accrual: Accrual,
    /// Choice of the member for the next call.
    pub choice: MemberChoice,
    /// Time that bounds unanswered calls: a member with as many unanswered calls as it can take in this time gets only
    /// one more at a time ([`MemberView::unanswered_most`](super::MemberView::unanswered_most)). The caller must report
    /// responses ([`FrontQueue::answered`](super::FrontQueue::answered)), so it is off by default.
    pub threshold: Option<Duration>,
    /// Validity of an announced capacity: [`VALIDITY`].
    pub validity: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            bound: Duration::from_millis(250),
            length: LengthSettings { delay: Duration::from_millis(200), least: 8, most: 10_000 },
            overflow: Overflow::Refuse { least: 5, most: 15 },
            accrual: Accrual::Smooth,
            choice: MemberChoice::default(),
            threshold: None,
            validity: VALIDITY,
        }
    }
}
