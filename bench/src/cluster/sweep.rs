//! Rising loads in front of a cluster, by one way: response times of INVITE and BYE, and whether all are answered.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum as _;
use config::scenario::{BalancerSettings, Costs, Group, HostRole, QuotaSettings, StallSettings, Ties};
use load::RandomTime;
use papers::report::Axis;
use sim::model::NetworkState;
use sim::stats::Moments;

use super::pauses::Pause;
use super::servers::Servers;
use super::{CALLERS, ClusterBench, NODES, Product, Way, figure};
use crate::callers::HoldingTime;
use crate::generator::{Level, LoadGenerator, OfferedLoad};
use crate::log::{CallLog, CallRecord, percentile_ms};
use crate::process::own_ns;
use crate::quota::period;
use crate::report::name;
use crate::rig::{BALANCER, Rig, address, beside};
use crate::simulated::Model;
use crate::study::{
    Alternative, Bound, Cell, Measure, Over, Picture, Question, Round, Samples, Study, Values,
};

/// Latest time of a response that counts, in nanoseconds: by then the request was sent three times in vain. Responses
/// are awaited for as long.
const DONE_NS: u64 = 4_000_000_000;
/// A load is carried if more than this fraction of requests is answered, as in the balancing papers.
const DONE: f64 = 0.9999;
/// Calls in progress for each server while the capacity is measured, and seconds that count. The seconds before do not:
/// as many as servers keep answered requests, as these are part of their work, and two more.
const IN_PROGRESS: usize = 20;
const CAPACITY_S: f64 = 10.0;
/// Servers are idle when they use less than this fraction of their quotas, so that earlier overload is over. The wait
/// has a limit in seconds.
const AT_REST: f64 = 0.1;
const REST_S: u32 = 60;
/// Steps of the ramp up to the first load, and seconds of each.
const RAMP: (u32, f64) = (4, 0.5);
/// "As the system approaches peak throughput": as a fraction of the cluster's capacity.
const NEAR_PEAK: f64 = 0.9;
/// Load at which the simulator is compared.
const COMPARED: f64 = 0.7;

/// Number and quotas of the servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    nodes: usize,
    /// Whether every second server has half the quota of the others.
    is_unequal: bool,
}

impl Shape {
    /// Returns the fraction of a processor of each.
    fn quotas(self, product: Product) -> Vec<f64> {
        let part = |index| if self.is_unequal && index % 2 == 1 { 0.5 } else { 1.0 };
        (0..self.nodes).map(|index| part(index) * product.quota()).collect()
    }

    fn name(self) -> String {
        let kind = if self.is_unequal { "unequal " } else { "" };
        let servers = if self.nodes == 1 { "server" } else { "servers" };
        format!("{} {kind}{servers}", self.nodes)
    }
}

/// Loads and times.
#[derive(Clone, PartialEq, Debug)]
struct Plan {
    /// As fractions of the cluster's capacity, rising above 1.
    loads: Vec<f64>,
    /// Seconds at each load that do not count, and those that do.
    settle: f64,
    counted: f64,
}

/// Length of calls in seconds.
const HOLDING: HoldingTime = HoldingTime { mean: 2.0, deviation: 1.0 };

impl Plan {
    fn of(quick: bool) -> Self {
        if quick {
            return Self { loads: vec![0.7, 0.9], settle: 1.0, counted: 2.0 };
        }
        Self { loads: vec![0.5, 0.7, 0.8, 0.9, 1.0, 1.2], settle: 2.5, counted: 10.0 }
    }

    fn levels(&self, capacity: f64) -> Vec<Level> {
        let (steps, seconds) = RAMP;
        let first = self.loads.first().copied().unwrap_or(0.0) * capacity;
        let ramp =
            (1..=steps).map(|step| Level { rate: first * f64::from(step) / f64::from(steps + 1), seconds });
        let seconds = self.settle + self.counted;
        let loads = self.loads.iter().map(|load| Level { rate: load * capacity, seconds });
        ramp.chain(loads).collect()
    }

