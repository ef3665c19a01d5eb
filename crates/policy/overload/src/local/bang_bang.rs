//! Bang-bang control of the queue length.

use super::Controller;
use crate::signal::HostLoad;
use crate::{AdmissionVerdict, MessageClass, Tier};
use base::{Instant, Rng};

/// Watermarks, in waiting messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BangBangSettings {
    /// Above this length the server is overloaded.
    pub high: usize,
    /// Below this length it is no longer overloaded.
    pub low: usize,
}

impl Default for BangBangSettings {
    /// 800 and 600, for a buffer of 1000 (Overload paper, IV-A).
    fn default() -> Self {
        Self { high: 800, low: 600 }
    }
}

/// State with hysteresis: overloaded from the time the queue exceeds the high watermark until it falls below the low
/// one.
#[derive(Clone, Debug)]
pub(crate) struct Hysteresis {
    settings: BangBangSettings,
    overloaded: bool,
}

impl Hysteresis {
    pub(crate) const fn new(settings: BangBangSettings) -> Self {
        Self { settings, overloaded: false }
    }

    pub(crate) const fn on_queue(&mut self, queue: usize) {
        if queue > self.settings.high {
            self.overloaded = true;
        } else if queue < self.settings.low {
            self.overloaded = false;
        }
    }

    pub(crate) const fn rejects(&self, class: MessageClass) -> bool {
        self.overloaded && matches!(class.tier(), Tier::First)
    }

    pub(crate) const fn acceptance(&self) -> f64 {
        if self.overloaded { 0.0 } else { 1.0 }
    }
}

/// Bang-bang control (BBC): in overload every new request is rejected, otherwise none (Overload paper, VI-B). New
/// requests with priority always pass; only the buffer limits them.
#[derive(Clone, Debug)]
pub struct BangBang(Hysteresis);

impl BangBang {
    /// Creates a controller that is not overloaded.
    pub const fn new(settings: BangBangSettings) -> Self {
        Self(Hysteresis::new(settings))
    }
}

impl Controller for BangBang {
    fn name(&self) -> &'static str {
        "bang-bang"
    }

    fn judge(&mut self, _: Instant, class: MessageClass, _: &HostLoad, _: &mut Rng) -> AdmissionVerdict {
        AdmissionVerdict::accept_if(!self.0.rejects(class))
    }

    fn on_queue(&mut self, queue: usize) {
        self.0.on_queue(queue);
    }

    fn acceptance(&self, _: &HostLoad) -> f64 {
        self.0.acceptance()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_changes_only_above_the_high_and_below_the_low_watermark() {
        let mut law = BangBang::new(BangBangSettings::default());
        let mut rng = Rng::from_seed(1);
        let mut at = |queue, class| {
            law.on_queue(queue);
            law.judge(Instant::ZERO, class, &HostLoad::default(), &mut rng).is_accept()
        };
        let accepts =
            [700, 800, 801, 700, 600, 599, 700, 800].map(|queue| at(queue, MessageClass::NewInvite));
        assert_eq!(accepts, [true, true, false, false, false, true, true, true]);
        at(801, MessageClass::NewInvite);
        for class in MessageClass::ALL {
            assert_eq!(at(801, class), class.tier() != Tier::First, "{class:?}");
        }
    }
}
