//! Streams of calls: start times and random properties of each call.

use super::measure::StreamMeasure;
use super::message::HostId;
use base::{Instant, Rng};
use config::scenario::{Scenario, Stream};
use core::ops::Range;
use core::time::Duration;
use load::user_agent::UasPlan;
use load::{ArrivalPlan, Arrivals, RandomTime, RateStep};
use rand::RngCore;
use transaction::Timers;

/// Returns the plan of an agent that makes this share of a stream's calls.
pub fn arrivals(stream: &Stream, share: f64) -> ArrivalPlan {
    let steps = stream.load.iter().map(|step| RateStep { rate: step.rate * share, ..*step });
    ArrivalPlan { process: stream.arrivals, steps: steps.collect(), calls_max: None, duration: None }
}

/// A stream of calls.
pub(super) struct Source {
    pub(super) arrivals: Arrivals,
    holding: RandomTime,
    holding_rng: Rng,
    place_rng: Rng,
    pub(super) plan: UasPlan,
    pub(super) patience: Duration,
    pub(super) measure: StreamMeasure,
}

impl Source {
    pub(super) fn new(stream: &Stream, scenario: &Scenario, timers: Timers, rng: &Rng) -> Self {
        let rng = rng.fork(&stream.name);
        Self {
            arrivals: Arrivals::new(arrivals(stream, 1.0), Instant::ZERO, rng.fork("arrivals")),
            holding: stream.holding,
            holding_rng: rng.fork("holding"),
            place_rng: rng.fork("places"),
            plan: UasPlan { ring: stream.ring, answer: stream.answer, t1: timers.t1, t2: timers.t2 },
            patience: stream.patience,
            measure: StreamMeasure::new(
                stream.name.clone(),
                scenario.run.bin,
                Instant::ZERO + scenario.run.warm_up,
            ),
        }
    }

    /// Draws one of these hosts. Must be called for every call, whatever its outcome, so that runs that differ
    /// elsewhere have the same calls.
    pub(super) fn draw(&mut self, hosts: Range<u16>) -> HostId {
        let count = hosts.len() as u64;
        HostId(hosts.start + ((u64::from(self.place_rng.next_u32()) * count) >> 32) as u16)
    }

    /// Draws the duration of the next call.
    pub(super) fn draw_holding(&mut self) -> Duration {
        self.holding.sample(&mut self.holding_rng)
    }
}