    /// Returns the time in which a load counts.
    fn window(&self, index: usize) -> Range<f64> {
        let ramp = f64::from(RAMP.0) * RAMP.1;
        let from = ramp + index as f64 * (self.settle + self.counted) + self.settle;
        from..from + self.counted
    }
}

/// Times from a request to its 2xx, in milliseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Times {
    mean: f64,
    p50: f64,
    p95: f64,
    p99: f64,
}

impl Times {
    fn of(mut taken_ns: Vec<u64>) -> Self {
        taken_ns.sort_unstable();
        let at = |percent| percentile_ms(&taken_ns, percent);
        let mean = taken_ns.iter().map(|ns| *ns as f64).sum::<f64>() / taken_ns.len() as f64 / 1e6;
        Self { mean, p50: at(50), p95: at(95), p99: at(99) }
    }
}

/// Result of a load. Response times are those of answered requests.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct LoadSample {
    /// Offered calls a second.
    rate: f64,
    invite: Times,
    bye: Times,
    /// Fraction of the INVITEs and BYEs answered with 2xx within four seconds.
    done: f64,
    /// Retransmissions a second.
    repeated: f64,
    /// Processor time of the servers, as a fraction of their quotas.
    servers: f64,
    /// Processors used by the balancer, and by the callers.
    balancer: f64,
    callers: f64,
    /// Fraction of time that a server paused for garbage collection, mean over the servers.
    paused: f64,
    /// Pauses a second of each server; the longest, and their standard deviation, in milliseconds.
    pauses: f64,
    pause_ms: f64,
    pause_deviation_ms: f64,
    /// Greatest delay between the due time and the start of a call in the whole run, in milliseconds.
    late_ms: f64,
    /// Calls a second at the peak of the whole run; NaN if the loads end before it.
    peak: f64,
}

fn measures() -> Vec<Measure<LoadSample>> {
    let measure = |column, digits, of| Measure { column, digits, of };
    vec![
        measure("rate", Some(0), |it: &LoadSample| it.rate),
        measure("invite_mean_ms", Some(1), |it| it.invite.mean),
        measure("invite_p50_ms", None, |it| it.invite.p50),
        measure("invite_p95_ms", None, |it| it.invite.p95),
        measure("invite_p99_ms", Some(1), |it| it.invite.p99),
        measure("bye_mean_ms", Some(1), |it| it.bye.mean),
        measure("bye_p50_ms", None, |it| it.bye.p50),
        measure("bye_p95_ms", None, |it| it.bye.p95),
        measure("bye_p99_ms", None, |it| it.bye.p99),
        measure("done", Some(4), |it| it.done),
        measure("repeated", None, |it| it.repeated),
        measure("servers", Some(2), |it| it.servers),
        measure("balancer", Some(2), |it| it.balancer),
        measure("callers", None, |it| it.callers),
        measure("paused", Some(3), |it| it.paused),
        measure("pauses", None, |it| it.pauses),
        measure("pause_ms", None, |it| it.pause_ms),
        measure("pause_deviation_ms", None, |it| it.pause_deviation_ms),
        measure("late_ms", None, |it| it.late_ms),
        measure("peak", Some(0), |it| it.peak),
    ]
}

/// Returns the highest rate in calls a second up to which every load was carried. More than 99.99 % of requests are
/// done then, and as many without retransmission. A load counts for seconds only, and under a lasting overload
/// retransmitted requests would soon fail. NaN if the first load is not carried, or the last one still is.
fn peak(levels: &[LoadSample]) -> f64 {
    // INVITE and BYE.
    let repeated = |level: &LoadSample| level.repeated / (2.0 * level.rate);
    let carried = levels.iter().take_while(|level| level.done > DONE && repeated(level) < 1.0 - DONE).count();
    if carried == levels.len() {
        return f64::NAN;
    }
    levels[..carried].iter().map(|level| level.rate).fold(f64::NAN, f64::max)
}

/// Usage at one time.
struct Look {
    servers: f64,
    balancer: f64,
    callers: f64,
}

/// Servers that are ready, and callers.
pub(super) struct Cluster {
    shape: Shape,
    generator: LoadGenerator,
    servers: Servers,
}

