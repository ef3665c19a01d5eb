//! Receiver's law for rate-based feedback (RFC 7415 §3.4 leaves it open).

use super::share::fair_share;
use super::{ClientLimit, receiver::Period};
use core::time::Duration;

/// Interval at which the rate is computed.
pub(super) const PERIOD: Duration = Duration::from_millis(100);
/// Target of the standing wait. It is above zero, since otherwise the server would be idle between two messages of a
/// paced stream. It is far below T1/2.
pub(super) const TARGET: Duration = Duration::from_millis(20);
/// Time in which a deviation of the wait is corrected. It is longer than the delay of the control loop: a period, a hop
/// in each direction, and the set-up of a call after its INVITE.
const HORIZON: Duration = Duration::from_millis(500);
/// Busy time over which the capacity is averaged.
const MEMORY: Duration = Duration::from_secs(1);
/// Standing wait above which control starts.
const START: Duration = Duration::from_millis(40);
/// Wait above which control starts before a queue has stood for a period.
const START_AT_ONCE: Duration = Duration::from_millis(80);
/// Growth of the search factor in the first period without a queue. In each further period it is greater by the same
/// number, so that the rate stays close to a right estimate of the capacity and soon leaves a wrong one.
const GROWTH: f64 = 0.005;
/// Greatest growth in a period.
const GROWTH_MOST: f64 = 0.1;
/// Neighbours that use less than this share of the rate need no more.
const USED: f64 = 0.8;
/// Time without a queue and with little demand after which control stops.
const CALM: Duration = Duration::from_secs(1);

/// Rate that the server can serve, computed from its served requests per busy time and its queue:
///
/// `C <- average of (served / busy time)`, `R = C * g * (1 + (target - wait) / horizon)`; the last factor is between a
/// tenth and 1.2.
///
/// Control starts when a queue stands. While the server is busy, C follows the rate of served requests. So C is the
/// integral part and the wait the proportional part of a controller. A server that is not busy may spend more time on
/// each request, so its C is too low. Therefore the search factor g is 1 while requests wait, and grows while none does.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    capacity: Option<f64>,
    is_active: bool,
    /// The search factor, and its growth in the last period.
    search: f64,
    growth: f64,
    calm: Duration,
    total: f64,
    share: Option<f64>,
}

impl Default for Rate {
    fn default() -> Self {
        let (search, growth, calm) = (1.0, 0.0, Duration::ZERO);
        Self { capacity: None, is_active: false, search, growth, calm, total: 0.0, share: None }
    }
}

impl Rate {
    pub(super) fn on_period<N>(&mut self, period: &Period<'_, N>) {
        self.measure(period);
        let demands = || period.neighbours.values().map(|from| from.rate);
        let is_used = demands().sum::<f64>() >= USED * self.total;
        let standing = period.load.standing;
        // A single message may have waited long for another reason.
        let wait = period.load.wait.min(standing + PERIOD);
        let has_queue = standing > START;
        self.is_active |= has_queue || wait > START_AT_ONCE;
        self.calm = if has_queue || is_used { Duration::ZERO } else { self.calm + period.length };
        if !self.is_active || self.calm >= CALM {
            *self = Self { capacity: self.capacity, ..Self::default() };
            return;
        }
        if wait > TARGET || standing > TARGET {
            (self.search, self.growth) = (1.0, 0.0);
        } else if is_used {
            self.growth = (self.growth + GROWTH).min(GROWTH_MOST);
            self.search *= 1.0 + self.growth;
        }
        let error = TARGET.as_secs_f64() - wait.as_secs_f64();
        let correction = (1.0 + error / HORIZON.as_secs_f64()).clamp(0.1, 1.2);
        // If a server is busy but has not served a request, its capacity is unknown. One request per second keeps the
        // control loop working.
        self.total = (self.capacity.unwrap_or(0.0) * self.search * correction).max(1.0);
        self.share = Some(fair_share(self.total, self.share, demands()));
    }

    fn measure<N>(&mut self, period: &Period<'_, N>) {
        let busy = period.load.utilisation * period.length.as_secs_f64();
        if busy > 0.0 {
            let sample = f64::from(period.served) / busy;
            let capacity = self.capacity.get_or_insert(sample);
            let weight = 1.0 - (-busy / MEMORY.as_secs_f64()).exp();
            *capacity += weight * (sample - *capacity);
        }
    }

    pub(super) fn limit(&self) -> Option<ClientLimit> {
        self.share.map(ClientLimit::Rate)
    }

    /// Requests a second of each neighbour.
    pub(super) fn share(&self) -> Option<f64> {
        self.share
    }
}
