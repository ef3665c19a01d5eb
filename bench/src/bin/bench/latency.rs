//! Latency that a balancer adds at half its saturation rate, or at a given one, with its histogram, and how much of
//! it the machine's own pauses may account for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use hdrhistogram::Histogram;
use sarabande_bench::caller::RunOutcome;
use sarabande_bench::driver::{Driver, RunPlan};
use sarabande_bench::pauses::Pauses;
use sarabande_bench::process::{Others, Stolen};
use sarabande_bench::report::{self, QUANTILES, micros, spread};
use sarabande_bench::target::{BenchSetup, SERVERS, TargetKind};
use serde_json::{Value, json};

/// Finds the saturation rate of each target, then measures round trips at half of it, through the target and without.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: BenchSetup,
    /// Calls a second to measure at, the same for all targets, in place of half of each one's saturation rate.
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds measured of each target, a round.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rounds; the targets take turns within each.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Seconds before each measurement in which the pauses of the two processors are watched.
    #[arg(long, default_value_t = 3)]
    watch_seconds: u64,
    /// Also write everything measured to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Calls a second that the search for saturation starts at, and the factor from each step to the next.
const SEARCH: (f64, f64) = (4_000.0, 1.15);

/// A step of the search: long enough for a queue that grows by 0.1 % to be noticed.
const STEP: Duration = Duration::from_secs(3);

/// The driver is taken to be at its own limit when a burst leaves this late.
const LATE_NS: u64 = 50_000_000;

/// Pauses longer than this are told of: the p99 that is aimed at.
const LONG_NS: u64 = 200_000;

/// The highest rate that a target carried, and what ended the search.
struct Saturation {
    rate: f64,
    limit: &'static str,
}

/// A target and all its rounds.
struct Measured {
    kind: TargetKind,
    rate: f64,
    saturation: Option<Saturation>,
    rounds: Vec<Round>,
}

/// One run through the target, and the same calls without it.
struct Round {
    through: RunOutcome,
    direct: RunOutcome,
    /// Processors busy with other work meanwhile.
    others: f64,
    /// Of the target's and the driver's processor, where they have one each.
    weather: Option<Weather>,
}

/// What the machine did to the target's and to the driver's processor.
struct Weather {
    /// Just before the calls.
    pauses: [Pauses; 2],
    /// Shares of the time, during the calls.
    stolen: [f64; 2],
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut driver = Driver::new(SERVERS)?;
    let mut targets = Vec::new();
    for kind in &arguments.setup.kinds {
        targets.push(prepare(arguments, *kind, &mut driver)?);
    }
    for number in 1..=arguments.rounds {
        for target in &mut targets {
            let round = measure(arguments, target, &mut driver)?;
            eprintln!("round {number}: {}", line(target.kind, &round));
            target.rounds.push(round);
        }
    }
    targets.iter().for_each(print);
    if let Some(file) = &arguments.json {
        let targets: Vec<Value> = targets.iter().map(json).collect();
        report::write(file, &json!({"machine": report::machine(), "targets": targets}))?;
    }
    Ok(())
}

/// Finds the rate for `kind` where none is given.
fn prepare(arguments: &Arguments, kind: TargetKind, driver: &mut Driver) -> Result<Measured> {
    let (rate, saturation) = if let Some(rate) = arguments.rate {
        (rate, None)
    } else {
        let target = arguments.setup.start(kind, driver)?;
        let found = saturate(&target.addresses(), driver)?;
        (found.rate / 2.0, Some(found))
    };
    Ok(Measured { kind, rate, saturation, rounds: Vec::new() })
}

/// One round through a fresh process: none of the debris of the search is in its tables or queues.
fn measure(arguments: &Arguments, measured: &Measured, driver: &mut Driver) -> Result<Round> {
    let processors = arguments.setup.programs.processors();
    let watch = Duration::from_secs(arguments.watch_seconds);
    let pauses = processors.map(|processors| Pauses::watch(processors, watch)).transpose()?;
    let target = arguments.setup.start(measured.kind, driver)?;
    let second = spinning(measured.rate, Duration::from_secs(1));
    let plan = spinning(measured.rate, Duration::from_secs(arguments.seconds));
    driver.run(&target.addresses(), &second)?;
    let (before, others) = (target.usage()?, Others::watch()?);
    let stolen = processors.map(Stolen::watch).transpose()?;
    let through = driver.run(&target.addresses(), &plan)?;
    let stolen = stolen.map(|watch| watch.shares()).transpose()?;
    let others = others.processors(target.usage()?.since(before))?;
    drop(target);
    let servers = driver.servers();
    driver.run(&servers, &second)?;
    let direct = driver.run(&servers, &plan)?;
    let weather = pauses.zip(stolen).map(|(pauses, stolen)| Weather { pauses, stolen });
    Ok(Round { through, direct, others, weather })
}

/// Raises the rate until calls fail or the driver is late.
fn saturate(targets: &[SocketAddr], driver: &mut Driver) -> Result<Saturation> {
    let (mut rate, factor) = SEARCH;
    loop {
        let outcome = driver.run(targets, &spinning(rate, STEP))?;
        let limit = if outcome.late_ns_max > LATE_NS {
            "the driver could offer no more"
        } else if outcome.failed() * 1_000 > outcome.started {
            "more than 1 in 1000 calls failed"
        } else {
            eprintln!("{rate:.0} calls/s carried");
            rate *= factor;
            continue;
        };
        return Ok(Saturation { rate: rate / factor, limit });
    }
}

