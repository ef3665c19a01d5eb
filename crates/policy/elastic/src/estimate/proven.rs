//! Our law: a capacity that the server has carried within the threshold is announced again at once, an untried
//! capacity never.
//!
//! With L the 95th percentile as part of the threshold, g the goodput, c the capacity and P the largest goodput
//! within the threshold so far (*proven*), once a window:
//!
//! - L > 1 in two windows in a row, and no cut in the last 2 s: `c <- b * clamp(1 / sqrt(L), 0.7, 0.95)`, not below
//!   `0.2 * P`. The base b is g where the capacity was tried (g >= 0.8 c), but c at most, else c: a slow server that
//!   has little to do is cut step by step, not to its little, and one that gets more than its capacity, from others,
//!   is cut all the same. Calls of which none was forwarded are the highest latency, however few, if the oldest of them
//!   is older than the threshold.
//! - L < 0.9 and the capacity was tried: `c <- c + max(0.3 * (P - c), 0.05 * c) * h / 2^f` for each second, where
//!   `h = min(1, 2 * (0.9 - L))` is room for growth, and f how often in a row growth has ended in a cut.
//! - L < 0.9, and it was not tried: the same without `0.05 * c`, only up to P, and with less than 0.3 c as much slower.
//! - Otherwise c stays.
//!
//! Windows of few calls say nothing alone. They are put together until they have ten calls, or 0.8 c if that is less.
//!
//! A calm of 30 s without a cut makes f zero. P forgets: a cut of a capacity that has grown since the last one brings
//! it an eighth nearer to what was left. Cuts that follow each other are one trouble, and teach nothing new: a server
//! whose neighbours leave it nothing for a minute is back soon after.
//!
//! The constants were chosen in the model of `crates/policy/elastic/tests/estimate`.

use super::estimator::relative;
use super::{Settings, Window};
use base::Instant;
use core::time::Duration;

/// Windows of fewer calls are put together. The percentile of so few is their largest value.
const CALLS_MIN: f64 = 10.0;
/// Windows in a row above the threshold before capacity is cut. One alone is a spike.
const CONFIRM: u32 = 2;
/// The least time between two cuts, so that the first one shows in a window before the second.
const GAP: Duration = Duration::from_secs(2);
/// The least that a cut leaves.
const CUT_MOST: f64 = 0.7;
/// The most that a cut leaves.
const CUT_LEAST: f64 = 0.95;
/// Cuts do not go below this part of what has been proven. Latency that stays high there has another cause than load.
const FLOOR: f64 = 0.2;
/// Capacity grows as long as latency is below this part of the threshold, so that noise stays below it, too.
const GOAL: f64 = 0.9;
/// The capacity counts as tried when goodput is at least this part of it.
pub(super) const USED: f64 = 0.8;
/// With less than this part of it, the way back to what has been proven takes longer in proportion. A server that others
/// help gets no more than its share of the calls, and would never show that it is well again.
const USED_AGAIN: f64 = 0.3;
/// Part of the way back to the proven rate in a second.
const RECOVER: f64 = 0.3;
/// Growth beyond it in a second with all of the threshold to spare.
const PROBE: f64 = 0.05;
/// Growth that ends in a cut sooner than this after the last cut is half as fast from then on. So long without one, and
/// it is as fast as ever.
const CALM: Duration = Duration::from_secs(30);
/// How often growth is made half as fast at most.
const FAILURES_MAX: u32 = 4;
/// How much of the way P goes to a capacity that was cut: a short contention hardly lowers it, a lasting one does.
const FORGET: f64 = 0.125;

#[derive(Debug, Clone, Default)]
pub(super) struct Proven {
    /// P, calls a second.
    carried: f64,
    /// Windows in a row above the threshold.
    high: u32,
    cut: Option<Instant>,
    /// Whether capacity has grown since then.
    grown: bool,
    /// f.
    failures: u32,
    few: Few,
}

/// Windows of few calls, one after the other.
#[derive(Debug, Clone, Default)]
struct Few {
    calls: u64,
    p95: Option<Duration>,
    /// Sum of the windows' goodput.
    goodput: f64,
    windows: u32,
}

impl Few {
    /// What a window and those before it say as one, if they have so many calls. One that has them says it alone.
    fn gather(&mut self, window: &Window, least: f64) -> Option<Window> {
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
        Some(Window { calls, p95, goodput: goodput / f64::from(windows), oldest: window.oldest })
    }
}

impl Proven {
    pub(super) fn next(
        &mut self,
        settings: &Settings,
        now: Instant,
        since: Duration,
        capacity: f64,
        window: &Window,
    ) -> f64 {
        // A small capacity brings few calls: they have to do, or it would stay small for ever.
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
