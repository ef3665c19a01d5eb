//! The occupancy algorithm.

use super::Controller;
use crate::signal::HostLoad;
use crate::{AdmissionVerdict, MessageClass, Mix, Scope};
use base::{Instant, Rng};
use core::time::Duration;

/// Constants of equations 1 and 2.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OccupancySettings {
    /// `f_min`: smallest accepted fraction. A fraction of 0 could not grow again by multiplication.
    pub acceptance_min: f64,
    /// `phi_max`: largest increase from one epoch to the next.
    pub increase_max: f64,
    /// `rho_target`: target utilisation.
    pub target: f64,
    /// `tau`: length of an epoch.
    pub period: Duration,
    /// Weight of the newest utilisation in a moving average; 1 for no smoothing.
    pub weight: f64,
}

impl Default for OccupancySettings {
    /// 0.02, 5, 0.9, 1 s, no smoothing (Overload paper, VI-C).
    fn default() -> Self {
        Self {
            acceptance_min: 0.02,
            increase_max: 5.0,
            target: 0.9,
            period: Duration::from_secs(1),
            weight: 1.0,
        }
    }
}

impl OccupancySettings {
    /// Returns `f` of the next epoch, computed from `f` and the utilisation of this epoch by equations 1 and 2.
    pub fn next(&self, acceptance: f64, utilisation: f64) -> f64 {
        // An idle processor (rho = 0) would give an infinite increase; `phi_max` bounds it.
        let factor = (self.target / utilisation.max(f64::MIN_POSITIVE)).min(self.increase_max);
        (factor * acceptance).clamp(self.acceptance_min, 1.0)
    }
}

/// Probability f, updated each epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acceptance {
    settings: OccupancySettings,
    /// f of this epoch.
    pub(crate) value: f64,
    /// Moving average of the utilisation.
    utilisation: f64,
}

impl Acceptance {
    /// Starts at 1.
    pub(crate) const fn new(settings: OccupancySettings) -> Self {
        Self { settings, value: 1.0, utilisation: 0.0 }
    }

    /// Handles the end of an epoch with this utilisation.
    pub(crate) fn on_period(&mut self, utilisation: f64) {
        self.utilisation += self.settings.weight * (utilisation - self.utilisation);
        self.value = self.settings.next(self.value, self.utilisation);
    }

    pub(crate) const fn period(&self) -> Duration {
        self.settings.period
    }
}

/// Occupancy algorithm (OCC): a new request is accepted with probability f, which follows the utilisation (Overload
/// paper, VI-B).
#[derive(Clone, Debug)]
pub struct Occupancy {
    acceptance: Acceptance,
    mix: Mix,
}

impl Occupancy {
    /// Creates a controller that accepts everything at first.
    pub const fn new(settings: OccupancySettings) -> Self {
        Self { acceptance: Acceptance::new(settings), mix: Mix::new(Scope::NewRequests) }
    }
}

impl Controller for Occupancy {
    fn name(&self) -> &'static str {
        "occupancy"
    }

    fn judge(&mut self, now: Instant, class: MessageClass, _: &HostLoad, rng: &mut Rng) -> AdmissionVerdict {
        AdmissionVerdict::accept_if(self.mix.draw(now, class, self.acceptance.value, rng))
    }

    fn on_period(&mut self, load: &HostLoad) {
        self.acceptance.on_period(load.utilisation);
    }

    fn period(&self) -> Option<Duration> {
        Some(self.acceptance.period())
    }

    fn acceptance(&self, _: &HostLoad) -> f64 {
        self.acceptance.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_1_and_2() {
        let law = OccupancySettings::default();
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(law.next(0.5, 0.9), 0.5);
        near(law.next(0.5, 1.0), 0.45);
        near(law.next(0.5, 0.6), 0.75);
        near(law.next(0.1, 0.01), 0.5);
        near(law.next(0.02, 0.0), 0.1);
        near(law.next(0.021, 1.0), 0.02);
        near(law.next(0.9, 0.0), 1.0);
    }

    #[test]
    fn smoothing_weighs_the_newest_utilisation() {
        let mut acceptance = Acceptance::new(OccupancySettings {
            weight: 0.25,
            increase_max: 1.5,
            ..OccupancySettings::default()
        });
        acceptance.value = 0.5;
        // The average moves from 0 to 0.25, then to 0.4375. The target of 0.9 is far above both, so `phi_max` bounds
        // the increase.
        acceptance.on_period(1.0);
        assert_eq!((acceptance.utilisation, acceptance.value), (0.25, 0.75));
        acceptance.on_period(1.0);
        assert_eq!((acceptance.utilisation, acceptance.value), (0.4375, 1.0));
    }

    #[test]
    fn accepts_the_fraction_and_rejects_priority_last() {
        let mut law = Occupancy::new(OccupancySettings::default());
        law.acceptance.value = 0.3;
        let mut rng = Rng::from_seed(1);
        let mut accepted = [0; 2];
        for turn in 0..40_000 {
            let class = if turn % 10 == 9 { MessageClass::Priority } else { MessageClass::NewInvite };
            let verdict = law.judge(Instant::ZERO, class, &HostLoad::default(), &mut rng);
            accepted[usize::from(class == MessageClass::Priority)] += u32::from(verdict.is_accept());
        }
        // 30 % of all requests are accepted. The tenth of the requests that has priority is included.
        assert_eq!(accepted[1], 4_000);
        assert!((i64::from(accepted[0]) - 8_000).abs() < 300, "{accepted:?}");
    }
}
