//! Server side of hop-by-hop feedback.

use super::rate::{self, Rate};
use super::window::Window;
use super::{ClientLimit, Feedback};
use crate::local::occupancy::{self, Acceptance};
use crate::signal::HostLoad;
use crate::{MessageClass, NEIGHBOURS_MAX, Scope};
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;

/// Law for the limits of upstream neighbours.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReceiverLaw {
    /// Acceptance probability from the occupancy algorithm, the same for all neighbours (Overload paper, VII-A).
    Loss(occupancy::OccupancySettings),
    /// A rate for each neighbour, or a fraction computed from it for neighbours that support only `loss`.
    Rate,
    /// The fraction computed from the rate, for all neighbours.
    RateAsLoss,
    /// A window for each neighbour.
    Window,
}

/// Server side of hop-by-hop feedback; `N` identifies an upstream neighbour.
///
/// The host reports arrivals and finished work ([`on_arrival`](Self::on_arrival), [`on_served`](Self::on_served),
/// [`on_confirmed`](Self::on_confirmed)), and the load at each [`period`](Self::period) to
/// [`on_period`](Self::on_period). It puts [`feedback`](Self::feedback) into its responses.
#[derive(Clone, Debug)]
pub struct HopReceiver<N> {
    scope: Scope,
    validity: Duration,
    period: Duration,
    law: State,
    neighbours: BTreeMap<N, Upstream>,
    served: u32,
    /// End of the last period; `None` before the first.
    last: Option<Instant>,
    sequence: u64,
}

#[derive(Clone, Debug)]
enum State {
    Loss(Acceptance),
    Rate(Rate),
    Window(Window),
}

/// State of an upstream neighbour.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    heard: Instant,
    arrived: u32,
    /// Requests a second, averaged over about a second.
    pub(super) rate: f64,
    /// The same over a shorter time, from which the fraction follows a step of the load.
    recent: f64,
    /// Fraction of its requests that it may send, if it follows fractions.
    acceptance: f64,
    under_way: u32,
    /// Most requests under way at once in the last period.
    pub(super) peak: f64,
}

/// Input of a law for a period.
pub(super) struct Period<'a, N> {
    pub(super) length: Duration,
    pub(super) load: &'a HostLoad,
    /// Served requests in scope.
    pub(super) served: u32,
    pub(super) neighbours: &'a BTreeMap<N, Upstream>,
}

/// Time of silence after which a neighbour is forgotten. Capacity is divided among neighbours that send.
const ACTIVE_FOR: Duration = Duration::from_secs(10);
/// Time over which the rate of a neighbour is averaged.
const RATE_MEMORY: Duration = Duration::from_secs(1);
/// The same for the computation of a fraction: three periods.
const RECENT: Duration = Duration::from_millis(300);
/// Smallest fraction. From a fraction of 0 no request would come, which shows how many are offered.
const ACCEPTANCE_MIN: f64 = 0.02;
/// Smallest validity. The default of RFC 7339 §4.3 is 500 ms. Here the validity is at least this value, and at least
/// four periods. A limited neighbour gets few responses, so a few lost responses must not end the control.
const VALIDITY_MIN: Duration = Duration::from_secs(2);
/// Unit of `oc-seq` (its fifth decimal) in nanoseconds.
const SEQUENCE_UNIT: u64 = 10_000;

impl Upstream {
    /// Sets the fraction with which this many requests a second arrive. The requests that arrive are the offered ones
    /// times the last fraction, so one step suffices.
    fn limit_to(&mut self, share: Option<f64>) {
        let share = share.unwrap_or(f64::INFINITY);
        let step = if self.recent > 0.0 { share / self.recent } else { f64::INFINITY };
        self.acceptance = (self.acceptance * step).clamp(ACCEPTANCE_MIN, 1.0);
    }
}

impl<N: Ord + Copy> HopReceiver<N> {
    /// Creates a receiver without a limit. `scope` defines what limits count; a window always counts new requests.
    pub fn new(law: ReceiverLaw, scope: Scope) -> Self {
        let (period, law) = match law {
            ReceiverLaw::Loss(settings) => (settings.period, State::Loss(Acceptance::new(settings))),
            ReceiverLaw::Rate | ReceiverLaw::RateAsLoss => (rate::PERIOD, State::Rate(Rate::default())),
            ReceiverLaw::Window => (rate::PERIOD, State::Window(Window::default())),
        };
        Self {
            scope,
            validity: VALIDITY_MIN.max(period * 4),
            period,
            law,
            neighbours: BTreeMap::new(),
            served: 0,
            last: None,
            sequence: 0,
        }
    }