impl Cluster {
    fn start(bench: &ClusterBench, product: Product, shape: Shape) -> Result<Self> {
        let mut generator = LoadGenerator::new(CALLERS, 0)?;
        let servers = Servers::start(bench, product, shape.quotas(product), &mut generator)?;
        Ok(Self { shape, generator, servers })
    }

    /// Starts the balancer. It knows the capacities of the servers relative to the fastest, or treats all as equal.
    fn balance(&mut self, bench: &ClusterBench, way: Way, knows_capacities: bool) -> Result<(Rig, usize)> {
        let most = self.servers.quotas.iter().copied().fold(0.0, f64::max);
        let capacity = |quota: &f64| if knows_capacities { quota / most } else { 1.0 };
        let capacities: Vec<f64> = self.servers.quotas.iter().map(capacity).collect();
        let mut rig = Rig::new(&bench.paths)?;
        let balancer = way.start(&mut rig, &capacities)?;
        rig.await_calls(&mut self.generator, &[address(BALANCER)])?;
        Ok((rig, balancer))
    }

    /// Returns the servers' capacity in calls a second, with policy `tlwl`.
    fn capacity(&mut self, bench: &ClusterBench) -> Result<f64> {
        let _balancer = self.balance(bench, Way::Tlwl, true)?;
        let settle = if bench.quick { 1.0 } else { self.servers.product.keeps() + 2.0 };
        let seconds = settle + if bench.quick { 2.0 } else { CAPACITY_S };
        self.generator.holding = HoldingTime::default();
        let calls = IN_PROGRESS * self.servers.quotas.len();
        let log = self.generator.play(&[address(BALANCER)], OfferedLoad::Closed { calls, seconds })?;
        let capacity = log.window(settle..seconds).set_up;
        ensure!(capacity > 10.0, "the servers carry {capacity} calls/s, which is too little to measure");
        Ok(capacity)
    }

    /// Waits until the servers are idle: after an overload they have work for half a minute.
    fn await_rest(&self) -> Result<()> {
        let quota: f64 = self.servers.quotas.iter().sum();
        for _ in 0..REST_S {
            let before = self.servers.used()?;
            thread::sleep(Duration::from_secs(1));
            if self.servers.used()? - before < AT_REST * quota {
                return Ok(());
            }
        }
        bail!("the servers are still busy {REST_S} s after the last load, which would affect the next run")
    }

    /// Plays all loads.
    fn sweep(
        &mut self,
        bench: &ClusterBench,
        (way, knows_capacities): (Way, bool),
        (capacity, seed): (f64, u64),
        plan: &Plan,
    ) -> Result<Vec<LoadSample>> {
        self.await_rest()?;
        self.servers.collect()?;
        let (rig, balancer) = self.balance(bench, way, knows_capacities)?;
        let (generator, servers) = (&mut self.generator, &self.servers);
        // The same arrivals for all ways of a round.
        generator.seed = Some(seed);
        (generator.holding, generator.patience_ns) = (HOLDING, DONE_NS);
        let load = OfferedLoad::Open(plan.levels(capacity));
        let windows: Vec<Range<f64>> = (0..plan.loads.len()).map(|index| plan.window(index)).collect();
        let times: Vec<f64> = windows.iter().flat_map(|window| [window.start, window.end]).collect();
        let look = |_| {
            let balancer = rig.used(&[balancer])?;
            Ok(Look { servers: servers.used()?, balancer, callers: own_ns() as f64 / 1e9 })
        };
        let epoch = Instant::now();
        let (log, looks) = beside(&times, look, || generator.play(&[address(BALANCER)], load))?;
        let pauses = servers.pauses(epoch);
        let quota: f64 = servers.quotas.iter().sum();
        let sample = |(looks, window): (&[Look], Range<f64>)| {
            let part = |used: fn(&Look) -> f64| (used(&looks[1]) - used(&looks[0])) / plan.counted;
            LoadSample {
                servers: part(|look| look.servers) / quota,
                balancer: part(|look| look.balancer),
                callers: part(|look| look.callers),
                ..LoadSample::of(&log, &pauses, window)
            }
        };
        let levels: Vec<LoadSample> = looks.chunks(2).zip(windows).map(sample).collect();
        let peak = peak(&levels);
        Ok(levels.into_iter().map(|level| LoadSample { peak, ..level }).collect())
    }
}

