//! A server on its machine, and the measurement window of its estimator.

use super::machine::Machine;
use super::plan::{Announcing, CloudHost, Neighbours};
use super::results::CloudSecond;
use balance::Weights;
use base::{Instant, Rng};
use core::time::Duration;
use elastic::estimate::{Estimator, ServerWindow};
use wire::Method;

/// Messages of a call.
pub(super) const MESSAGES: u8 = 6;

/// State of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Duty {
    /// Takes calls.
    Ready,
    /// Takes no new calls.
    Draining,
    /// Stopped, or about to be.
    Stopped,
}

#[derive(Debug)]
pub(super) struct Host {
    /// Its number in queue and scaler.
    pub(super) member: u32,
    pub(super) duty: Duty,
    pub(super) machine: Machine,
    /// Service times of the messages.
    pub(super) costs: [Duration; MESSAGES as usize],
    estimator: Option<Estimator>,
    pub(super) capacity: f64,
    /// Work in open transactions, weighted by [`Weights`].
    load: u32,
    /// Number of calls in progress.
    pub(super) calls: u64,
    /// Number of its last call in the sequence of all calls, to break ties.
    pub(super) turn: u64,
    latencies: Vec<Duration>,
    taken: u64,
}

impl Host {
    pub(super) fn new(
        now: Instant,
        member: u32,
        host: &CloudHost,
        neighbours: Option<Neighbours>,
        announcing: &Announcing,
        rng: &Rng,
    ) -> Self {
        let (estimator, capacity) = match announcing {
            Announcing::Fixed(capacity) => (None, *capacity),
            Announcing::Estimated(settings) => {
                let estimator = Estimator::new(now, **settings);
                let capacity = estimator.capacity();
                (Some(estimator), capacity)
            }
        };
        Self {
            member,
            duty: Duty::Ready,
            machine: Machine::new(host.spread.clone(), host.card, host.pauses.clone(), neighbours, rng),
            costs: host.work.map(|part| Duration::from_secs_f64(part / host.rate)),
            estimator,
            capacity,
            load: 0,
            calls: 0,
            turn: 0,
            latencies: Vec::new(),
            taken: 0,
        }
    }

    /// Adds the work of a transaction that has started.
    pub(super) fn begin(&mut self, method: Method) {
        self.load += Weights::default().work(method);
    }

    /// Removes the work of a transaction that has ended.
    pub(super) fn end(&mut self, method: Method) {
        self.load = self.load.saturating_sub(Weights::default().work(method));
    }

    /// Its load in units of a BYE.
    pub(super) fn load(&self) -> f64 {
        f64::from(self.load) / f64::from(Weights::UNIT)
    }

    pub(super) fn on_call(&mut self, turn: u64) {
        self.turn = turn;
        self.calls += 1;
        self.taken += 1;
    }

    /// Records the latency of a forwarded INVITE.
    pub(super) fn on_forwarded(&mut self, latency: Duration) {
        self.latencies.push(latency);
    }

    /// Ends a window of one second.
    pub(super) fn end_window(&mut self, now: Instant, second: &mut CloudSecond) {
        self.latencies.sort_unstable();
        let count = self.latencies.len();
        let place = (count * 95).div_ceil(100).saturating_sub(1);
        let p95 = self.latencies.get(place).copied();
        let window = ServerWindow { calls: self.taken, p95, goodput: count as f64, oldest: None };
        second.least = self.latencies.first().copied();
        second.most = self.latencies.last().copied();
        (second.p95, second.goodput) = (p95, count as u64);
        // The capacity that applied during the window.
        second.requested = self.capacity;
        if let Some(estimator) = &mut self.estimator {
            self.capacity = estimator.on_window(now, &window);
        }
        self.latencies.clear();
        self.taken = 0;
    }
}
