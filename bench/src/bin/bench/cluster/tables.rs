//! What was measured, as tables and pictures.

use clap::ValueEnum;
use papers::report::{Axis, Claim, ClaimVerdict, Plot, PlotSeries, ReportTable, Style};
use sarabande_bench::cluster::costs::{Costs, Pricing};
use sarabande_bench::cluster::runs::{Run, Shape};
use sarabande_bench::cluster::simulated::Simulated;
use sarabande_bench::cluster::sweep::{LevelResult, SweepPlan};
use sarabande_bench::cluster::verdict::{NODES, as_simulated, equal, statements};
use sarabande_bench::cluster::{Product, Way};
use sarabande_bench::report::{name, number};
use sim::stats::Interval;

use super::session::Session;
use crate::files::PartReport;

/// What is drawn or shown of a load.
type Value = fn(&LevelResult) -> f64;

/// With its interval, if there is one.
fn shown(value: Interval, digits: usize) -> String {
    if value.half_width.is_finite() { format!("{value:.digits$}") } else { number(value.mean, digits) }
}

fn values(of: Vec<(u32, f64)>) -> Interval {
    if of.is_empty() {
        return Interval { mean: f64::NAN, half_width: f64::NAN };
    }
    Interval::over(of.into_iter().map(|(_, value)| value))
}

/// A point of a picture: without a bar where one round says nothing of chance.
fn curve(name: &str, points: Vec<(f64, Interval)>) -> PlotSeries {
    if points.iter().all(|(_, it)| it.half_width.is_finite()) {
        PlotSeries::intervals(name, Style::Line, points)
    } else {
        PlotSeries::line(name, points.into_iter().map(|(x, it)| (x, it.mean)))
    }
}

/// With the simulator beside what was measured, which takes a while, if that is asked for.
pub(super) fn parts(session: &Session, plan: &SweepPlan, simulates: bool) -> Vec<PartReport> {
    let mut parts = Vec::new();
    parts.extend(costs(session));
    parts.extend(weights(session));
    let has = |product: &&Product| session.runs.0.iter().any(|(run, _)| run.product == **product);
    let clusters = Product::value_variants().iter().filter(has);
    parts.extend(clusters.map(|product| cluster(session, plan, *product, simulates)));
    parts
}

fn costs(session: &Session) -> Option<PartReport> {
    let mut table = ReportTable::new([
        "server",
        "its processor",
        "INVITE us",
        "BYE us",
        "INVITE by BYE",
        "REGISTER us",
        "kept BYE or REGISTER, us/s",
        "idle, % of a processor",
        "KiB a call",
    ]);
    for (product, pricing, costs) in &session.costs {
        table.rows.push(vec![
            name(product),
            match pricing {
                Pricing::Whole => "whole".to_owned(),
                Pricing::Idle => "whole, few calls".to_owned(),
                Pricing::Part => format!("{:.0} %", 100.0 * product.quota()),
            },
            shown(costs.invite_us, 0),
            shown(costs.bye_us, 0),
            shown(costs.ratio, 2),
            costs.register_us.map_or_else(|| "-".to_owned(), |it| shown(it, 0)),
            shown(costs.kept_us, 1),
            number(100.0 * costs.idle, 2),
            // Nothing was seen: other processes have it, or it was there before.
            if costs.call_kib > 0.0 { number(costs.call_kib, 1) } else { "-".to_owned() },
        ]);
    }
    let names = table.rows.iter().map(|row| format!("{}, {}", row[0], row[1]));
    let names: Vec<String> = names.collect();
    let bars = |label: &str, of: fn(&Costs) -> f64| {
        PlotSeries::bars(label, session.costs.iter().map(|(.., costs)| of(costs)))
    };
    let plot = Plot::of(
        "Processor time of a transaction",
        Axis::names("server", names),
        Axis::linear("us"),
        [bars("INVITE", |costs| costs.invite_us.mean), bars("BYE", |costs| costs.bye_us.mean)],
    );
    (!session.costs.is_empty()).then(|| PartReport {
        name: "costs".to_owned(),
        title: "What transactions cost".to_owned(),
        head: "Processor time, the kernel's included, with 95 % intervals over rounds.".to_owned(),
        tables: vec![table],
        plots: vec![plot],
        csv: String::new(),
    })
}

/// After how many seconds estimated weights are in the table.
const ESTIMATED_AT: [f64; 4] = [60.0, 120.0, 300.0, 600.0];

