//! What was measured, as tables and pictures.

use clap::ValueEnum;
use papers::report::{Axis, Claim, ClaimVerdict, Plot, PlotSeries, ReportTable, Style};
use sarabande_bench::cluster::runs::{Run, Shape};
use sarabande_bench::cluster::sweep::{LevelResult, SweepPlan};
use sarabande_bench::cluster::verdict::{NODES, equal, mean, statements};
use sarabande_bench::cluster::{Product, Way};
use sarabande_bench::report::number;
use sim::stats::Interval;

use super::session::{Session, name};
use crate::files::PartReport;

/// With its interval, if there is one.
fn shown(value: Interval, digits: usize) -> String {
    if value.half_width.is_finite() { format!("{value:.digits$}") } else { number(value.mean, digits) }
}

fn values(of: Vec<(u32, f64)>) -> Interval {
    if of.is_empty() {
        return Interval { mean: f64::NAN, half_width: f64::NAN };
    }
    mean(of.into_iter().map(|(_, value)| value))
}

/// A point of a picture: without a bar where one round says nothing of chance.
fn curve(name: &str, points: Vec<(f64, Interval)>) -> PlotSeries {
    if points.iter().all(|(_, it)| it.half_width.is_finite()) {
        PlotSeries::intervals(name, Style::Line, points)
    } else {
        PlotSeries::line(name, points.into_iter().map(|(x, it)| (x, it.mean)))
    }
}

pub(super) fn parts(session: &Session, plan: &SweepPlan) -> Vec<PartReport> {
    let mut parts = Vec::new();
    parts.extend(costs(session));
    for (product, part) in [(Product::Java, "java"), (Product::Kamailio, "kamailio")] {
        if session.runs.0.iter().any(|(run, _)| run.product == product) {
            parts.push(cluster(session, plan, product, part));
        }
    }
    parts
}

fn costs(session: &Session) -> Option<PartReport> {
    let mut table = ReportTable::new([
        "server",
        "INVITE us",
        "BYE us",
        "INVITE by BYE",
        "REGISTER us",
        "idle, % of a processor",
        "KiB a call",
    ]);
    for (product, costs) in &session.costs {
        table.rows.push(vec![
            name(*product),
            shown(costs.invite_us, 0),
            shown(costs.bye_us, 0),
            shown(costs.ratio(), 2),
            costs.register_us.map_or_else(|| "-".to_owned(), |it| shown(it, 0)),
            number(100.0 * costs.idle.mean, 2),
            number(costs.call_kib, 1),
        ]);
    }
    let names: Vec<String> = session.costs.iter().map(|(product, _)| name(*product)).collect();
    let bars = |label: &str, of: fn(&sarabande_bench::cluster::costs::Costs) -> f64| {
        PlotSeries::bars(label, session.costs.iter().map(|(_, costs)| of(costs)))
    };
    let plot = Plot::of(
        "Processor time of a transaction",
        Axis::names("server", names),
        Axis::linear("us"),
        [bars("INVITE", |costs| costs.invite_us.mean), bars("BYE", |costs| costs.bye_us.mean)],
    );
    (!session.costs.is_empty()).then(|| PartReport {
        name: "costs",
        title: "What transactions cost".to_owned(),
        head: "Processor time, the kernel's included, with 95 % intervals.".to_owned(),
        tables: vec![table],
        plots: vec![plot],
        csv: String::new(),
    })
}

fn cluster(session: &Session, plan: &SweepPlan, product: Product, part: &'static str) -> PartReport {
    let capacity = session.capacities.iter().filter(|(of, ..)| *of == product);
    let carried: Vec<String> = capacity
        .map(|(_, Shape { nodes, is_unequal }, capacity)| {
            format!("{nodes}{} carry {capacity:.0} calls/s", if *is_unequal { " unequal ones" } else { "" })
        })
        .collect();
    let costs = session.costs.iter().find(|(of, _)| *of == product).map(|(_, costs)| costs);
    let claims = statements(&session.runs, product, costs);
    let [mean, deviation] = plan.holding;
    let head = format!(
        "{}. Calls last {mean} s, with a deviation of {deviation} s; {} s of each load count.\n\n\
         ![Time of an INVITE by load and way]({part}a.svg)\n\n![99th percentile]({part}c.svg)\n\n\
         ![Peak throughput by way]({part}e.svg)",
        carried.join(", "),
        plan.counted
    );
    PartReport {
        name: part,
        title: format!("Clusters of {}", name(product)),
        head,
        tables: vec![verdicts(&claims), loads(session, plan, product), peaks(session, product)],
        plots: plots(session, plan, product),
        csv: String::new(),
    }
}

fn verdicts(claims: &[Claim]) -> ReportTable {
    let mut table = ReportTable::new(["verdict", "statement", "measured", "source"]);
    for claim in claims {
        let verdict = match claim.verdict {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "fails",
            ClaimVerdict::Open | ClaimVerdict::OutOfReach(_) => "open",
        };
        table.rows.push(vec![
            verdict.to_owned(),
            claim.statement.clone(),
            claim.measured.clone(),
            claim.source.clone(),
        ]);
    }
    table
}

/// What people use today, beside TLWL.
const TODAY: [Way; 4] = [Way::Tlwl, Way::KamailioLoad, Way::KamailioRoundRobin, Way::KamailioHash];

/// Loads of the tables, the pictures have all.
const SHOWN: [f64; 5] = [0.5, 0.7, 0.9, 1.0, 1.1];

