//! One server that fails calls at once: its share of calls by policy, with and without outlier detection.
//!
//! No paper has this figure. A server that fails calls at once has no work, so policies of least work prefer it.

use super::tlwl::{POLICIES, SERVER_CAPACITY, costs, groups};
use super::topology::at;
use super::{FigureOptions, FigureRun, series};
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement};
use config::scenario::{FaultKind, HostFault, HostRole, Scenario, Stream};
use core::time::Duration;
use load::RandomTime;
use sim::model::{RunResults, run};

/// Source of the figure and of its statements.
pub(super) const SOURCE: &str = "docs/policies.md, servers that fail";

const SERVERS: u16 = 4;
/// Calls per second, a load that three servers carry easily.
const LOAD: f64 = 0.4 * 4.0 * SERVER_CAPACITY;
/// Seconds before the fault: half a minute with calls of a few seconds.
const BEFORE: u64 = 30;
const HOLDING: Duration = Duration::from_secs(6);
/// Seconds that a callee rings: the time that a successful call counts as work.
const RING: u64 = 2;
/// Seconds of calls after the fault within which detection must have acted.
const FIRST: u64 = 10;
/// Shares of calls that the server fails, for one policy.
const SHARES: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 1.0];
/// Policy of these runs.
const ONE: &str = "tlwl-1.75";
/// Policies that compare the work or the calls of servers.
const LEAST: [&str; 4] = ["cjsq", "tjsq", "tlwl-1.75", "tlwl-2"];

/// Servers that fail calls.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Who {
    /// The last server.
    One,
    /// All servers, because the calls themselves are the cause.
    All,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Case {
    policy: &'static str,
    who: Who,
    /// Share of the failed calls.
    share: f64,
    outlier: bool,
    /// Seconds from the fault to the end.
    after: u64,
}

impl Case {
    fn scenario(self) -> Scenario {
        let (mut balancer, servers) = groups(self.policy, SERVERS);
        if let HostRole::Balancer(settings) = &mut balancer.role {
            settings.outlier = self.outlier;
        }
        let since = Duration::from_secs(BEFORE);
        let kind = FaultKind::Failing(self.share);
        let fault = |host| HostFault { group: 1, host, at: since, kind };
        let faults = match self.who {
            Who::One => vec![fault(SERVERS - 1)],
            Who::All => (0..SERVERS).map(fault).collect(),
        };
        let mut calls = Stream::of_paper("calls", vec![0, 1], LOAD);
        calls.holding = RandomTime::Exponential(HOLDING);
        calls.answer = Duration::from_secs(RING);
        let duration = since + Duration::from_secs(self.after);
        let mut scenario = Scenario::new(vec![balancer, servers], vec![calls], duration);
        (scenario.run.warm_up, scenario.run.bin) = (since, Duration::from_secs(1));
        (scenario.costs, scenario.faults) = (costs(), faults);
        scenario
    }

    fn run(&self, seed: u64) -> RunResults {
        run(&self.scenario(), seed)
    }
}

/// Share of the calls since the fault that were refused, in percent.
fn refused(results: &RunResults) -> f64 {
    let stream = &results.streams[0];
    100.0 * stream.outcomes.refused as f64 / stream.calls.max(1) as f64
}

/// All runs, by case.
struct Runs(Vec<(Case, RunResults)>);

impl Runs {
    fn make(work: &FigureRun<'_>) -> Self {
        let mut cases = Vec::new();
        for outlier in [false, true] {
            let case = |policy, who, share| Case { policy, who, share, outlier, after: after(work) };
            cases.extend(POLICIES.map(|policy| case(policy, Who::One, 1.0)));
            // The last share is already included.
            cases.extend(SHARES[..SHARES.len() - 1].iter().map(|&share| case(ONE, Who::One, share)));
            cases.push(case(ONE, Who::All, 1.0));
            cases.push(case(ONE, Who::All, 0.4));
        }
        let results = work.each("servers that fail", &cases, Case::run);
        Self(cases.into_iter().zip(results).collect())
    }

    fn of(&self, policy: &str, who: Who, share: f64, outlier: bool) -> &RunResults {
        let is = |case: &Case| {
            (case.policy, case.who, case.outlier) == (policy, who, outlier)
                && case.share.total_cmp(&share).is_eq()
        };
        &self.0.iter().find(|(case, _)| is(case)).expect("a statement is about a case that was run").1
    }

    /// Percent of the calls that are refused if one server fails all its calls.
    fn lost(&self, policy: &str, outlier: bool) -> f64 {
        refused(self.of(policy, Who::One, 1.0, outlier))
    }