/// Estimated weights beside what INVITE and BYE cost.
fn weights(session: &Session) -> Option<PartReport> {
    let mut table = ReportTable::new([
        "server",
        "after 1 min",
        "after 2 min",
        "after 5 min",
        "after 10 min",
        "INVITE by BYE, measured",
    ]);
    let mut lines = Vec::new();
    for product in Product::value_variants() {
        let estimates: Vec<(f64, f64)> = session
            .estimates
            .iter()
            .filter(|(of, ..)| of == product)
            .map(|(_, at, weight)| (*at, *weight))
            .collect();
        if estimates.is_empty() {
            continue;
        }
        let at = |seconds: f64| {
            estimates.iter().find(|(at, _)| *at >= seconds).map(|(_, weight)| number(*weight, 2))
        };
        let measured = session.prices(*product, Pricing::Whole).map(|costs| shown(costs.ratio, 2));
        let cells = ESTIMATED_AT.map(at).into_iter().chain([measured]);
        table
            .rows
            .push([Some(name(product))].into_iter().chain(cells).map(Option::unwrap_or_default).collect());
        lines.push(PlotSeries::line(name(product), estimates));
    }
    let [x, y] = ["time (s)", "weight of an INVITE"].map(Axis::linear);
    (!lines.is_empty()).then(|| PartReport {
        name: "weights".to_owned(),
        title: "Estimated weights".to_owned(),
        head: "What an INVITE weighs with `weights = \"adaptive\"`, from 1.75 on: eight servers at half of what they carry, one run."
            .to_owned(),
        tables: vec![table],
        plots: vec![Plot::of("Estimated weight of an INVITE", x, y, lines)],
        csv: String::new(),
    })
}

fn cluster(session: &Session, plan: &SweepPlan, product: Product, simulates: bool) -> PartReport {
    let capacity = session.capacities.iter().filter(|(of, ..)| *of == product);
    let carried: Vec<String> = capacity
        .map(|(_, Shape { nodes, is_unequal }, capacity)| {
            format!("{nodes}{} carry {capacity:.0} calls/s", if *is_unequal { " unequal ones" } else { "" })
        })
        .collect();
    let costs = session.prices(product, Pricing::Whole);
    let mut claims = statements(&session.runs, product, costs);
    let mut tables = vec![loads(session, plan, product), peaks(session, product)];
    if let Some(costs) = session.prices(product, Pricing::Part).or(costs).filter(|_| simulates) {
        claims.extend(as_simulated(&session.runs, product, costs, plan));
        tables.push(beside_simulated(session, plan, product, costs));
    }
    tables.insert(0, verdicts(&claims));
    let [mean, deviation] = plan.holding;
    let (part, plots) = (name(&product), plots(session, plan, product));
    let picture = |(plot, letter): (&Plot, char)| format!("\n\n![{}]({part}{letter}.svg)", plot.title);
    let pictures: String = plots.iter().zip('a'..).map(picture).collect();
    let head = format!(
        "{}. Calls last {mean} s, with a deviation of {deviation} s; {} s of each load count.{pictures}",
        carried.join(", "),
        plan.counted
    );
    PartReport { title: format!("Clusters of {part}"), name: part, head, tables, plots, csv: String::new() }
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

/// What people use today, beside TLWL: calls in progress, in turn, and by a hash.
const TODAY: [Way; 4] = [Way::Tlwl, Way::KamailioLoad, Way::RoundRobin, Way::Hash];

/// Loads of the tables, the pictures have all.
const SHOWN: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 1.0];

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
            let of = |value: Value| values(session.runs.values(&run, *load, value));
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