impl LoadSample {
    /// Evaluates the INVITEs due in this time, and the BYEs sent in it.
    fn of(log: &CallLog, pauses: &[Vec<Pause>], seconds: Range<f64>) -> Self {
        let length = seconds.end - seconds.start;
        let is_within = |ns: u64| seconds.contains(&(ns as f64 / 1e9));
        let started = || log.calls.iter().filter(|call| is_within(call.due_ns));
        let ended = || log.calls.iter().filter(|call| call.hung_up_ns.is_some_and(is_within));
        let taken = |calls: &mut dyn Iterator<Item = &CallRecord>, time: fn(&CallRecord) -> Option<u64>| {
            let all: Vec<Option<u64>> = calls.map(time).collect();
            let done = all.iter().flatten().filter(|ns| **ns <= DONE_NS).count();
            (all.len(), done, Times::of(all.into_iter().flatten().collect()))
        };
        let (invites, answered, invite) = taken(&mut started(), |call| call.set_up_ns);
        let (byes, over, bye) = taken(&mut ended(), |call| call.ended_ns);
        let within =
            || pauses.iter().flatten().filter(|pause| seconds.contains(&pause.at)).map(|pause| pause.ms);
        let stood: Moments = within().collect();
        let server_seconds = length * pauses.len() as f64;
        let repeated = log.repetitions_ns.iter().filter(|ns| is_within(**ns)).count();
        Self {
            rate: invites as f64 / length,
            invite,
            bye,
            done: (answered + over) as f64 / (invites + byes) as f64,
            repeated: repeated as f64 / length,
            paused: stood.mean() * stood.count() as f64 / 1e3 / server_seconds,
            pauses: stood.count() as f64 / server_seconds,
            pause_ms: within().fold(0.0, f64::max),
            pause_deviation_ms: stood.deviation(),
            late_ms: log.late_ns_max as f64 / 1e6,
            ..Self::default()
        }
    }
}

impl ClusterBench {
    /// One run of a way with these servers, which are reused by the next one.
    fn by(
        &self,
        product: Product,
        shape: Shape,
        (way, knows_capacities): (Way, bool),
        round: &mut Round<'_>,
    ) -> Result<Samples<LoadSample>> {
        let mut running = self.running.borrow_mut();
        if running.as_ref().is_none_or(|it| it.shape != shape || it.servers.product != product) {
            // The servers before must end first: they have the same addresses.
            *running = None;
            *running = Some(Cluster::start(self, product, shape)?);
        }
        let cluster = running.as_mut().context("they have been started")?;
        let capacity = format!("calls/s that {} carry", shape.name());
        let capacity = round.figures.once(&figure(product, &capacity), || cluster.capacity(self))?;
        let plan = Plan::of(self.quick);
        let levels = cluster.sweep(self, (way, knows_capacities), (capacity, round.seed), &plan);
        if levels.is_err() {
            *running = None;
        }
        Ok(plan.loads.into_iter().zip(levels?).collect())
    }

