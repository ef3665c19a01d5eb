//! The receiver's law for window-based feedback (RFC 6357 §9.3 leaves it open).

use super::Limit;
use super::rate::{Activity, TARGET};
use super::receiver::Period;
use super::share::fair_share;

/// The largest growth in a period, as a share of the window.
const GROWTH: f64 = 0.05;
/// The largest cut in a period, as a share of the window.
const CUT: f64 = 0.3;

/// How many new requests may be under way to the server and unconfirmed, all neighbours together.
///
/// What is under way waits in the server's queue or on the far side, so the window bounds the queue directly. Each
/// period it moves by `growth * (target - wait) / target`, within `growth` up and `cut` down; it grows only while it
/// is used, or it would open without end under light load.
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
        // At first the window is what is under way, cut in proportion to what is too much of it.
        let mut window = self.total.unwrap_or(used / (wait / target).max(1.0));
        let error = (target - wait) / target;
        let step = (GROWTH * error).clamp(-CUT, GROWTH);
        if step < 0.0 || used >= window * 0.8 {
            window *= 1.0 + step;
        }
        // One for each neighbour: with none, nothing would come back that could open it again (RFC 6357 §9.3).
        let window = window.max(period.neighbours.len().max(1) as f64);
        self.total = Some(window);
        let demands = period.neighbours.values().map(|from| from.peak);
        self.share = Some(fair_share(window, self.share, demands).max(1.0));
    }

    pub(super) fn limit(&self) -> Option<Limit> {
        self.share.map(Limit::Window)
    }
}
