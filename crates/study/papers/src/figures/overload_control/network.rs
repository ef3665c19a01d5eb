//! One server with its neighbours, and the trials of the comparison.

use super::super::FigureOptions;
use super::super::topology::{at, hold, steps};
use config::scenario::{Group, Scenario, ScenarioFeedback, ScenarioLocal, Stream};
use core::time::Duration;
use sim::model::{self, RunResults};

/// Capacity of the server in calls per second: six messages of 1 ms.
pub(super) const CARRIED: f64 = 1000.0 / 6.0;
/// Steady loads, in units of the capacity.
pub(super) const LOADS: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];
/// Calls per second before, in and after the step.
const STEP: [f64; 3] = [140.0, 400.0, 140.0];
/// Mean holding time, seconds.
const HOLDING: u64 = 5;
/// Number of neighbours that send to the server, and a large number of them.
pub(super) const NEIGHBOURS: u16 = 4;
pub(super) const MANY: u16 = 40;
/// Load from many neighbours, in units of the capacity.
pub(super) const MANY_TIMES: f64 = 10.0;
/// Half of T1, in milliseconds: a higher mean delay means that messages are sent twice.
const TARDY_MS: f64 = 250.0;

/// A law that controls the load of the server.
pub(super) struct Law {
    pub(super) name: &'static str,
    local: ScenarioLocal,
    feedback: ScenarioFeedback,
    retry_after: bool,
    triage: bool,
}

impl Law {
    const fn local(name: &'static str, local: ScenarioLocal) -> Self {
        Self { name, local, feedback: ScenarioFeedback::None, retry_after: false, triage: false }
    }

    const fn told(name: &'static str, local: ScenarioLocal, feedback: ScenarioFeedback) -> Self {
        Self { feedback, ..Self::local(name, local) }
    }

    /// Whether the server itself refuses excess calls.
    pub(super) fn decides(&self) -> bool {
        self.local != ScenarioLocal::None
    }

    /// Whether neighbours get feedback.
    pub(super) fn is_told(&self) -> bool {
        self.feedback != ScenarioFeedback::None
    }
}

/// The law that the documentation recommends.
pub(super) const RECOMMENDED: &str = "delay + rate";

/// Every law, local ones first.
pub(super) const ALL: [Law; 14] = [
    Law::local("none", ScenarioLocal::None),
    Law { triage: true, ..Law::local("triage", ScenarioLocal::None) },
    Law::local("bang-bang", ScenarioLocal::BangBang),
    Law { retry_after: true, ..Law::local("retry-after", ScenarioLocal::BangBang) },
    Law::local("occupancy", ScenarioLocal::Occupancy),
    Law::local("delay", ScenarioLocal::Delay),
    Law { triage: true, ..Law::local("delay, triage", ScenarioLocal::Delay) },
    Law::told("hop-by-hop", ScenarioLocal::Occupancy, ScenarioFeedback::HopByHop),
    Law::told("end-to-end", ScenarioLocal::Occupancy, ScenarioFeedback::EndToEnd),
    Law::told("rate", ScenarioLocal::None, ScenarioFeedback::Rate),
    Law::told("window", ScenarioLocal::None, ScenarioFeedback::Window),
    Law::told(RECOMMENDED, ScenarioLocal::Delay, ScenarioFeedback::Rate),
    Law { triage: true, ..Law::told("delay + rate, triage", ScenarioLocal::Delay, ScenarioFeedback::Rate) },
    Law::told("delay + window", ScenarioLocal::Delay, ScenarioFeedback::Window),
];

/// A trial.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trial {
    /// A constant load, in units of the capacity.
    Steady { times: f64, ack_priced: bool, neighbours: u16 },
    /// A step up and down.
    Step,
}

/// Results of one second of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Second {
    pub(super) offered: f64,
    pub(super) answered: f64,
    /// Mean time from INVITE to 200; NaN if no call was answered.
    pub(super) delay_ms: f64,
}

/// Times of events, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Time at which the load rises to a steady overload.
    pub(super) before: u64,
    /// Time for the load to settle, and time that counts after that.
    pub(super) settle: u64,
    pub(super) count: u64,
    /// Times at which the step goes up and down, and the end of its run.
    pub(super) up: u64,
    pub(super) down: u64,
    pub(super) end: u64,
}

impl Times {
    pub(super) fn of(options: &FigureOptions) -> Self {
        let full = Self { before: 5, settle: 60, count: 40, up: 20, down: 60, end: 100 };
        let quick = Self { settle: 16, count: 8, ..full };
        options.scale(full, quick, Self { before: 1, settle: 1, count: 1, up: 3, down: 9, end: 12 })
    }
}

