//! Law of this project: announces a capacity that the server has carried within the threshold again at once, but never
//! an untried capacity.
//!
//! With L the 95th percentile relative to the threshold, g the goodput, c the capacity and P the largest goodput within
//! the threshold so far (*proven*), once a window:
//!
//! - L > 1 in two windows in a row, and no cut in the last 2 s: `c <- b * clamp(1 / sqrt(L), 0.7, 0.95)`, not below
//!   `0.2 * P`. The base b is g, but at most c, if the capacity was tried (g >= 0.8 c); otherwise it is c. So a slow
//!   server with little load is cut step by step, and not at once to its little load. A server that gets more than its
//!   capacity, from other senders, is cut as well. If no call was forwarded and the oldest is older than the threshold,
//!   the latency counts as infinite, however few calls there are.
//! - L < 0.9 and the capacity was tried: `c <- c + max(0.3 * (P - c), 0.05 * c) * h / 2^f` for each second. Here h is
//!   the room for growth, `min(1, 2 * (0.9 - L))`, and f the number of times in a row that growth ended in a cut.
//! - L < 0.9 and the capacity was not tried: the same without `0.05 * c`, only up to P, and proportionally slower below
//!   0.3 c.
//! - Otherwise c does not change.
//!
//! Windows with few calls are not conclusive. They are combined until they have ten calls, or 0.8 c if that is less.
//!
//! After 30 s without a cut, f is zero. P decays: a cut of a capacity that has grown since the last cut moves P an
//! eighth of the way to the remaining capacity. Successive cuts have one cause, so the later ones carry no new
//! information. So a server whose neighbours leave it no processor time for a minute recovers soon afterwards.
//!
//! The constants were chosen in the model of `crates/policy/elastic/tests/estimate`.

use super::estimator::relative;
use super::{EstimatorSettings, ServerWindow};
use base::Instant;
use core::time::Duration;

/// Windows with fewer calls are combined. The percentile of so few calls is their largest value.
const CALLS_MIN: f64 = 10.0;
/// Windows in a row above the threshold that cause a cut. A single one is a spike.
const CONFIRM: u32 = 2;
/// Least time between two cuts, so that a window shows the effect of the first before the second.
const GAP: Duration = Duration::from_secs(2);
/// Smallest factor of a cut.
const CUT_MOST: f64 = 0.7;
/// Largest factor of a cut.
const CUT_LEAST: f64 = 0.95;
/// Cuts do not go below this part of the proven rate. If latency stays high at this rate, load is not the cause.
const FLOOR: f64 = 0.2;
/// Capacity grows while latency is below this part of the threshold, so that noise stays below it too.
const GOAL: f64 = 0.9;
/// Capacity counts as tried if goodput is at least this part of it.
pub(super) const USED: f64 = 0.8;
/// Below this part of the capacity, the return to the proven rate is proportionally slower. A server helped by others
/// gets only its share of the calls, and would otherwise never show that it has recovered.
const USED_AGAIN: f64 = 0.3;
/// Part of the distance to the proven rate that is recovered in a second.
const RECOVER: f64 = 0.3;
/// Growth beyond the proven rate in a second, with the whole threshold to spare.
const PROBE: f64 = 0.05;
/// If growth ends in a cut within this time after the last cut, further growth is half as fast. After this time without
/// a cut, growth has full speed again.
const CALM: Duration = Duration::from_secs(30);
/// Most times that growth is halved.
const FAILURES_MAX: u32 = 4;
/// Part of the distance that P moves to a reduced capacity: a short contention hardly lowers P, a lasting one does.
const FORGET: f64 = 0.125;

#[derive(Debug, Clone, Default)]
pub(super) struct Proven {
    /// P, in calls a second.
    carried: f64,
    /// Windows in a row above the threshold.
    high: u32,
    cut: Option<Instant>,
    /// Whether capacity has grown since the last cut.
    grown: bool,
    /// f.
    failures: u32,
    few: Few,
}

/// Consecutive windows with few calls.
#[derive(Debug, Clone, Default)]
struct Few {
    calls: u64,
    p95: Option<Duration>,
    /// Sum of the windows' goodput.
    goodput: f64,
    windows: u32,
}

impl Few {
    /// Combines a window with those before it; `None` if they have fewer than `least` calls. A window with enough calls
    /// is returned alone.
    fn gather(&mut self, window: &ServerWindow, least: f64) -> Option<ServerWindow> {
        if window.calls as f64 >= least {
            *self = Self::default();
            return Some(*window);
        }
        if self.calls + window.calls == 0 {
            return None;
        }
        self.calls += window.calls;
        self.p95 = self.p95.max(window.p95);
        self.goodput += window.goodput;
        self.windows += 1;
        if (self.calls as f64) < least {
            return None;
        }
        let Self { calls, p95, goodput, windows } = core::mem::take(self);
        Some(ServerWindow { calls, p95, goodput: goodput / f64::from(windows), oldest: window.oldest })
    }
}

impl Proven {
    pub(super) fn next(
        &mut self,
        settings: &EstimatorSettings,
        now: Instant,
        since: Duration,
        capacity: f64,
        window: &ServerWindow,
    ) -> f64 {
        // A small capacity brings few calls. These few must suffice, or the capacity would stay small for ever.
        let least = CALLS_MIN.min((USED * capacity).floor()).max(1.0);
        let gathered = if window.stands_still(settings).is_some() {
            self.few = Few::default();
            Some(*window)
        } else {
            self.few.gather(window, least)
        };
        let Some(window) = gathered else { return capacity };
        let latency = window.p95.map_or(f64::INFINITY, |p95| relative(settings, p95));
        let tried = window.goodput >= USED * capacity;
        if latency > 1.0 {
            self.high = self.high.saturating_add(1);
            let rests = self.cut.is_some_and(|cut| now - cut < GAP);
            return if self.high < CONFIRM || rests {
                capacity
            } else {
                self.cut(now, capacity, tried.then_some(window.goodput.min(capacity)), latency)
            };
        }
        self.high = 0;
        self.carried = self.carried.max(window.goodput.min(settings.maximum));
        if self.cut.is_none_or(|cut| now - cut >= CALM) {
            self.failures = 0;
        }
        let room = (2.0 * (GOAL - latency)).min(1.0);
        let share = window.goodput / (USED_AGAIN * capacity).max(f64::MIN_POSITIVE);
        let back = RECOVER * (self.carried - capacity) * share.min(1.0);
        let step = if tried { back.max(PROBE * capacity) } else { back };
        if step <= 0.0 || room <= 0.0 {
            return capacity;
        }
        self.grown = true;
        capacity + step * room * since.as_secs_f64().min(1.0) / f64::from(1_u32 << self.failures)
    }

    fn cut(&mut self, now: Instant, capacity: f64, tried: Option<f64>, latency: f64) -> f64 {
        let left = (1.0 / latency.sqrt()).clamp(CUT_MOST, CUT_LEAST);
        let next = (tried.unwrap_or(capacity) * left).max(FLOOR * self.carried).min(capacity);
        if core::mem::take(&mut self.grown) {
            if self.cut.is_some_and(|cut| now - cut < CALM) {
                self.failures = (self.failures + 1).min(FAILURES_MAX);
            }
            self.carried += (next - self.carried) * FORGET;
        }
        self.cut = Some(now);
        next
    }
}
