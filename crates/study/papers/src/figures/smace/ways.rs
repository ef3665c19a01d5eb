//! Ways to distribute calls to three servers, in front of a resource other than a server's processor. Compares the ways
//! while neighbours take a part of the resource.

use super::super::FigureRun;
use super::{micros, seconds, server};
use crate::report::{Axis, Plot, PlotSeries, ReportTable, Statement, StatementVerdict};
use core::time::Duration;
use elastic::estimate::{CapacityLaw, EstimatorSettings};
use elastic::queue::{Accrual, MemberChoice, Overflow, QueueSettings};
use sim::cloud::{Announcing, CloudPlan, CloudResults, CloudServers, Front, Neighbours, Resource, Vantage};
use sim::stats::Interval;

pub(super) const SERVERS: usize = 3;
/// Calls per second of all servers together.
pub(super) const LOAD: f64 = 450.0;
/// Maximum of calls per second for a server, as configured by the operator.
pub(super) const CAPACITY: f64 = 300.0;
/// Maximum ratio of a queue's set-up times to TLWL's for a queue that counts as no worse.
const LONGER: f64 = 1.1;
/// Maximum of additional lost calls compared with TLWL for such a queue, in percent of all calls.
const MORE_LOST: f64 = 0.5;
/// Default response time that bounds the unanswered calls of a member of the queue.
const THRESHOLD: Duration = Duration::from_millis(10);

/// A way to distribute calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// TLWL without a queue.
    Tlwl,
    /// `queue = { capacity = ... }`.
    Queue,
    /// As in the paper: a monitor, its law, and a counter for each second.
    Paper,
}

pub(super) const WAYS: [Way; 3] = [Way::Tlwl, Way::Queue, Way::Paper];

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tlwl => "TLWL",
            Self::Queue => "queue",
            Self::Paper => "queue, the paper's monitor",
        }
    }

    /// Returns the same cluster with this way; `goal` is the target latency of the estimators.
    fn of(self, plan: &CloudPlan, goal: Duration) -> CloudPlan {
        let usual = QueueSettings::default();
        let (front, announcing, measured) = match self {
            Self::Tlwl => (Front::Tlwl, Announcing::Fixed(CAPACITY), Vantage::Front),
            Self::Queue => {
                let accrual = Accrual::Answers { most: CAPACITY };
                let queue = QueueSettings { accrual, threshold: Some(THRESHOLD), ..usual };
                (Front::Queue(Box::new(queue)), Announcing::Fixed(CAPACITY), Vantage::Front)
            }
            Self::Paper => {
                let (accrual, choice, overflow) =
                    (Accrual::PerSecond, MemberChoice::MostRoom, Overflow::Drop);
                let queue = QueueSettings { accrual, choice, overflow, ..usual };
                let (law, threshold, maximum) = (CapacityLaw::Smace, goal, CAPACITY);
                let settings = EstimatorSettings {
                    law,
                    threshold,
                    maximum,
                    goodput_bounded: false,
                    ..EstimatorSettings::default()
                };
                let announcing = Announcing::Estimated(Box::new(settings));
                (Front::Queue(Box::new(queue)), announcing, Vantage::Server)
            }
        };
        CloudPlan { front, announcing, measured, ..plan.clone() }
    }
}

/// Times of a run in seconds: neighbours are active from one to two units, and the run ends half a unit later.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) unit: u64,
}

impl Times {
    pub(super) fn new(work: &FigureRun<'_>) -> Self {
        Self { unit: work.scale(100, 60, 4) }
    }

    /// Returns neighbours that take a share of the resource in this period.
    pub(super) fn neighbours(self, resource: Resource, share: f64) -> Vec<Neighbours> {
        let when = vec![(seconds(self.unit), seconds(2 * self.unit))];
        vec![Neighbours { resource, when, share, steal: None }]
    }

    /// Returns a plan with three servers. Calls count from the start of the neighbours' activity.
    pub(super) fn cluster(self) -> CloudPlan {
        let plan = server(LOAD, self.unit, self.unit * 5 / 2);
        CloudPlan { servers: CloudServers::Fixed(SERVERS), ..plan }
    }
}

/// Results of all clusters with all ways.
pub(super) struct Compared {
    names: Vec<&'static str>,
    pub(super) times: Times,
    /// By cluster, by way, by run.
    results: Vec<Vec<Vec<CloudResults>>>,
}

