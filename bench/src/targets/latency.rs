//! Latency that a balancer adds at half its saturation rate, or at a given one.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hdrhistogram::Histogram;
use papers::report::Axis;

use super::{BenchSetup, SERVERS, TargetArguments, TargetKind};
use crate::generator::{LoadGenerator, RunPlan};
use crate::report::name;
use crate::study::{Alternative, Cell, Measure, Over, Picture, Round, Samples, Session, Study};

/// Finds the saturation rate of each target, then measures round trips at half of it, through the target and without.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    targets: TargetArguments,
    /// Calls a second for all targets, instead of half of the saturation rate of each target.
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds of measurement of each target in a round.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// First rate of the search for saturation in calls a second, and the factor between steps.
const SEARCH: (f64, f64) = (4_000.0, 1.15);
/// Length of a step of the search: enough to notice a queue that grows by 0.1 %.
const STEP: Duration = Duration::from_secs(3);
/// A burst this late means that the driver is at its own limit.
const LATE_NS: u64 = 50_000_000;

/// Round trips at a percentile, in microseconds.
struct RoundTrips {
    through: f64,
    direct: f64,
    /// Failed calls of the whole run.
    failed: f64,
    rate: f64,
}

/// Reported percentiles, in percent.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

/// Evenly spaced calls from a driver that never sleeps, so that its own wake-ups are not measured.
fn spinning(rate: f64, duration: Duration) -> RunPlan {
    let (hold, burst) = (Duration::from_millis(200), Duration::ZERO);
    RunPlan { hold, burst, spin: true, ..RunPlan::at(rate, duration) }
}

/// Returns the highest rate that a target carries: until calls fail or the driver is late.
fn saturation(setup: &BenchSetup, kind: TargetKind) -> Result<f64> {
    let mut generator = LoadGenerator::new(SERVERS, SERVERS)?;
    let target = setup.start(kind, &mut generator)?;
    let (mut rate, factor) = SEARCH;
    loop {
        let log = generator.run(&target.addresses(), &spinning(rate, STEP))?;
        let limit = if log.late_ns_max > LATE_NS {
            "the driver is at its limit"
        } else if log.failed() * 1_000 > log.calls.len() as u64 {
            "more than 1 in 1000 calls failed"
        } else {
            rate *= factor;
            continue;
        };
        eprintln!("{}: {:.0} calls/s, where {limit}", name(&kind), rate / factor);
        return Ok(rate / factor);
    }
}

/// Measures calls through a new process, whose tables and queues are not affected by the search, and without a target.
fn measure(
    (setup, kind): (&BenchSetup, TargetKind),
    (rate, seconds): (Option<f64>, u64),
    round: &mut Round<'_>,
) -> Result<Samples<RoundTrips>> {
    let rate = match rate {
        Some(rate) => rate,
        None => {
            round.figures.once(&format!("saturation of {}", name(&kind)), || saturation(setup, kind))? / 2.0
        }
    };
    let mut generator = LoadGenerator::new(SERVERS, SERVERS)?;
    let plan = spinning(rate, Duration::from_secs(seconds));
    let target = setup.start(kind, &mut generator)?;
    let through = target.measure(&mut generator, &plan)?.outcome;
    drop(target);
    let direct = generator.run(&generator.answerers(), &plan)?;
    let failed = through.failed() as f64;
    let [through, direct] = [through, direct].map(|log| log.round_trips());
    let at = |percentile: f64| {
        let of = |all: &Histogram<u64>| all.value_at_percentile(percentile) as f64 / 1e3;
        (percentile, RoundTrips { through: of(&through), direct: of(&direct), failed, rate })
    };
    Ok(PERCENTILES.map(at).into())
}

/// Measures the requested targets.
pub fn run(arguments: &Arguments) -> Result<()> {
    let setup = arguments.targets.setup();
    let seconds = if arguments.targets.study.quick { 1 } else { arguments.seconds };
    let alternative = |kind: &TargetKind| {
        let (kind, setup) = (*kind, &setup);
        Alternative::new(name(&kind), move |round| measure((setup, kind), (arguments.rate, seconds), round))
    };
    let column = |column, digits, of| Measure { column, digits: Some(digits), of };
    let cell = arguments.rate.map_or("half of saturation".to_owned(), |rate| format!("{rate} calls/s"));
    let study = Study {
        at: "percentile",
        cells: vec![Cell::new(cell, setup.targets.kinds.iter().map(alternative).collect())],
        measures: vec![
            column("through_us", 1, |it: &RoundTrips| it.through),
            column("direct_us", 1, |it| it.direct),
            column("added_us", 1, |it| it.through - it.direct),
            column("failed", 0, |it| it.failed),
            column("rate", 0, |it| it.rate),
        ],
        pictures: vec![Picture {
            title: "Added latency by percentile",
            column: "added_us",
            over: Over::Places(Axis::linear("percentile")),
            y: Axis::log("us"),
        }],
        ..Study::new(
            "latency",
            "Latency that a balancer adds",
            "Round trips of INVITE to 180 and of BYE to 200 from when the request was due, in microseconds.",
        )
    };
    Session::open("latency", &arguments.targets.study)?.measure(&study).map(drop)
}
