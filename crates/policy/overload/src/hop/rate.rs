//! Receiver's law for rate-based feedback (RFC 7415 §3.4 leaves it open).

use super::share::fair_share;
use super::{ClientLimit, receiver::Period};
use core::time::Duration;

/// Interval at which the rate is computed.
pub(super) const PERIOD: Duration = Duration::from_millis(100);
/// Target queueing delay. It is above zero, since otherwise the server would be idle between two messages of a paced
/// stream. It is far below T1/2.
pub(super) const TARGET: Duration = Duration::from_millis(20);
/// Time in which a deviation of the wait is corrected. It is longer than the delay of the control loop: a period, a hop
/// in each direction, and the set-up of a call after its INVITE.
const HORIZON: Duration = Duration::from_millis(500);
/// Busy time over which the capacity is averaged.
const MEMORY: Duration = Duration::from_secs(1);
/// Control starts above this utilisation, or above the target wait...
const START: f64 = 0.95;
/// ...and stops after a second below this one.
const STOP: f64 = 0.8;
/// Time of low utilisation after which control stops.
const CALM: Duration = Duration::from_secs(1);

/// Whether control is on. It starts with a busy period, and ends after a second of low utilisation.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity {
    active: bool,
    calm: Duration,
}

impl Activity {
    pub(super) fn update<N>(&mut self, period: &Period<'_, N>) -> bool {
        let busy = period.load.utilisation >= START || period.load.wait > TARGET;
        let calm = period.load.utilisation < STOP && period.load.wait < TARGET;
        self.calm = if calm { self.calm + period.length } else { Duration::ZERO };
        self.active = busy || (self.active && self.calm < CALM);
        self.active
    }
}

/// Rate that the server can serve, computed from its served requests per busy time and its queue:
///
/// `C <- average of (served / busy time)`, `R = C * (1 + (target - wait) / horizon)`, between a tenth of C and 1.2 C.
///
/// While the server is busy, C follows the rate of served requests. So C is the integral part and the wait the
/// proportional part of a controller. In equilibrium `R = C` and the wait is the target, for any cost of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    capacity: Option<f64>,
    activity: Activity,
    share: Option<f64>,
}

impl Rate {
    pub(super) fn on_period<N>(&mut self, period: &Period<'_, N>) {
        let busy = period.load.utilisation * period.length.as_secs_f64();
        if busy > 0.0 {
            let sample = f64::from(period.served) / busy;
            let capacity = self.capacity.get_or_insert(sample);
            let weight = 1.0 - (-busy / MEMORY.as_secs_f64()).exp();
            *capacity += weight * (sample - *capacity);
        }
        if !self.activity.update(period) {
            self.share = None;
            return;
        }
        let error = TARGET.as_secs_f64() - period.load.wait.as_secs_f64();
        let correction = (1.0 + error / HORIZON.as_secs_f64()).clamp(0.1, 1.2);
        // If a server is busy but has not served a request, its capacity is unknown. One request per second keeps the
        // control loop working.
        let rate = (self.capacity.unwrap_or(0.0) * correction).max(1.0);
        self.share = Some(fair_share(rate, self.share, period.neighbours.values().map(|from| from.rate)));
    }

    pub(super) fn limit(&self) -> Option<ClientLimit> {
        self.share.map(ClientLimit::Rate)
    }
}