    fn alternative(&self, product: Product, shape: Shape, way: Way) -> Alternative<'_, LoadSample> {
        Alternative::new(name(&way), move |round| self.by(product, shape, (way, false), round))
    }

    /// Eight servers by every way, and some ways in the simulator.
    pub(super) fn response(&self, product: Product) -> Study<'_, LoadSample> {
        let shape = Shape { nodes: NODES, is_unequal: false };
        let ways = Way::value_variants().iter();
        let mut alternatives: Vec<_> = ways.map(|way| self.alternative(product, shape, *way)).collect();
        alternatives.extend(MODELS.map(|way| {
            Alternative::model(format!("{way}, simulated"), move |round| {
                let quotas = shape.quotas(product);
                let plan = Plan::of(self.quick);
                let at = |load: &f64| simulated(round, product, (way, &quotas), *load).map(|it| (*load, it));
                plan.loads.iter().map(at).collect()
            })
        }));
        let load = || Over::Places(Axis::linear("load (part of the capacity)").from_to(0.4, 1.25));
        let picture = |title, column| Picture { title, column, over: load(), y: Axis::log("ms") };
        let peaks = Over::Alternatives;
        Study {
            at: "load",
            cells: vec![Cell::new(shape.name(), alternatives)],
            measures: measures(),
            questions: response_questions(&shape.name()),
            pictures: vec![
                picture("Time of an INVITE, mean", "invite_mean_ms"),
                picture("Time of a BYE, mean", "bye_mean_ms"),
                Picture {
                    title: "Peak throughput by way",
                    column: "peak",
                    over: peaks,
                    y: Axis::linear("peak (calls/s)"),
                },
                // The README shows this picture.
                picture("99 of 100 INVITEs are answered within", "invite_p99_ms"),
            ],
            ..Study::new(
                name(&product),
                format!("Clusters of {}", name(&product)),
                format!("{} of {}. Calls last 2 s, with a deviation of 1 s.", shape.name(), name(&product)),
            )
        }
    }

    /// Rising numbers of servers.
    pub(super) fn nodes(&self, product: Product) -> Study<'_, LoadSample> {
        let cell = |nodes| {
            let shape = Shape { nodes, is_unequal: false };
            let alternatives =
                [Way::Tlwl, Way::RoundRobin].map(|way| self.alternative(product, shape, way)).into();
            Cell { name: shape.name(), x: nodes as f64, alternatives }
        };
        let numbers: &[usize] = if self.quick { &[1, 2] } else { &[1, 2, 4, NODES, 10] };
        let peak = |nodes| {
            let shape = Shape { nodes, is_unequal: false };
            Values::new(shape.name(), name(&Way::Tlwl), None, "peak")
        };
        Study {
            at: "load",
            cells: numbers.iter().map(|nodes| cell(*nodes)).collect(),
            measures: measures(),
            questions: vec![Question {
                statement: "Eight servers carry eight times what one does (95 % of that at least)."
                    .to_owned(),
                source: "000, section V-B, figure 5",
                left: peak(NODES),
                right: Some(peak(1)),
                bound: Bound::Above(0.95 * NODES as f64),
            }],
            pictures: vec![Picture {
                title: "Peak throughput by number of servers",
                column: "peak",
                over: Over::Cells("servers"),
                y: Axis::linear("peak (calls/s)"),
            }],
            ..Study::new(
                format!("{}-nodes", name(&product)),
                format!("Clusters of {} by their number", name(&product)),
                "Peaks in calls a second.",
            )
        }
    }

    /// Eight servers, of which half have half the speed.
    pub(super) fn unequal(&self, product: Product) -> Study<'_, LoadSample> {
        let shape = Shape { nodes: NODES, is_unequal: true };
        let ways = [Way::Tlwl, Way::Tjsq, Way::Cjsq, Way::RoundRobin, Way::Hash];
        let untold = ways.into_iter().chain([Way::KamailioLoad]);
        let mut alternatives: Vec<_> = untold.map(|way| self.alternative(product, shape, way)).collect();
        alternatives.extend(ways.map(|way| {
            Alternative::new(informed(way), move |round| self.by(product, shape, (way, true), round))
        }));
        let peak = |alternative| Values::new(shape.name(), alternative, None, "peak");
        let question = |statement, right, least| Question {
            statement,
            source: "000, section V-B, figure 6",
            left: peak(name(&Way::Tlwl)),
            right: Some(peak(right)),
            bound: Bound::Above(least),
        };
        let more = |way| {
            let statement =
                format!("Without the capacities of the servers, tlwl carries 60 % more than {way}.");
            question(statement, name(&way), 1.6)
        };
        let near =
            "Tlwl without the capacities carries nearly what it does with them (95 % of that at least).";
        Study {
            at: "load",
            cells: vec![Cell::new(shape.name(), alternatives)],
            measures: measures(),
            questions: vec![
                more(Way::RoundRobin),
                more(Way::Hash),
                question(near.to_owned(), informed(Way::Tlwl), 0.95),
            ],
            pictures: vec![Picture {
                title: "Peak throughput of unequal servers",
                column: "peak",
                over: Over::Alternatives,
                y: Axis::linear("peak (calls/s)"),
            }],
            ..Study::new(
                format!("{}-unequal", name(&product)),
                format!("Unequal clusters of {}", name(&product)),
                "Half of the servers have half the speed.",
            )
        }
    }
}

