//! The phases of the demo and their times.

use load::{ArrivalPlan, ArrivalProcess, RateStep};
use std::time::Duration;

/// A phase of the story.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// Effect that the phase shows.
    pub(super) shows: &'static str,
    /// Calls a second in the second half. In the first half the rate changes to this.
    pub(super) rate: f64,
    /// Whether the first server has a busy neighbour.
    pub(super) has_neighbour: bool,
    /// Length in a story of [`SECONDS`].
    seconds: f64,
}

pub(super) const PHASES: [Phase; 5] = [
    Phase {
        name: "few callers",
        shows: "one server is needed, one is spare",
        rate: 20.0,
        has_neighbour: false,
        seconds: 10.0,
    },
    Phase {
        name: "callers come",
        shows: "servers are started ahead of them",
        rate: 135.0,
        has_neighbour: false,
        seconds: 22.0,
    },
    Phase {
        name: "busy neighbour",
        shows: "pbx-1 gets fewer calls",
        rate: 135.0,
        has_neighbour: true,
        seconds: 16.0,
    },
    Phase {
        name: "neighbour gone",
        shows: "pbx-1 gets its full share again",
        rate: 135.0,
        has_neighbour: false,
        seconds: 15.0,
    },
    Phase {
        name: "callers go",
        shows: "servers are drained, then stopped",
        rate: 20.0,
        has_neighbour: false,
        seconds: 22.0,
    },
];

/// Default length of the story.
pub(super) const SECONDS: f64 = 85.0;
const QUICK_SECONDS: f64 = 50.0;

/// Times of servers. In a cloud these times are minutes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pace {
    /// Time that a server takes to start.
    pub(super) boot: Duration,
    /// Time for which fewer servers must have been enough before one is drained.
    pub(super) calm: Duration,
    /// Time without calls after which a drained server is stopped.
    pub(super) idle: Duration,
}

/// The lengths of the phases, and the pace of the servers.
pub(super) struct Story {
    pub(super) pace: Pace,
    /// Length of all phases.
    pub(super) total: f64,
}

impl Story {
    pub(super) fn of(total: f64) -> Self {
        let [boot, calm, idle] = [3, 5, 3].map(Duration::from_secs);
        Self { pace: Pace { boot, calm, idle }, total }
    }

    pub(super) fn quick() -> Self {
        let [boot, calm, idle] = [1, 2, 1].map(Duration::from_secs);
        Self { pace: Pace { boot, calm, idle }, total: QUICK_SECONDS }
    }

    /// Start of a phase, in seconds; for an index after the last phase, the end of the demo.
    pub(super) fn begin(&self, index: usize) -> f64 {
        PHASES[..index].iter().map(|phase| phase.seconds).sum::<f64>() * self.total / SECONDS
    }

    /// Start of the second half of a phase, in seconds.
    pub(super) fn middle(&self, index: usize) -> f64 {
        f64::midpoint(self.begin(index), self.begin(index + 1))
    }

    /// Number of phases that are over.
    pub(super) fn over(&self, seconds: f64) -> usize {
        (1..=PHASES.len()).take_while(|&index| self.begin(index) <= seconds).count()
    }

    /// Schedule of the calls, with random arrivals.
    pub(super) fn plan(&self) -> ArrivalPlan {
        let mut steps = Vec::new();
        let mut rate = PHASES[0].rate;
        for (index, phase) in PHASES.iter().enumerate() {
            let at = Duration::from_secs_f64;
            steps.push(RateStep { at: at(self.begin(index)), rate, ramp: true });
            steps.push(RateStep { at: at(self.middle(index)), rate: phase.rate, ramp: false });
            rate = phase.rate;
        }
        ArrivalPlan {
            process: ArrivalProcess::Poisson,
            steps,
            calls_max: None,
            duration: Some(Duration::from_secs_f64(self.total)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_follows_the_one_before_and_changes_the_rate_in_its_first_half() {
        let sum: f64 = PHASES.iter().map(|phase| phase.seconds).sum();
        assert!((sum - SECONDS).abs() < 1e-9, "{sum}");
        let story = Story::of(2.0 * SECONDS);
        let overs = [0.0, 19.9, 20.0, 63.9, 64.0, 169.9, 170.0].map(|seconds| story.over(seconds));
        assert_eq!(overs, [0, 0, 1, 1, 2, 4, 5]);
        let steps = story.plan().steps;
        let of_second = [steps[2], steps[3]].map(|step| (step.at.as_secs(), step.rate, step.ramp));
        assert_eq!(of_second, [(20, 20.0, true), (42, 135.0, false)]);
        assert!(steps.is_sorted_by(|one, next| one.at < next.at));
    }
}