fn loads(session: &Session, plan: &SweepPlan, product: Product) -> ReportTable {
    let mut table = ReportTable::new([
        "way",
        "load, % of capacity",
        "INVITE mean ms",
        "INVITE p99 ms",
        "BYE mean ms",
        "BYE p99 ms",
        "done %",
        "servers busy, % of their quota",
        "balancer and callers, % of a processor",
        "servers stood still, %",
    ]);
    for way in Way::value_variants() {
        let run = equal(product, *way);
        let rounds = session.runs.like(&run).len();
        for load in plan.loads.iter().filter(|load| rounds > 0 && SHOWN.contains(load)) {
            let of = |value: fn(&LevelResult) -> f64| values(session.runs.values(&run, *load, value));
            table.rows.push(vec![
                way.to_string(),
                number(100.0 * load, 0),
                shown(of(|level| level.invite.mean), 1),
                shown(of(|level| level.invite.p99), 1),
                shown(of(|level| level.bye.mean), 1),
                shown(of(|level| level.bye.p99), 1),
                number(100.0 * of(|level| level.done).mean, 2),
                number(100.0 * of(|level| level.servers).mean, 0),
                number(100.0 * of(|level| level.balancer + level.callers).mean, 0),
                number(100.0 * of(|level| level.paused).mean, 2),
            ]);
        }
    }
    table
}

/// Each kind of run that there is, in its first round.
fn kinds(session: &Session, product: Product) -> Vec<Run> {
    let mut kinds: Vec<Run> = Vec::new();
    for (run, _) in &session.runs.0 {
        let kind = Run { round: 0, ..*run };
        if run.product == product && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort_by_key(|run| (run.shape.is_unequal, run.shape.nodes, run.are_told, run.way));
    kinds
}

fn peaks(session: &Session, product: Product) -> ReportTable {
    let mut table = ReportTable::new(["servers", "way", "peak, calls/s", "rounds"]);
    for run in kinds(session, product) {
        let Shape { nodes, is_unequal } = run.shape;
        let kind = match (is_unequal, run.are_told) {
            (false, _) => String::new(),
            (true, false) => ", unequal".to_owned(),
            (true, true) => ", unequal, capacities told".to_owned(),
        };
        let peaks = session.runs.peaks(&run);
        let rounds = peaks.len().to_string();
        let peak = if peaks.iter().all(|(_, peak)| peak.is_nan()) {
            "below the first load".to_owned()
        } else {
            shown(values(peaks), 0)
        };
        table.rows.push(vec![format!("{nodes}{kind}"), run.way.to_string(), peak, rounds]);
    }
    table
}

fn plots(session: &Session, plan: &SweepPlan, product: Product) -> Vec<Plot> {
    let ways =
        || Way::value_variants().iter().filter(|way| !session.runs.like(&equal(product, **way)).is_empty());
    let over_load = |title: &str, ways: &[Way], value: fn(&LevelResult) -> f64| {
        let line = |way: &Way| {
            let at =
                |load: &f64| (100.0 * load, values(session.runs.values(&equal(product, *way), *load, value)));
            curve(&way.to_string(), plan.loads.iter().map(at).collect())
        };
        Plot::of(
            title,
            Axis::linear("load (% of capacity)").from_to(40.0, 115.0),
            Axis::log("ms"),
            ways.iter().map(line),
        )
    };
    let all: Vec<Way> = ways().copied().collect();
    let today: Vec<Way> = TODAY.into_iter().filter(|way| all.contains(way)).collect();
    let peak = |run: Run| values(session.runs.peaks(&run));
    let names: Vec<String> = ways().map(Way::to_string).collect();
    let bars = ways().map(|way| peak(equal(product, *way)).mean);
    let shape = |nodes, is_unequal| Shape { nodes, is_unequal };
    let by_nodes = [Way::Tlwl, Way::RoundRobin].map(|way| {
        let at = |nodes: usize| {
            let peak = peak(Run { shape: shape(nodes, false), ..equal(product, way) });
            (nodes as f64, peak)
        };
        let points = [1, 2, 4, NODES, 10].map(at).into_iter().filter(|(_, peak)| !peak.mean.is_nan());
        curve(&way.to_string(), points.collect())
    });
    let unequal: Vec<Way> = kinds(session, product)
        .into_iter()
        .filter(|run| run.shape.is_unequal && !run.are_told)
        .map(|run| run.way)
        .collect();
    let heights = |are_told| {
        let of = move |way: &Way| Run { shape: shape(NODES, true), are_told, ..equal(product, *way) };
        let heights: Vec<f64> = unequal.iter().map(|way| peak(of(way)).mean).collect();
        PlotSeries::bars(if are_told { "capacities told" } else { "capacities not told" }, heights)
    };
    let rate = || Axis::linear("peak (calls/s)");
    let mut plots = vec![
        over_load("Time of an INVITE, mean", &all, |level| level.invite.mean),
        over_load("Time of a BYE, mean", &all, |level| level.bye.mean),
        over_load("Time of an INVITE, 99th percentile", &all, |level| level.invite.p99),
        over_load("99 of 100 INVITEs are answered within", &today, |level| level.invite.p99),
        Plot::of(
            "Peak throughput by way",
            Axis::names("way", names),
            rate(),
            [PlotSeries::bars("peak", bars)],
        ),
    ];
    if by_nodes.iter().all(|line| line.points.len() > 1) {
        plots.push(Plot::of(
            "Peak throughput by number of servers",
            Axis::linear("servers"),
            rate(),
            by_nodes,
        ));
    }
    if !unequal.is_empty() {
        let names: Vec<String> = unequal.iter().map(Way::to_string).collect();
        plots.push(Plot::of(
            "Peak throughput of unequal servers",
            Axis::names("way", names),
            rate(),
            [false, true].map(heights),
        ));
    }
    plots
}