/// Live beside simulated, of the ways that the simulator has.
fn beside_simulated(session: &Session, plan: &SweepPlan, product: Product, costs: &Costs) -> ReportTable {
    let mut table = ReportTable::new([
        "way",
        "load, % of capacity",
        "INVITE mean ms",
        "simulated",
        "INVITE p99 ms",
        "simulated",
        "BYE mean ms",
        "simulated",
        "servers busy, % of their quota",
        "simulated",
        "by the prices",
    ]);
    for way in Way::value_variants() {
        let run = equal(product, *way);
        for (at, load) in plan.loads.iter().enumerate() {
            let simulated = session.runs.simulated(costs, &run, plan, at);
            if simulated.is_empty() {
                continue;
            }
            let live = |value: Value| values(session.runs.values(&run, *load, value));
            let of = |value: fn(&Simulated) -> f64| {
                values(simulated.iter().map(|(at, it)| (*at, value(it))).collect())
            };
            table.rows.push(vec![
                way.to_string(),
                number(100.0 * load, 0),
                shown(live(|level| level.invite.mean), 1),
                shown(of(|it| it.invite), 1),
                shown(live(|level| level.invite.p99), 1),
                shown(of(|it| it.invite_p99), 1),
                shown(live(|level| level.bye.mean), 1),
                shown(of(|it| it.bye), 1),
                number(100.0 * live(|level| level.servers).mean, 0),
                number(100.0 * of(|it| it.busy).mean, 0),
                number(100.0 * of(|it| it.by_prices).mean, 0),
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

/// A value of each of these lines over the loads.
fn over_load(
    (session, plan): (&Session, &SweepPlan),
    title: &str,
    lines: impl IntoIterator<Item = (String, Run, Value)>,
) -> Plot {
    let line = |(name, run, value): (String, Run, Value)| {
        let at = |load: &f64| (100.0 * load, values(session.runs.values(&run, *load, value)));
        curve(&name, plan.loads.iter().map(at).collect())
    };
    let load = Axis::linear("load (% of capacity)").from_to(40.0, 115.0);
    Plot::of(title, load, Axis::log("ms"), lines.into_iter().map(line))
}

fn plots(session: &Session, plan: &SweepPlan, product: Product) -> Vec<Plot> {
    let has = |way: &Way| !session.runs.like(&equal(product, *way)).is_empty();
    let all: Vec<Way> = Way::value_variants().iter().copied().filter(has).collect();
    let today: Vec<Way> = TODAY.into_iter().filter(has).collect();
    let by_way = |title: &str, ways: &[Way], value: Value| {
        let lines = ways.iter().map(|way| (way.to_string(), equal(product, *way), value));
        over_load((session, plan), title, lines)
    };
    let mut plots = vec![
        by_way("Time of an INVITE, mean", &all, |level| level.invite.mean),
        by_way("Time of a BYE, mean", &all, |level| level.bye.mean),
        by_way("Time of an INVITE, 99th percentile", &all, |level| level.invite.p99),
        by_way("99 of 100 INVITEs are answered within", &today, |level| level.invite.p99),
    ];
    if product == Product::Java {
        let lines: [(_, Value); 2] = [
            ("in the mean", |level| 1e3 * level.paused / level.pauses),
            ("the longest", |level| level.pause_ms),
        ];
        let lines = lines.map(|(name, value)| (name.to_owned(), equal(product, Way::Tlwl), value));
        let title = "How long a server stands still to collect garbage, by tlwl";
        plots.push(over_load((session, plan), title, lines));
    }
    plots.extend(peak_plots(session, product, &all));
    plots
}

fn peak_plots(session: &Session, product: Product, ways: &[Way]) -> Vec<Plot> {
    let peak = |run: Run| values(session.runs.peaks(&run));
    let shape = |nodes, is_unequal| Shape { nodes, is_unequal };
    let rate = || Axis::linear("peak (calls/s)");
    let names = |ways: &[Way]| Axis::names("way", ways.iter().map(Way::to_string));
    let bars = ways.iter().map(|way| peak(equal(product, *way)).mean);
    let mut plots =
        vec![Plot::of("Peak throughput by way", names(ways), rate(), [PlotSeries::bars("peak", bars)])];
    let by_nodes = [Way::Tlwl, Way::RoundRobin].map(|way| {
        let at = |nodes: usize| {
            let peak = peak(Run { shape: shape(nodes, false), ..equal(product, way) });
            (nodes as f64, peak)
        };
        let points = [1, 2, 4, NODES, 10].map(at).into_iter().filter(|(_, peak)| !peak.mean.is_nan());
        curve(&way.to_string(), points.collect())
    });
    if by_nodes.iter().all(|line| line.points.len() > 1) {
        let servers = Axis::linear("servers");
        plots.push(Plot::of("Peak throughput by number of servers", servers, rate(), by_nodes));
    }
    let is_unequal = |run: &Run| run.shape.is_unequal && !run.are_told;
    let unequal: Vec<Way> =
        kinds(session, product).into_iter().filter(is_unequal).map(|run| run.way).collect();
    let heights = |are_told| {
        let of = move |way: &Way| Run { shape: shape(NODES, true), are_told, ..equal(product, *way) };
        let heights: Vec<f64> = unequal.iter().map(|way| peak(of(way)).mean).collect();
        PlotSeries::bars(if are_told { "capacities told" } else { "capacities not told" }, heights)
    };
    if !unequal.is_empty() {
        let title = "Peak throughput of unequal servers";
        plots.push(Plot::of(title, names(&unequal), rate(), [false, true].map(heights)));
    }
    plots
}
