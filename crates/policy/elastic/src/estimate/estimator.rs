//! The estimator beside a server.

use super::proven::{Proven, USED};
use super::smace::Smace;
use super::{Law, Settings};
use base::Instant;
use core::time::Duration;

/// After so long without windows earlier measurements are out of date, and the capacity is at most the initial one.
const SILENCE: Duration = Duration::from_secs(30);

/// The measurements of a server in a window, of a second as a rule (Cloud paper, section IV-A).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// INVITEs that it got.
    pub calls: u64,
    /// 95th percentile of the time from an INVITE to the one that the server sends on; `None` if it has sent none.
    pub p95: Option<Duration>,
    /// Calls a second that it forwarded.
    pub goodput: f64,
    /// The age of the oldest call newer than every forwarded one, at the end of the window; `None` where no call shows
    /// that the server stands still.
    pub oldest: Option<Duration>,
}

impl Window {
    /// Nothing came, and nothing waits.
    pub const EMPTY: Self = Self { calls: 0, p95: None, goodput: 0.0, oldest: None };

    /// How long nothing has been forwarded that came, where that is longer than it may take: the server stands still,
    /// with few calls perhaps.
    pub(super) fn stands_still(&self, settings: &Settings) -> Option<Duration> {
        self.oldest.filter(|oldest| self.p95.is_none() && *oldest > settings.threshold)
    }
}

/// Latency as a law sees it: 1 is the threshold.
pub(super) fn relative(settings: &Settings, latency: Duration) -> f64 {
    latency.as_secs_f64() / settings.threshold.as_secs_f64().max(f64::MIN_POSITIVE)
}

#[derive(Debug, Clone)]
enum State {
    Smace(Smace),
    Proven(Proven),
}

/// Finds the capacity of a server from its latency.
#[derive(Debug, Clone)]
pub struct Estimator {
    settings: Settings,
    state: State,
    capacity: f64,
    /// Whether the capacity is one that was seen to be tried, or that the law has found.
    is_learned: bool,
    heard: Instant,
}

impl Estimator {
    /// An estimator that has seen nothing.
    pub fn new(now: Instant, settings: Settings) -> Self {
        let state = match settings.law {
            Law::Smace => State::Smace(Smace::new(now)),
            Law::Proven => State::Proven(Proven::default()),
        };
        Self { capacity: start(&settings), is_learned: false, state, settings, heard: now }
    }

    /// One of a server that has shown before to have this capacity.
    pub fn resume(now: Instant, settings: Settings, capacity: f64) -> Self {
        Self { capacity: bounded(&settings, capacity), is_learned: true, ..Self::new(now, settings) }
    }

    /// Capacity in calls a second, to be announced.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Whether calls have confirmed the capacity. Before that it is the initial capacity.
    pub fn is_learned(&self) -> bool {
        self.is_learned
    }

    /// Tells of a window that has ended, and returns the capacity. A window without samples leaves the capacity as it
    /// is: with no calls there is nothing to learn.
    pub fn on_window(&mut self, now: Instant, window: &Window) -> f64 {
        let since = now - self.heard;
        self.heard = self.heard.max(now);
        if since > SILENCE {
            *self =
                Self { capacity: self.capacity.min(start(&self.settings)), ..Self::new(now, self.settings) };
        }
        let next = match &mut self.state {
            State::Smace(law) => law.next(&self.settings, now, self.capacity, window),
            State::Proven(law) => law.next(&self.settings, now, since, self.capacity, window),
        };
        let next = bounded(&self.settings, next);
        let is_tried = window.goodput >= USED * self.capacity;
        self.is_learned |= is_tried || next.total_cmp(&self.capacity).is_ne();
        self.capacity = next;
        self.capacity
    }

    /// Takes a window whose counts may belong to other windows, since the monitor was late. A slow window counts: no
    /// law raises the capacity above the threshold. A fast one changes nothing.
    pub fn on_late_window(&mut self, now: Instant, window: &Window) -> f64 {
        let latency = window.p95.or_else(|| window.stands_still(&self.settings));
        let is_slow = latency.is_some_and(|latency| latency > self.settings.threshold);
        self.on_window(now, if is_slow { window } else { &Window::EMPTY })
    }
}

fn start(settings: &Settings) -> f64 {
    bounded(settings, settings.start * settings.maximum)
}

fn bounded(settings: &Settings, capacity: f64) -> f64 {
    // The lower bound last: a maximum below it is a server that is hardly there.
    capacity.min(settings.maximum).max(settings.minimum)
}
