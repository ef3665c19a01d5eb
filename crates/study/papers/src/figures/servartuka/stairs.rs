//! A load that rises in steps as in the paper (section 2.2), and the results of a network at each step.

use super::super::topology::at;
use super::network::{Mode, Network};
use base::Instant;
use core::time::Duration;
use load::RateStep;
use sim::model::{BinRates, RunResults, StreamResults, run_until};
use sim::stats::Series;

/// Height and length of the steps, and the part of each that counts. Loads are calls per second of the paper's server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stairs {
    /// The first load.
    pub(super) from: f64,
    /// Upper limit of all steps.
    pub(super) to: f64,
    pub(super) step: f64,
    /// Seconds in which the load rises from half of the first load to the first load.
    pub(super) rise: u64,
    /// Seconds of a step, and number of its last seconds that count.
    pub(super) hold: u64,
    pub(super) count: u64,
    /// Factor by which the simulated network is smaller.
    pub(super) scale: f64,
}

/// Results of a network at a step, in calls per second of the paper's server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Intended load of the step.
    pub(super) load: f64,
    offered: f64,
    answered: f64,
    /// Calls that rang while no server kept their state.
    without_state: f64,
    /// Retransmissions of requests by callers and callees.
    pub(super) resends: f64,
    /// INVITEs that a server refused.
    pub(super) refused: f64,
    /// Completed calls.
    pub(super) goodput: f64,
    /// Utilisation of the busiest server.
    pub(super) utilisation: f64,
}

/// Minimum share of answered calls for a load to count as carried.
pub(super) const CARRIED: f64 = 0.99;
/// Distance below that limit from which a load is certainly not carried, despite rounding.
const SURELY: f64 = 1e-6;

impl Step {
    /// Share of the step's calls that were answered in it.
    pub(super) fn share_answered(&self) -> f64 {
        self.answered / self.offered
    }

    /// Share of the step's calls without state.
    pub(super) fn share_without_state(&self) -> f64 {
        self.without_state / self.offered
    }

    /// Whether (nearly) all calls of the step were answered at once.
    pub(super) fn is_carried(&self) -> bool {
        self.share_answered() >= CARRIED
    }
}

/// Highest load before the first that is not carried; 0 if the first is not carried.
pub(super) fn capacity(steps: &[Step]) -> f64 {
    steps.iter().take_while(|step| step.is_carried()).last().map_or(0.0, |step| step.load)
}

/// The same capacity, if calls without state count as not carried.
pub(super) fn capacity_with_state(steps: &[Step]) -> f64 {
    let is_carried = |step: &&Step| step.is_carried() && step.share_without_state() <= 1.0 - CARRIED;
    steps.iter().take_while(is_carried).last().map_or(0.0, |step| step.load)
}

impl Stairs {
    fn loads(&self) -> impl Iterator<Item = f64> + use<> {
        let Self { from, to, step, .. } = *self;
        // Slightly more, so that rounding does not lose the last step.
        let count = ((to - from) / step * (1.0 + 1e-6)).max(0.0) as u32;
        (0..=count).map(move |index| from + step * f64::from(index))
    }

    /// Runs a network through all steps, or through the first step at or above `enough` that is certainly not carried.
    /// The early end is for runs that only determine the capacity.
    pub(super) fn climb(
        &self,
        network: &Network,
        mode: Mode,
        trying: bool,
        enough: Option<f64>,
        seed: u64,
    ) -> Vec<Step> {
        let mut loads: Vec<f64> = self.loads().collect();
        let seconds = self.rise + self.hold * loads.len() as u64;
        let mut scenario = network.scenario(seconds, self.scale);
        for (stream, share) in scenario.streams.iter_mut().zip(network.shares()) {
            let step = |at, load: f64, ramp| {
                let rate = load * share / self.scale;
                RateStep { at: Duration::from_secs(at), rate, ramp }
            };
            stream.load = vec![step(0, loads[0] / 2.0, true)];
            stream.load.extend((0..).zip(&loads).map(|(index, load)| step(self.begin(index), *load, false)));
        }
        let (mut climbed, mut offered, mut answered) = (loads.len(), 0.0, 0.0);
        let mut is_over = |now: Instant, lately: BinRates| {
            let second = (now.as_nanos() / 1_000_000_000).checked_sub(self.rise + 1);
            let Some(second) = second.filter(|_| enough.is_some()) else { return false };
            let (index, second) = ((second / self.hold) as usize, second % self.hold);
            if second == self.hold - self.count {
                (offered, answered) = (0.0, 0.0);
            }
            offered += lately.offered;
            answered += lately.answered;
            let is_lost = second + 1 == self.hold && answered < (CARRIED - SURELY) * offered;
            let is_over = is_lost && enough.is_some_and(|enough| loads[index] >= enough);
            if is_over {
                climbed = index + 1;
            }
            is_over
        };
        let results = run_until(&scenario, &network.state(mode, trying, self.scale), seed, &mut is_over);
        let step = |(index, load): (u64, &f64)| {
            let step = self.step(&results, index, *load);
            // Servers that keep all state do not announce it.
            if mode == Mode::Stateful { Step { without_state: 0.0, ..step } } else { step }
        };
        loads.truncate(climbed);
        (0..).zip(&loads).map(step).collect()
    }

    fn begin(&self, index: u64) -> u64 {
        self.rise + self.hold * index
    }

    fn step(&self, results: &RunResults, index: u64, load: f64) -> Step {
        let to = self.begin(index + 1);
        let from = to - self.count;
        let rate = |of: fn(&StreamResults) -> &Series| {
            let rates = results.streams.iter().map(|stream| of(stream).rate(at(from), at(to)));
            rates.sum::<f64>() * self.scale
        };
        let busy = results.hosts.iter().map(|host| {
            let bins = host.utilisation.iter().filter(|bin| at(from) < bin.0 && bin.0 <= at(to));
            bins.map(|bin| bin.1).sum::<f64>() / self.count as f64
        });
        let refused = results.hosts.iter().map(|host| host.rejected.rate(at(from), at(to)));
        // Starting from 0 avoids -0 for the sum of no refusals.
        let refused = refused.fold(0.0, |sum, rate| sum + rate);
        Step {
            load,
            offered: rate(|stream| &stream.offered),
            answered: rate(|stream| &stream.answered[0]),
            goodput: rate(|stream| &stream.completed),
            without_state: rate(|stream| &stream.unmarked),
            resends: rate(|stream| &stream.resends),
            refused: self.scale * refused,
            utilisation: busy.fold(0.0, f64::max),
        }
    }
}
