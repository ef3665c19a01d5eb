//! Faults of a simulated network.

use super::HostIndex;
use base::Instant;
use core::ops::Range;
use core::time::Duration;

/// What a [`FaultRule`] does to each message that it meets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FaultEffect {
    /// Takes this much longer.
    Delay(Duration),
    /// Takes longer by a time that is evenly distributed from zero to this.
    Jitter(Duration),
    /// Lost with this probability, 0 to 1.
    Loss(f64),
    /// Arrives twice with this probability.
    Duplicate(f64),
    /// Held back with this probability, for this long: messages behind it overtake.
    Reorder(f64, Duration),
    /// Nothing gets through.
    Partition,
}

/// A fault of the network: which links, when, what. Rules add up; each is looked at in the order given.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultRule {
    /// Sender; `None` is any.
    pub from: Option<HostIndex>,
    /// Receiver; `None` is any.
    pub to: Option<HostIndex>,
    /// From the start until just before the end, by the time of sending.
    pub when: Range<Instant>,
    /// What happens.
    pub what: FaultEffect,
}

impl FaultRule {
    /// Whether the rule is for this link.
    pub(crate) fn concerns(&self, from: HostIndex, to: HostIndex) -> bool {
        self.from.is_none_or(|host| host == from) && self.to.is_none_or(|host| host == to)
    }
}
