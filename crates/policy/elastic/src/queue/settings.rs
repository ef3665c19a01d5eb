//! Settings of the queue.

use crate::estimate::VALIDITY;
use core::time::Duration;

/// Rule by which a member gets credit. Each call that the member gets takes one unit of credit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Accrual {
    /// At the rate of the member's responses. The number of unanswered calls limits the calls that it gets, so a
    /// [threshold](QueueSettings::threshold) is required. This limit comes from the capacity of the member or from its
    /// present rate of responses. So a capacity that is announced too low makes no call wait.
    Answers {
        /// Most calls a second, above 0. At most the credit of 100 ms at this rate is kept.
        most: f64,
    },
    /// Evenly, at the member's capacity. At most the credit of 100 ms is kept, or the credit of one call if that is
    /// more. So calls reach the member at an even rate, not all at the start of a second.
    Smooth,
    /// The paper's rule (listing 1, lines 17 and 19): each second, a counter is set to the capacity. Whole calls that
    /// are left from the second before are dropped.
    PerSecond,
}

/// Choice of the member with room that gets a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemberChoice {
    /// The member with the highest credit relative to the most credit that it can have. Near full load, members get
    /// calls in proportion to their capacities. Below it all credits are full, and equal members get calls by turn. The
    /// paper says "a server with capacity > 0".
    MostRoom,
    /// Transaction-Least-Work-Left: the member with the least load divided by capacity. The caller of the queue sets
    /// the load. Load shows contention at once; an announced capacity shows it only after some measurement windows.
    #[default]
    Tlwl,
    /// Index packing (`AutoScale`): the first member in order, so that the last ones are idle and can be stopped.
    IndexPacking,
}

/// Response to a call that cannot wait, or has waited too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// 503 with a Retry-After between these numbers of seconds, inclusive. A random number spreads the values, so that
    /// refused callers do not all retry at the same time.
    Refuse {
        /// Least value.
        least: u32,
        /// Largest value.
        most: u32,
    },
    /// No response: "new calls are dropped" (section V-B). Over UDP the INVITE is retransmitted.
    Drop,
}

/// Limit of waiting calls: as many as all members together take within the target delay (`queue_length` of section
/// V-B).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthSettings {
    /// Target delay; by default 200 ms.
    pub delay: Duration,
    /// Least value of the limit; by default 8. It applies while no member has announced a capacity.
    pub least: usize,
    /// Largest value of the limit, however large the announced capacities are; by default 10,000. Waiting calls take
    /// memory.
    pub most: usize,
}

impl LengthSettings {
    /// Returns the limit of waiting calls for members with this total capacity, in calls a second.
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