impl Compared {
    /// Runs these clusters, each with its name. `goal` is the target latency of the estimators.
    pub(super) fn run(
        work: &FigureRun<'_>,
        times: Times,
        clusters: &[(&'static str, CloudPlan)],
        goal: Duration,
    ) -> Self {
        let plans: Vec<_> =
            clusters.iter().flat_map(|(_, plan)| WAYS.map(|way| way.of(plan, goal))).collect();
        let runs = work.replicate("seeds", &plans, work.scale(10, 6, 2), sim::cloud::run);
        let results = runs.chunks(WAYS.len()).map(<[_]>::to_vec).collect();
        Self { names: clusters.iter().map(|(name, _)| *name).collect(), times, results }
    }

    pub(super) fn runs(&self, cluster: usize, way: Way) -> &[CloudResults] {
        let at = WAYS.iter().position(|of| *of == way).expect("each way is run");
        &self.results[cluster][at]
    }

    /// Interval of a value over the runs.
    pub(super) fn of(&self, cluster: usize, way: Way, value: impl Fn(&CloudResults) -> f64) -> Interval {
        Interval::over(self.runs(cluster, way).iter().map(value))
    }

    /// Interval of a value relative to the TLWL run with the same seed.
    pub(super) fn beside_tlwl(
        &self,
        cluster: usize,
        way: Way,
        value: impl Fn(&CloudResults) -> f64,
    ) -> Interval {
        let pairs = self.runs(cluster, way).iter().zip(self.runs(cluster, Way::Tlwl));
        Interval::over(pairs.map(|(one, tlwl)| value(one) / value(tlwl)))
    }

    /// Mean of a value over the seconds of a run, while neighbours are active (`true`) or before. Only the second half
    /// of each period counts, because estimators adapt in the first half.
    pub(super) fn within(
        &self,
        run: &CloudResults,
        is_busy: bool,
        value: impl Fn(&sim::cloud::CloudSecond) -> f64,
    ) -> f64 {
        let unit = self.times.unit as usize;
        let from = if is_busy { unit } else { 0 };
        let values = run.seconds[from + unit / 2..from + unit].iter().map(value);
        super::mean(values.filter(|value| !value.is_nan()))
    }

    /// Claims that a queue with only a capacity is no worse than TLWL, within [`LONGER`] and [`MORE_LOST`].
    pub(super) fn no_worse(&self, cluster: usize, statement: &str) -> Statement {
        let (lost, tlwl) = (self.of(cluster, Way::Queue, lost), self.of(cluster, Way::Tlwl, lost));
        let ratio = |percent| self.beside_tlwl(cluster, Way::Queue, move |run| set_up(run, percent));
        let (p95, p99) = (ratio(95.0), ratio(99.0));
        let pairs = self.runs(cluster, Way::Queue).iter().zip(self.runs(cluster, Way::Tlwl));
        let more = Interval::over(pairs.map(|(queue, tlwl)| self::lost(queue) - self::lost(tlwl)));
        let verdict = StatementVerdict::below(p95, LONGER).and(StatementVerdict::below(p99, LONGER));
        Statement::check(
            "ours",
            statement,
            format!(
                "Set-up of carried calls, relative to TLWL: p95 {p95:.2}, p99 {p99:.2} (limit {LONGER}). Lost: \
                 {lost:.2} %, by TLWL {tlwl:.2} (limit {MORE_LOST} points more)."
            ),
            verdict.and(StatementVerdict::below(more, MORE_LOST)),
        )
    }

    /// Returns a table with a row for each cluster and way.
    pub(super) fn table(&self, first: &str) -> ReportTable {
        let mut table = ReportTable::new([
            first,
            "way",
            "95 % of those carried set up within",
            "99 %",
            "lost",
            "latency as it is measured, 95 %",
            "calls of the first server",
        ]);
        for (cluster, name) in self.names.iter().enumerate() {
            for way in WAYS {
                let of = |value: fn(&CloudResults) -> f64| self.of(cluster, way, value);
                let busy = |value: fn(&sim::cloud::CloudSecond) -> f64| {
                    self.of(cluster, way, |run| self.within(run, true, value))
                };
                table.rows.push(vec![
                    (*name).to_owned(),
                    way.name().to_owned(),
                    format!("{:.1} ms", of(|run| set_up(run, 95.0))),
                    format!("{:.1} ms", of(|run| set_up(run, 99.0))),
                    format!("{:.2} %", of(lost)),
                    format!("{:.1} ms", busy(|second| micros(second.p95) / 1e3)),
                    format!("{:.0}/s", busy(|second| second.goodput as f64)),
                ]);
            }
        }
        table
    }

    /// Plots a cluster's first run over time: the latency of the first server, and its calls.
    pub(super) fn plots(&self, cluster: usize) -> Vec<Plot> {
        let name = self.names[cluster];
        let plot = |title: String, y: Axis, value: fn(&sim::cloud::CloudSecond) -> f64| {
            let line = |way: Way| {
                let seconds = &self.runs(cluster, way)[0].seconds;
                PlotSeries::line(way.name(), seconds.iter().map(|second| (second.at, value(second))))
            };
            let mut plot = Plot::of(title, Axis::linear("time (s)"), y, WAYS.into_iter().map(line));
            plot.mark("neighbours begin", self.times.unit as f64);
            plot.mark("and end", (2 * self.times.unit) as f64);
            plot
        };
        vec![
            plot(
                format!("Latency of the first server, {name}"),
                Axis::log("95th percentile (microseconds)"),
                |second| micros(second.p95),
            ),
            plot(format!("Calls of the first server, {name}"), Axis::linear("calls/s"), |second| {
                second.goodput as f64
            }),
        ]
    }
}

/// Lost calls in percent.
pub(super) fn lost(run: &CloudResults) -> f64 {
    100.0 * run.lost_part()
}

/// Milliseconds within which `percent` of the carried calls were set up; lost calls do not count.
pub(super) fn set_up(run: &CloudResults, percent: f64) -> f64 {
    run.set_up.percentile(percent).as_secs_f64() * 1e3
}

/// Returns the assumptions of all clusters.
pub(super) fn assumptions() -> Vec<String> {
    vec![
        format!(
            "{SERVERS} servers get {LOAD:.0} calls/s together. Calls count from when neighbours come until half as long after \
             they have gone as they stay. A call that is refused, or finds a buffer full, is lost and does not come again, so \
             nothing is seen of what repeated INVITEs add to a load."
        ),
        format!(
            "The queue has a capacity of {CAPACITY:.0} calls/s a server and a threshold of {} ms. The paper's monitor stands on \
             the server, has the law smace, and no bound on what is unanswered; what no server asks for is dropped.",
            THRESHOLD.as_millis()
        ),
    ]
}
