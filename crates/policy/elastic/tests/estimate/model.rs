//! Small model of a server: latency from load and from the processor share that its neighbours leave, one second at a
//! time.

use base::{Instant, Rng};
use core::time::Duration;
use elastic::estimate::{Estimator, EstimatorSettings, ServerWindow};
use rand::Rng as _;

/// Calls a second that the server can process alone on its host.
pub(crate) const SERVICE_RATE: f64 = 800.0;
/// 95th percentile without load, seconds.
const BASE: f64 = 300e-6;

/// Conditions of the server in one second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Second {
    /// Calls offered to it.
    pub(crate) demand: f64,
    /// Share of the processor that the neighbours leave.
    pub(crate) speed: f64,
    /// Factor of the latency that is unrelated to load (a database, a full disk).
    pub(crate) elsewhere: f64,
    /// Whether one slow window is measured: a spike.
    pub(crate) spike: bool,
    /// Whether the server has stopped.
    pub(crate) stalls: bool,
}

impl Default for Second {
    fn default() -> Self {
        Self { demand: 1_000.0, speed: 1.0, elsewhere: 1.0, spike: false, stalls: false }
    }
}

impl Second {
    /// 95th percentile at a rate with no backlog.
    fn latency(&self, rate: f64) -> f64 {
        let load = (rate / (SERVICE_RATE * self.speed)).min(0.98);
        BASE / self.speed * self.elsewhere * (1.0 + 3.0 * load * load / (1.0 - load))
    }

    /// Largest rate within the threshold: the announcement of an ideal estimator.
    pub(crate) fn best(&self, threshold: f64) -> f64 {
        let (mut low, mut high) = (0.0, SERVICE_RATE * self.speed);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if self.latency(middle) <= threshold { low = middle } else { high = middle }
        }
        low
    }
}

/// Result of a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) announced: f64,
    pub(crate) carried: f64,
    pub(crate) high: bool,
}

/// The server and its estimator.
pub(crate) struct Server {
    estimator: Estimator,
    threshold: f64,
    backlog: f64,
    now: Instant,
    noise: f64,
    rng: Rng,
}

impl Server {
    pub(crate) fn new(settings: EstimatorSettings, noise: f64, seed: u64) -> Self {
        Self {
            estimator: Estimator::new(Instant::ZERO, settings),
            threshold: settings.threshold.as_secs_f64(),
            backlog: 0.0,
            now: Instant::ZERO,
            noise,
            rng: Rng::from_seed(seed),
        }
    }

    /// Simulates a second. Calls beyond the announced capacity go elsewhere.
    pub(crate) fn second(&mut self, second: Second) -> Outcome {
        let announced = self.estimator.capacity();
        let offered = second.demand.min(announced);
        let rate = if second.stalls { 0.0 } else { SERVICE_RATE * second.speed };
        let carried = (self.backlog + offered).min(rate);
        self.backlog = (self.backlog + offered - carried).min(SERVICE_RATE);
        let noise = 1.0 + self.noise * self.rng.random_range(-1.0..1.0);
        let mut latency = second.latency(offered) * noise;
        latency += self.backlog / (SERVICE_RATE * second.speed);
        if second.spike {
            latency *= 6.0;
        }
        let p95 = (carried >= 1.0).then(|| Duration::from_secs_f64(latency));
        self.now += Duration::from_secs(1);
        self.estimator.on_window(
            self.now,
            &ServerWindow { calls: offered as u64, p95, goodput: carried, ..ServerWindow::EMPTY },
        );
        Outcome { announced, carried, high: carried >= 1.0 && latency > self.threshold }
    }
}
