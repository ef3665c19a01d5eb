//! Receiver's law for window-based feedback (RFC 6357 §9.3 leaves it open).

use super::ClientLimit;
use super::rate::TARGET;
use super::receiver::Period;
use super::share::fair_share;
use core::time::Duration;

/// Largest growth in a period, as a share of the window.
const GROWTH: f64 = 0.05;
/// Largest reduction in a period, as a share of the window.
const CUT: f64 = 0.3;

/// Control starts above this utilisation, or above the target wait...
const START: f64 = 0.95;
/// ...and stops after a second below this one.
const STOP: f64 = 0.8;
/// Time of low utilisation after which control stops.
const CALM: Duration = Duration::from_secs(1);

/// Whether control is on. It starts with a busy period, and ends after a second of low utilisation.
#[derive(Clone, Debug, Default)]
struct Activity {
    active: bool,
    calm: Duration,
}

impl Activity {
    fn update<N>(&mut self, period: &Period<'_, N>) -> bool {
        let busy = period.load.utilisation >= START || period.load.wait > TARGET;
        let calm = period.load.utilisation < STOP && period.load.wait < TARGET;
        self.calm = if calm { self.calm + period.length } else { Duration::ZERO };
        self.active = busy || (self.active && self.calm < CALM);
        self.active
    }
}

/// Most new requests that may be under way to the server and unconfirmed, for all neighbours together.
///
/// Requests under way wait in the server's queue or behind the server, so the window directly limits the queue. In each
/// period it changes by `growth * (target - wait) / target`, at most `growth` up and `cut` down. It grows only while it
/// is used; otherwise it would grow without limit under light load.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    activity: Activity,
    total: Option<f64>,
    share: Option<f64>,
}

impl Window {
    pub(super) fn on_period<N>(&mut self, period: &Period<'_, N>) {
        if !self.activity.update(period) {
            (self.total, self.share) = (None, None);
            return;
        }
        let (wait, target) = (period.load.wait.as_secs_f64(), TARGET.as_secs_f64());
        let used: f64 = period.neighbours.values().map(|from| from.peak).sum();
        // The first window is the number of requests under way, reduced in proportion to the excess wait.
        let mut window = self.total.unwrap_or(used / (wait / target).max(1.0));
        let error = (target - wait) / target;
        let step = (GROWTH * error).clamp(-CUT, GROWTH);
        if step < 0.0 || used >= window * 0.8 {
            window *= 1.0 + step;
        }
        // The window is at least one for each neighbour. With a window of zero, no confirmation would come back to open
        // it again (RFC 6357 §9.3).
        let window = window.max(period.neighbours.len().max(1) as f64);
        self.total = Some(window);
        let demands = period.neighbours.values().map(|from| from.peak);
        self.share = Some(fair_share(window, self.share, demands).max(1.0));
    }

    pub(super) fn limit(&self) -> Option<ClientLimit> {
        self.share.map(ClientLimit::Window)
    }
}
