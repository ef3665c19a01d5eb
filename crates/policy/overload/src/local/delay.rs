//! Admission by queueing delay.

use super::Controller;
use crate::signal::HostLoad;
use crate::{AdmissionVerdict, MessageClass, T1, Tier};
use base::{Instant, Rng};
use core::time::Duration;
use rand::Rng as _;

/// Bounds of the expected wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelaySettings {
    /// Longest wait at which every new request is accepted.
    pub onset: Duration,
    /// Wait from which no new request is accepted; for requests with priority it is twice this wait. The bound is below
    /// T1/4, so twice the bound is below T1/2, and the response arrives before the sender retransmits.
    pub bound: Duration,
}

impl DelaySettings {
    /// Bounds of a host that serves messages of existing calls first, T1/8 and T1/4: 62 ms and 125 ms. Only new requests
    /// wait there, for the whole backlog, so a call is set up soon after this wait.
    pub const ORDERED: Self =
        Self { onset: Duration::from_micros(62_500), bound: Duration::from_millis(125) };
}

impl Default for DelaySettings {
    /// T1/16 and T1/8: 31 ms and 62 ms.
    fn default() -> Self {
        Self { onset: T1 / 16, bound: T1 / 8 }
    }
}

/// Accepts a new request if its expected wait is short. This law is not in the Overload paper.
///
/// The wait is the work already queued ahead of it ([`crate::signal::Backlog`]), so the law reacts to a step of the
/// load at once and needs no epochs. Between `onset` and `bound` the probability falls linearly from 1 to 0. With a
/// sudden change, bursts of INVITEs would be accepted, whose responses and ACKs would then also come as a burst.
#[derive(Clone, Debug)]
pub struct Delay(DelaySettings);

impl Delay {
    /// Creates a controller that accepts everything while nothing waits.
    pub const fn new(settings: DelaySettings) -> Self {
        Self(settings)
    }

    /// Probability of acceptance at an expected wait, with both bounds multiplied by `scale`.
    fn probability(&self, wait: Duration, scale: u32) -> f64 {
        let [onset, bound, wait] =
            [self.0.onset * scale, self.0.bound * scale, wait].map(|d| d.as_secs_f64());
        if wait <= onset { 1.0 } else { ((bound - wait) / (bound - onset)).max(0.0) }
    }
}

impl Controller for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn judge(&mut self, _: Instant, class: MessageClass, load: &HostLoad, rng: &mut Rng) -> AdmissionVerdict {
        let draw = rng.random::<f64>();
        AdmissionVerdict::accept_if(match class.tier() {
            Tier::First => draw < self.probability(load.wait, 1),
            Tier::Later => draw < self.probability(load.wait, 2),
            Tier::Last | Tier::Never => true,
        })
    }

    fn acceptance(&self, load: &HostLoad) -> f64 {
        self.probability(load.wait, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_falls_linearly_and_priority_may_wait_twice_as_long() {
        let mut law =
            Delay::new(DelaySettings { onset: Duration::from_millis(40), bound: Duration::from_millis(80) });
        let mut rng = Rng::from_seed(1);
        let mut taken = |class, millis| {
            let load = HostLoad { wait: Duration::from_millis(millis), ..HostLoad::default() };
            (0..1_000).filter(|_| law.judge(Instant::ZERO, class, &load, &mut rng).is_accept()).count()
        };
        assert_eq!([0, 40, 80].map(|wait| taken(MessageClass::NewInvite, wait)), [1_000, 1_000, 0]);
        assert!(taken(MessageClass::NewInvite, 50).abs_diff(750) < 50);
        assert_eq!([80, 160].map(|wait| taken(MessageClass::Priority, wait)), [1_000, 0]);
        for class in
            [MessageClass::Repeat, MessageClass::Closing, MessageClass::InDialog, MessageClass::Response]
        {
            assert_eq!(taken(class, 10_000), 1_000, "{class:?}");
        }
    }

    #[test]
    fn without_a_slope_the_bound_is_a_threshold() {
        let edge = Duration::from_millis(80);
        let mut law = Delay::new(DelaySettings { onset: edge, bound: edge });
        let mut rng = Rng::from_seed(1);
        let mut taken = |millis| {
            let load = HostLoad { wait: Duration::from_millis(millis), ..HostLoad::default() };
            law.judge(Instant::ZERO, MessageClass::NewInvite, &load, &mut rng).is_accept()
        };
        assert!(taken(80) && !taken(81));
    }
}
