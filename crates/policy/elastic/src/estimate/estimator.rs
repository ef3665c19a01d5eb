//! Estimator beside a server.

use super::proven::{Proven, USED};
use super::smace::Smace;
use super::{CapacityLaw, EstimatorSettings};
use base::Instant;
use core::time::Duration;

/// Time without windows after which earlier measurements are outdated. The capacity is then at most the initial one.
const SILENCE: Duration = Duration::from_secs(30);

/// Measurements of a server in a window, usually a second (Cloud paper, section IV-A).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerWindow {
    /// INVITEs received.
    pub calls: u64,
    /// 95th percentile of the time from an incoming INVITE to the forwarded one; `None` if none was forwarded.
    pub p95: Option<Duration>,
    /// Forwarded calls a second.
    pub goodput: f64,
    /// Age, at the end of the window, of the oldest call newer than every forwarded one; `None` if no call shows that
    /// the server has stopped.
    pub oldest: Option<Duration>,
}

impl ServerWindow {
    /// A window without calls.
    pub const EMPTY: Self = Self { calls: 0, p95: None, goodput: 0.0, oldest: None };

    /// Time for which no call has been forwarded, if it exceeds the threshold. The server has then stopped, perhaps
    /// with few calls.
    pub(super) fn stands_still(&self, settings: &EstimatorSettings) -> Option<Duration> {
        self.oldest.filter(|oldest| self.p95.is_none() && *oldest > settings.threshold)
    }
}

/// Latency relative to the threshold.
pub(super) fn relative(settings: &EstimatorSettings, latency: Duration) -> f64 {
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
    settings: EstimatorSettings,
    state: State,
    capacity: f64,
    /// Whether calls have used the capacity, or the law has changed it.
    is_learned: bool,
    heard: Instant,
}

impl Estimator {
    /// Creates an estimator without measurements.
    pub fn new(now: Instant, settings: EstimatorSettings) -> Self {
        let state = match settings.law {
            CapacityLaw::Smace => State::Smace(Smace::new(now)),
            CapacityLaw::Proven => State::Proven(Proven::default()),
        };
        Self { capacity: start(&settings), is_learned: false, state, settings, heard: now }
    }

    /// Creates the estimator of a server that had this capacity before.
    pub fn resume(now: Instant, settings: EstimatorSettings, capacity: f64) -> Self {
        Self { capacity: bounded(&settings, capacity), is_learned: true, ..Self::new(now, settings) }
    }

    /// Capacity to announce, in calls a second.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Whether calls have confirmed the capacity. Before that it is the initial capacity.
    pub fn is_learned(&self) -> bool {
        self.is_learned
    }

    /// Adds a finished window and returns the capacity. A window without samples leaves the capacity unchanged: without
    /// calls there is nothing to learn.
    pub fn on_window(&mut self, now: Instant, window: &ServerWindow) -> f64 {
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

    /// Adds a window that was read late, so that its counts may belong to other windows. A late window counts only if
    /// it is slow, since no law raises the capacity above the threshold. A fast late window changes nothing.
    pub fn on_late_window(&mut self, now: Instant, window: &ServerWindow) -> f64 {
        let latency = window.p95.or_else(|| window.stands_still(&self.settings));
        let is_slow = latency.is_some_and(|latency| latency > self.settings.threshold);
        self.on_window(now, if is_slow { window } else { &ServerWindow::EMPTY })
    }
}

fn start(settings: &EstimatorSettings) -> f64 {
    bounded(settings, settings.start * settings.maximum)
}

fn bounded(settings: &EstimatorSettings, capacity: f64) -> f64 {
    // The lower bound comes last. With a maximum below it, the server has almost no capacity.
    capacity.min(settings.maximum).max(settings.minimum)
}