fn informed(way: Way) -> String {
    format!("{way}, capacities told")
}

/// The simulated ways.
const MODELS: [Way; 3] = [Way::Tlwl, Way::RoundRobin, Way::Hash];

fn response_questions(cell: &str) -> Vec<Question> {
    let values = |alternative: String, load, column| Values::new(cell, alternative, load, column);
    let near = |way: Way, column| values(name(&way), Some(NEAR_PEAK), column);
    let source = "000, section V-A, figures 2 and 3";
    let beside_tlwl = |way: Way, (label, column, verb): (&str, &'static str, &str), times: f64| Question {
        statement: format!("{label} {verb} by {way} than by tlwl near the peak."),
        source,
        left: near(way, column),
        right: Some(near(Way::Tlwl, column)),
        bound: Bound::Above(times),
    };
    let invite = ("An INVITE", "invite_mean_ms", "takes longer");
    let others = [Way::Tjsq, Way::Cjsq, Way::RoundRobin, Way::Hash, Way::Rwma];
    let mut questions: Vec<Question> = others.map(|way| beside_tlwl(way, invite, 1.0)).into();
    let hundred = ("An INVITE", "invite_mean_ms", "takes a hundred times as long");
    questions.extend([Way::Cjsq, Way::RoundRobin, Way::Hash].map(|way| beside_tlwl(way, hundred, 100.0)));
    questions.push(Question {
        statement: "An INVITE takes longer than a BYE.".to_owned(),
        source,
        left: near(Way::Tlwl, "invite_mean_ms"),
        right: Some(near(Way::Tlwl, "bye_mean_ms")),
        bound: Bound::Above(1.0),
    });
    questions.extend([Way::RoundRobin, Way::Hash, Way::Cjsq, Way::KamailioLoad].map(|way| Question {
        statement: format!("The peak throughput of tlwl is 25 % above that of {way}."),
        source: "000, section VII, figure 4",
        left: values(name(&Way::Tlwl), None, "peak"),
        right: Some(values(name(&way), None, "peak")),
        bound: Bound::Above(1.25),
    }));
    questions.extend(MODELS.map(|way| Question {
        statement: format!(
            "By {way} an INVITE takes as long at 70 % load as in the simulator with these pauses and this use, within 15 %."
        ),
        source: "the model",
        left: values(name(&way), Some(COMPARED), "invite_mean_ms"),
        right: Some(values(format!("{way}, simulated"), Some(COMPARED), "invite_mean_ms")),
        bound: Bound::Between(1.0 / 1.15, 1.15),
    }));
    questions
}

/// Simulates the same cluster with the costs of `bench cluster --parts costs`, and the measured pauses and control
/// groups. NaN without costs, or if the servers had no idle time.
///
/// Costs were measured with a whole processor. A server limited to a small fraction takes more time for the same work,
/// and less of it under higher load. All costs are therefore scaled alike, to the usage of the servers at this load.
/// They include the processor time of pauses, which is subtracted.
fn simulated(
    round: &Round<'_>,
    product: Product,
    (way, quotas): (Way, &[f64]),
    load: f64,
) -> Result<LoadSample> {
    let live = |column| {
        let found = round.rows.values(round.cell, &name(&way), Some(load), column);
        found.into_iter().find(|(number, _)| *number == round.number).map_or(f64::NAN, |(_, value)| value)
    };
    let price = |label| round.figures.get(&figure(product, label)).unwrap_or(f64::NAN) / 1e6;
    let measured = Measured {
        rate: live("rate"),
        servers: live("servers"),
        paused: live("paused"),
        pauses: live("pauses"),
        pause_deviation_ms: live("pause_deviation_ms"),
    };
    let prices = ["us of an INVITE", "us of a BYE"].map(price);
    let model = model(way, quotas, prices, &measured)?;
    let nothing = Times { mean: f64::NAN, p50: f64::NAN, p95: f64::NAN, p99: f64::NAN };
    let none = LoadSample {
        rate: measured.rate,
        invite: nothing,
        bye: nothing,
        peak: f64::NAN,
        ..LoadSample::default()
    };
    let Some(model) = model else { return Ok(none) };
    let found = model.at(measured.rate, round.seed);
    Ok(LoadSample {
        rate: found.window.offered,
        invite: Times { mean: found.invite, p99: found.invite_p99, ..nothing },
        bye: Times { mean: found.bye, ..nothing },
        done: found.window.set_up / found.window.offered,
        servers: found.busy,
        ..none
    })
}