    /// Interval at which to call [`on_period`](Self::on_period).
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Number of neighbours that have sent requests lately.
    pub fn neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// Unconfirmed new requests of this neighbour.
    pub fn under_way(&self, from: N) -> u32 {
        self.neighbours.get(&from).map_or(0, |upstream| upstream.under_way)
    }

    /// Counts a request from a neighbour that was not rejected here.
    pub fn on_arrival(&mut self, now: Instant, from: N, class: MessageClass) {
        if self.neighbours.len() >= NEIGHBOURS_MAX && !self.neighbours.contains_key(&from) {
            return;
        }
        let upstream = self.neighbours.entry(from).or_insert_with(|| Upstream {
            heard: now,
            arrived: 0,
            rate: 0.0,
            recent: 0.0,
            acceptance: 1.0,
            under_way: 0,
            peak: 0.0,
        });
        upstream.heard = now;
        upstream.arrived += u32::from(self.scope.counts(class));
        if class.is_new() {
            upstream.under_way += 1;
            upstream.peak = upstream.peak.max(f64::from(upstream.under_way));
        }
    }

    /// Counts a message that left the queue and was served.
    pub const fn on_served(&mut self, class: MessageClass) {
        self.served += self.scope.counts(class) as u32;
    }

    /// Counts a new request from this neighbour that got its first response other than 100, or whose transaction ended
    /// without such a response. A 100 confirms no processing (RFC 6357 §9.3). Call it once for each request.
    pub fn on_confirmed(&mut self, from: N) {
        if let Some(upstream) = self.neighbours.get_mut(&from) {
            upstream.under_way = upstream.under_way.saturating_sub(1);
        }
    }

    /// Handles the end of a period with this load.
    pub fn on_period(&mut self, now: Instant, load: &HostLoad) {
        let length =
            self.last.map_or(self.period, |last| now.saturating_since(last)).max(Duration::from_nanos(1));
        self.neighbours.retain(|_, upstream| now.saturating_since(upstream.heard) < ACTIVE_FOR);
        let weight = |memory: Duration| 1.0 - (-length.as_secs_f64() / memory.as_secs_f64()).exp();
        for upstream in self.neighbours.values_mut() {
            let rate = f64::from(core::mem::take(&mut upstream.arrived)) / length.as_secs_f64();
            upstream.rate += weight(RATE_MEMORY) * (rate - upstream.rate);
            upstream.recent += weight(RECENT) * (rate - upstream.recent);
        }
        let served = core::mem::take(&mut self.served);
        let period = Period { length, load, served, neighbours: &self.neighbours };
        match &mut self.law {
            State::Loss(acceptance) => acceptance.on_period(load.utilisation),
            State::Rate(rate) => rate.on_period(&period),
            State::Window(window) => window.on_period(&period),
        }
        let share = if let State::Rate(rate) = &self.law { rate.share() } else { None };
        for upstream in self.neighbours.values_mut() {
            upstream.limit_to(share);
            upstream.peak = f64::from(upstream.under_way);
        }
        self.last = Some(now);
        // RFC 7339 §4.4: a later value has a greater number. A number derived from time also survives a restart.
        self.sequence = (self.sequence + 1).max(now.as_nanos() / SEQUENCE_UNIT);
    }

    /// Feedback for a response to a neighbour now. The same number means the same value (RFC 7339 §5.4).
    pub fn feedback(&self) -> Feedback {
        self.feedback_of(match &self.law {
            // An f of 1 requires no reduction.
            State::Loss(Acceptance { value, .. }) => (*value < 1.0).then_some(ClientLimit::Loss(*value)),
            State::Rate(rate) => rate.limit(),
            State::Window(window) => window.limit(),
        })
    }

    /// Feedback for a response to a neighbour that follows only fractions, from a receiver with rates.
    pub fn loss_feedback(&self, to: N) -> Feedback {
        let acceptance = self.neighbours.get(&to).map_or(1.0, |upstream| upstream.acceptance);
        self.feedback_of((acceptance < 1.0).then_some(ClientLimit::Loss(acceptance)))
    }

    fn feedback_of(&self, limit: Option<ClientLimit>) -> Feedback {
        let validity = if limit.is_some() { self.validity } else { Duration::ZERO };
        Feedback { limit, validity, sequence: self.sequence }
    }
}