    fn listed(&self, policies: &[&str], outlier: bool) -> String {
        let one = |policy: &&str| format!("{policy} {:.2} %", self.lost(policy, outlier));
        policies.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn plots(&self) -> Vec<Plot> {
        let label = "calls refused (%)";
        let y = Axis::linear(label).from_to(0.0, 100.0);
        let mut policies = Plot::new("It fails all calls that it gets", Axis::names("policy", POLICIES), y);
        let title = format!("It fails a part of its calls ({ONE})");
        let mut shares = Plot::new(title, Axis::linear("share that it fails (%)"), Axis::linear(label));
        let mut course = series::plot(
            &format!("It fails all calls that it gets ({ONE}): calls answered"),
            "calls/s",
            &[(BEFORE, "fails")],
        );
        let offered = &self.of(ONE, Who::One, 1.0, true).streams[0].offered;
        course.series(series::steps("offered", offered));
        for (outlier, name) in [(false, "without detection"), (true, "with detection")] {
            policies.series(PlotSeries::bars(name, POLICIES.map(|policy| self.lost(policy, outlier))));
            let points = SHARES.map(|share| (100.0 * share, refused(self.of(ONE, Who::One, share, outlier))));
            shares.series(PlotSeries::line(name, points));
            let answered = &self.of(ONE, Who::One, 1.0, outlier).streams[0].answered[0];
            course.series(series::steps(name, answered));
        }
        let even = 100.0 / f64::from(SERVERS);
        policies.level("an even split", even);
        vec![policies, shares, course]
    }

    fn claims(&self, after: u64) -> Vec<Statement> {
        let source = SOURCE;
        let even = 100.0 / f64::from(SERVERS);
        let course = |outlier| {
            let answered = &self.of(ONE, Who::One, 1.0, outlier).streams[0].answered[0];
            answered.rate(at(BEFORE + RING), at(BEFORE + RING + FIRST))
        };
        let part = |outlier| refused(self.of(ONE, Who::One, 0.6, outlier));
        let alike = |share, outlier| refused(self.of(ONE, Who::All, share, outlier));
        claims! {
            source, "Without detection, least-work policies send the failing server far more than its share.",
                ["{} of all calls are refused; an even split is {even:.0} %.", self.listed(&LEAST, false)],
                LEAST.iter().all(|policy| self.lost(policy, false) > 2.0 * even);
            source, "With detection every policy loses a few calls at first and after each ejection.",
                ["{} within {after} s. The check requires less than 2 % of each.", self.listed(&POLICIES, true)],
                POLICIES.iter().all(|policy| self.lost(policy, true) < 2.0);
            source, "Detection acts within seconds.",
                ["In the first {FIRST} s {:.0} calls/s are answered with detection and {:.0} without, of {LOAD:.0}. \
                 The check requires 95 %.", course(true), course(false)],
                course(true) > 0.95 * LOAD && course(false) < 0.95 * LOAD;
            source, "A server that fails more than half of its calls is detected by its share of failures.",
                ["A server fails 60 %: {:.2} % of all calls are refused with detection, {:.2} % without.", part(true),
                 part(false)],
                part(true) < part(false) / 3.0;
            source, "Failures of all servers alike eject no server.",
                ["All fail 40 %: {:.2} % are refused with detection, {:.2} % without. All fail 100 %: {:.0} and {:.0} \
                 %.",
                 alike(0.4, true), alike(0.4, false), alike(1.0, true), alike(1.0, false)],
                (alike(0.4, true) - alike(0.4, false)).abs() < 2.0 && alike(1.0, true) > 99.9;
        }
    }
}

/// Seconds from the fault to the end: long enough for several ejections.
fn after(options: &FigureOptions) -> u64 {
    options.scale(120, 60, 15)
}

pub(in crate::figures) fn failing(work: &FigureRun<'_>) -> Figure {
    let runs = Runs::make(work);
    let mut figure = work.figure(runs.plots());
    figure.claims = runs.claims(after(work));
    figure.assumptions = vec![
        format!(
            "{SERVERS} servers of {SERVER_CAPACITY} calls/s each, as in the figures of the TLWL paper, and {LOAD:.0} \
             calls/s for {HOLDING:?} on average, answered after {RING} s of ringing. After {BEFORE} s the last one answers its calls with 500, at once and \
             without work, as one whose database is gone. Calls in progress go on. Callers do not try again."
        ),
        "Outlier detection has the defaults of the configuration: ejected for 10 s at five server failures in a row \
         while the others answer, or at more than half of the calls and more than three times the others' share and \
         ten points; for longer each time."
            .into(),
    ];
    figure.notes = vec![
        "With detection an INVITE that a server fails also counts for its load as long as one takes that succeeds; \
         without it ends with its answer."
            .into(),
    ];
    figure
}