/// Results of a run.
pub(super) struct Shown {
    /// Goodput in percent of the capacity, in the seconds that count.
    pub(super) percent: f64,
    /// 99th percentile of the answered calls' waits since the load stepped up.
    pub(super) worst: Duration,
    /// All seconds of the step.
    pub(super) seconds: Vec<Second>,
    times: Times,
}

impl Shown {
    /// Seconds after the step until answers come in time for the rest of it; its whole length if they never do.
    pub(super) fn settled(&self) -> u64 {
        let bad = |second: &Second| second.delay_ms.is_nan() || second.delay_ms > TARDY_MS;
        last(&self.seconds[self.times.up as usize..self.times.down as usize], bad)
    }

    /// Returns [`settled`](Self::settled) as text.
    pub(super) fn settled_text(&self) -> String {
        within(self.settled(), self.times.down - self.times.up)
    }

    /// Seconds after the load fell until at least 90 % of the calls are answered in every further second.
    pub(super) fn recovered(&self) -> u64 {
        let rest = &self.seconds[self.times.down as usize..self.times.end as usize];
        last(rest, |second| second.answered < 0.9 * second.offered)
    }

    /// Returns [`recovered`](Self::recovered) as text.
    pub(super) fn recovered_text(&self) -> String {
        within(self.recovered(), self.times.end - self.times.down)
    }

    /// Whether it did not recover.
    pub(super) fn stays_down(&self) -> bool {
        self.recovered() >= self.times.end - self.times.down
    }
}

/// Formats seconds, or "more than" their maximum.
fn within(seconds: u64, of: u64) -> String {
    if seconds >= of { format!("more than {of}") } else { seconds.to_string() }
}

/// Number of seconds until the last bad one is over.
fn last(seconds: &[Second], bad: impl Fn(&Second) -> bool) -> u64 {
    seconds.iter().rposition(bad).map_or(0, |index| index as u64 + 1)
}

/// Runs a trial with a law.
pub(super) fn show(times: Times, law: &Law, trial: Trial, seed: u64) -> Shown {
    let Times { before, settle, count, up, down, end } = times;
    let (neighbours, ack_priced) = match trial {
        Trial::Steady { ack_priced, neighbours, .. } => (neighbours, ack_priced),
        Trial::Step => (NEIGHBOURS, true),
    };
    let (up, from, to, load) = match trial {
        Trial::Steady { times, .. } => {
            let load = steps(&[(0, STEP[0]), (before, CARRIED * times)]);
            (before, before + settle, before + settle + count, load)
        }
        // Completed calls in the step: the first calls of the step end after a holding time.
        Trial::Step => (up, up + HOLDING, end, steps(&[(0, STEP[0]), (up, STEP[1]), (down, STEP[2])])),
    };
    let mut scenario = network(law, neighbours, to);
    scenario.streams[0].load = load;
    scenario.run.warm_up = Duration::from_secs(up);
    if !ack_priced {
        scenario.costs.reject_ack = Duration::ZERO;
    }
    let results = model::run(&scenario, seed);
    let counted = if let Trial::Step = trial { down } else { to };
    let percent = 100.0 * results.rates(at(from), at(counted)).1 / CARRIED;
    let worst = results.streams[0].answer_delay.percentile(99.0);
    Shown { percent, worst, seconds: seconds(&results, to), times }
}

fn network(law: &Law, neighbours: u16, seconds: u64) -> Scenario {
    let mut neighbours = Group::proxies("neighbour", neighbours, 0.0);
    neighbours.capacities.clear();
    let server = Group::proxies("server", 1, 160.0);
    let calls = Stream::of_paper("calls", vec![0, 1], 0.0);
    let mut scenario = Scenario::new(vec![neighbours, server], vec![calls], Duration::from_secs(seconds));
    hold(&mut scenario, HOLDING);
    scenario.run.bin = Duration::from_secs(1);
    for (group, is_server) in scenario.groups.iter_mut().zip([false, true]) {
        let overload = &mut group.overload;
        overload.feedback = law.feedback;
        // The probability at an edge server is the minimum of the feedback and its own.
        let by_probability = matches!(law.feedback, ScenarioFeedback::HopByHop | ScenarioFeedback::EndToEnd);
        if is_server || by_probability {
            overload.local = law.local;
        }
        if is_server {
            overload.triage = law.triage;
            overload.retry_after = law.retry_after.then_some(Duration::from_secs(10));
        }
    }
    scenario
}

fn seconds(results: &RunResults, to: u64) -> Vec<Second> {
    let stream = &results.streams[0];
    let second = |second| {
        let (from, to) = (at(second), at(second + 1));
        let answered = stream.answered[0].rate(from, to);
        let delay_ms = 1e3 * stream.answered[1].rate(from, to) / answered;
        Second { offered: stream.offered.rate(from, to), answered, delay_ms }
    };
    (0..to).map(second).collect()
}