/// Evenly spaced calls from a driver that never sleeps: what it measures is not its own waking up.
fn spinning(rate: f64, duration: Duration) -> RunPlan {
    let (hold, burst) = (Duration::from_millis(200), Duration::ZERO);
    RunPlan { hold, burst, spin: true, ..RunPlan::at(rate, duration) }
}

/// A round in a line.
fn line(kind: TargetKind, round: &Round) -> String {
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|q| micros(round.through.round_trips.value_at_quantile(q)));
    let (name, failed, others) = (kind.name(), round.through.failed(), round.others);
    let weather = round.weather.as_ref().map(|Weather { pauses: [pauses, _], stolen: [stolen, _] }| {
        let (share, wait) = (100.0 * pauses.share_above(LONG_NS), micros(pauses.wait_ns(0.99)));
        let stolen = 100.0 * stolen;
        format!("; the target's processor: {share:.1} % paused before, p99 of the wait {wait:.0} us, {stolen:.1} % stolen")
    });
    format!(
        "{name:<11} p50 {p50:>6.1} us, p90 {p90:>7.1}, p99 {p99:>8.1}, {failed} failed; other work took {others:.2} \
         processors{}",
        weather.unwrap_or_default()
    )
}

fn print(measured: &Measured) {
    let (name, rate, rounds) = (measured.kind.name(), measured.rate, measured.rounds.len());
    let failed: u64 = measured.rounds.iter().map(|round| round.through.failed()).sum();
    let (through, direct) = (all(measured, |round| &round.through), all(measured, |round| &round.direct));
    println!("{name} at {rate:.0} calls/s, {rounds} rounds, {failed} calls failed");
    if let Some(found) = &measured.saturation {
        println!("saturation: {:.0} calls/s, where {}", found.rate, found.limit);
    }
    println!("{}", table(measured, &through, &direct));
    for (index, whose) in ["target", "driver"].into_iter().enumerate() {
        if let Some((pauses, stolen)) = weather(measured, index) {
            let (share, longest) = (100.0 * pauses.share_above(LONG_NS), micros(pauses.longest_ns()));
            let wait = micros(pauses.wait_ns(0.99));
            println!(
                "the {whose}'s processor, only reading the clock: {share:.2} % of the time in pauses above {} us, the \
                 longest {longest:.0} us; what comes at any moment waits {wait:.0} us at p99; stolen during the calls: \
                 {:.2} %",
                LONG_NS / 1_000,
                100.0 * stolen,
            );
        }
    }
    println!("round trips through {name}:\n{}", report::bars(&through));
    println!("round trips without:\n{}", report::bars(&direct));
}

/// The round trips of all rounds, through the target or without it.
fn all(measured: &Measured, way: fn(&Round) -> &RunOutcome) -> Histogram<u64> {
    let mut all = RunOutcome::default().round_trips;
    for round in &measured.rounds {
        all.add(&way(round).round_trips).expect("histograms of the same bounds");
    }
    all
}

/// Of the target's processor (0) or the driver's (1): the pauses of all rounds, and the mean share that was stolen.
fn weather(measured: &Measured, index: usize) -> Option<(Pauses, f64)> {
    let (mut all, mut stolen) = (Pauses::default(), 0.0);
    for round in &measured.rounds {
        let weather = round.weather.as_ref()?;
        all.add(&weather.pauses[index]);
        stolen += weather.stolen[index] / measured.rounds.len() as f64;
    }
    Some((all, stolen))
}

fn table(measured: &Measured, through: &Histogram<u64>, direct: &Histogram<u64>) -> Table {
    let mut table = report::table(["us", "through", "direct", "added", "added, by the rounds"]);
    for (name, q) in QUANTILES {
        let at = |histogram: &Histogram<u64>| micros(histogram.value_at_quantile(q));
        let (through, direct) = (at(through), at(direct));
        let added = measured
            .rounds
            .iter()
            .map(|round| at(&round.through.round_trips) - at(&round.direct.round_trips));
        let (least, most) = spread(added);
        let figures = [through, direct, through - direct].map(|figure| format!("{figure:.1}"));
        let row = [name.to_owned()].into_iter().chain(figures).chain([format!("{least:.1} - {most:.1}")]);
        table.add_row(row);
    }
    table
}

fn json(measured: &Measured) -> Value {
    let rounds: Vec<Value> = measured.rounds.iter().map(round_json).collect();
    json!({
        "target": measured.kind.name(),
        "rate_per_s": measured.rate,
        "saturation_per_s": measured.saturation.as_ref().map(|found| found.rate),
        "saturation_limit": measured.saturation.as_ref().map(|found| found.limit),
        "rounds": rounds,
    })
}

fn round_json(round: &Round) -> Value {
    let processor = |index: usize| {
        let Weather { pauses, stolen } = round.weather.as_ref()?;
        Some(json!({
            "pauses_above_200_us_share": pauses[index].share_above(LONG_NS),
            "pause_us_max": micros(pauses[index].longest_ns()),
            "wait_us_p99": micros(pauses[index].wait_ns(0.99)),
            "stolen_share": stolen[index],
        }))
    };
    json!({
        "through": report::outcome(&round.through),
        "direct": report::outcome(&round.direct),
        "other_work_processors": round.others,
        "processor_of_target": processor(0),
        "processor_of_driver": processor(1),
    })
}