/// Measured behaviour of the servers at a load.
struct Measured {
    rate: f64,
    servers: f64,
    paused: f64,
    pauses: f64,
    pause_deviation_ms: f64,
}

fn model(way: Way, quotas: &[f64], prices: [f64; 2], measured: &Measured) -> Result<Option<Model>> {
    let Measured { rate, servers, paused, pauses, pause_deviation_ms } = *measured;
    let [invite, bye] = prices;
    let (quota, count) = (quotas.iter().sum::<f64>(), quotas.len() as f64);
    // Processor time of a call in seconds, without pauses.
    let call = (servers - paused) * quota / rate;
    let is_known = invite > 0.0 && bye > 0.0 && call > 0.0 && servers < 1.0;
    if !is_known {
        return Ok(None);
    }
    let (policy, weights) = config::policy(&name(&way)).context("a policy of Sarabande")?;
    let settings = BalancerSettings { policy, weights, ties: Ties::Turns, probes: false, outlier: false };
    let balancer =
        Group { name: "balancer".to_owned(), role: HostRole::Balancer(settings), ..Group::default() };
    let servers = Group {
        name: "server".to_owned(),
        count: quotas.len() as u16,
        role: HostRole::Server,
        capacities: quotas.iter().map(|quota| quota / call).collect(),
        stalls: (pauses > 0.0).then(|| stalls(paused, pauses, pause_deviation_ms)),
        quota: Some(QuotaSettings { period: period(quotas[0]), processor: 1.0 / call }),
        ..Group::default()
    };
    Ok(Some(Model {
        groups: vec![balancer, servers],
        costs: Costs { base_capacity: quota / count / call, invite_work: invite / bye, ..Costs::default() },
        state: NetworkState::default(),
        holding: RandomTime::Normal(
            Duration::from_secs_f64(HOLDING.mean),
            Duration::from_secs_f64(HOLDING.deviation),
        ),
        counted: 120,
    }))
}

