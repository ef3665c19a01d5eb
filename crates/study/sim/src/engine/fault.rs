//! Faults of a simulated network.

use super::HostIndex;
use base::Instant;
use core::ops::Range;
use core::time::Duration;

/// Effect of a [`FaultRule`] on each message that it applies to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FaultEffect {
    /// The message takes this much longer.
    Delay(Duration),
    /// The message takes longer by a uniformly distributed time from zero to this.
    Jitter(Duration),
    /// The message is lost with this probability, 0 to 1.
    Loss(f64),
    /// The message arrives twice with this probability.
    Duplicate(f64),
    /// The message is delayed by this time with this probability, so that later messages overtake it.
    Reorder(f64, Duration),
    /// All messages are lost.
    Partition,
}

/// A fault of the network. Rules are cumulative and apply in the order given.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultRule {
    /// Sender; `None` means any.
    pub from: Option<HostIndex>,
    /// Receiver; `None` means any.
    pub to: Option<HostIndex>,
    /// Times of sending to which the rule applies, without the end.
    pub when: Range<Instant>,
    /// Effect on each message.
    pub effect: FaultEffect,
}

impl FaultRule {
    /// Whether the rule applies to this link.
    pub(crate) fn concerns(&self, from: HostIndex, to: HostIndex) -> bool {
        self.from.is_none_or(|host| host == from) && self.to.is_none_or(|host| host == to)
    }
}