/// Returns pauses of this frequency and length.
fn stalls(paused: f64, pauses: f64, deviation_ms: f64) -> StallSettings {
    let mean = paused / pauses;
    let [every, mean, deviation] =
        [1.0 / pauses - mean, mean, deviation_ms / 1e3].map(Duration::from_secs_f64);
    StallSettings { every, length: RandomTime::Normal(mean, deviation) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn windows_follow_the_ramp_and_each_other() {
        let plan = Plan { loads: vec![0.5, 1.0], settle: 1.0, counted: 4.0 };
        assert_eq!([plan.window(0), plan.window(1)], [3.0..7.0, 8.0..12.0]);
        let levels = plan.levels(100.0);
        let rates: Vec<f64> = levels.iter().map(|level| level.rate).collect();
        assert_eq!(rates, [10.0, 20.0, 30.0, 40.0, 50.0, 100.0]);
        let until: f64 = levels[..5].iter().map(|level| level.seconds).sum();
        assert!((until - plan.window(0).end).abs() < 1e-9);
    }

    #[test]
    fn each_request_counts_where_it_was_sent() {
        let call = |due: u64, set_up: Option<u64>, bye: Option<(u64, Option<u64>)>| CallRecord {
            set_up_ns: set_up.map(|ms| ms * MS),
            hung_up_ns: bye.map(|(at, _)| at * MS),
            ended_ns: bye.and_then(|(_, took)| took.map(|ms| ms * MS)),
            ..CallRecord::new(false, due * MS)
        };
        let calls = vec![
            call(500, Some(1), Some((1_500, Some(3)))),
            call(1_000, Some(10), Some((2_500, Some(1)))),
            call(1_100, Some(4_100), None),
            call(1_200, None, None),
            call(1_300, Some(20), Some((1_700, None))),
        ];
        let log = CallLog { calls, repetitions_ns: vec![900 * MS, 1_500 * MS], ..CallLog::default() };
        let pauses = [vec![Pause { at: 1.5, ms: 30.0 }, Pause { at: 2.5, ms: 50.0 }], vec![]];
        let level = LoadSample::of(&log, &pauses, 1.0..2.0);
        // Four INVITEs of which two are done, one is late and one is lost; two BYEs of which one is done.
        assert!((level.done - 0.5).abs() < 1e-9 && (level.rate - 4.0).abs() < 1e-9);
        assert_eq!([level.invite.p50, level.invite.p99, level.bye.p99].map(|ms| ms as u64), [20, 4_100, 3]);
        assert!((level.paused - 0.015).abs() < 1e-9 && (level.pause_ms - 30.0).abs() < 1e-9);
        assert!((level.pauses - 0.5).abs() < 1e-9 && level.pause_deviation_ms.abs() < 1e-9);
        assert!((level.repeated - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_peak_is_below_the_first_load_that_is_not_carried() {
        let level = |rate, done| LoadSample { rate, done, ..LoadSample::default() };
        let levels = [level(50.0, 1.0), level(60.0, 0.99995), level(70.0, 0.999), level(80.0, 1.0)];
        assert!((peak(&levels) - 60.0).abs() < 1e-9);
        assert!(peak(&levels[2..]).is_nan() && peak(&levels[..2]).is_nan());
        let mut late = [level(50.0, 1.0), level(60.0, 1.0)];
        late[1].repeated = 1.0;
        assert!((peak(&late) - 50.0).abs() < 1e-9, "retransmitted requests are late");
    }

    #[test]
    fn unequal_servers_have_half() {
        let shape = Shape { nodes: 4, is_unequal: true };
        assert_eq!(shape.quotas(Product::Java), [0.09, 0.045, 0.09, 0.045]);
    }

    /// 8 servers of 0.09 that take 600 us a call carry 1,200 calls/s.
    fn at(way: Way, measured: &Measured) -> Option<crate::simulated::Simulated> {
        let quotas = Shape { nodes: NODES, is_unequal: false }.quotas(Product::Java);
        let model = model(way, &quotas, [400e-6, 200e-6], measured).expect("a policy");
        model.map(|model| model.at(measured.rate, 1))
    }

    fn few() -> Measured {
        Measured { rate: 6.0, servers: 0.005, paused: 0.0, pauses: 0.0, pause_deviation_ms: 0.0 }
    }

    #[test]
    fn a_lightly_loaded_cluster_has_the_service_times_of_a_whole_processor() {
        for stretch in [1.0, 2.0] {
            let measured = Measured { servers: stretch * few().servers, ..few() };
            let found = at(Way::Tlwl, &measured).expect("it carries that");
            // Some requests arrive when the quota of a period is used up.
            assert!((1.0..1.15).contains(&(found.invite / (0.4 * stretch))), "{found:?}");
            assert!((1.0..1.15).contains(&(found.bye / (0.2 * stretch))), "{found:?}");
        }
        assert!(at(Way::Tlwl, &Measured { servers: 1.0, ..few() }).is_none());
    }

    #[test]
    fn pauses_lengthen_times_and_are_not_paid_twice() {
        let without = Measured { rate: 600.0, servers: 0.5, ..few() };
        let with = Measured { paused: 0.04, pauses: 0.8, pause_deviation_ms: 10.0, ..without };
        let [without, with] = [without, with].map(|it| at(Way::RoundRobin, &it).expect("it carries that"));
        // One INVITE in 25 arrives in a pause of 50 ms.
        assert!(with.invite_p99 > without.invite_p99 + 20.0, "{without:?} {with:?}");
        // Three quarters of the time are work. With all pauses on top it would be too much.
        let most = Measured { rate: 900.0, servers: 0.75, paused: 0.3, pauses: 3.0, ..few() };
        let found = at(Way::Tlwl, &most).expect("it carries that");
        assert!(found.invite < 1_000.0, "{found:?}");
    }
}
