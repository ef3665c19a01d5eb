//! Processor time of a balanced call: relay, Sarabande and Kamailio in turn, at one offered rate, in one run.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use sarabande_bench::caller::RunOutcome;
use sarabande_bench::driver::{Driver, RunPlan};
use sarabande_bench::report::{self, median, number, spread};
use sarabande_bench::target::{BenchSetup, MeasuredRun, SERVERS, TargetKind};
use serde_json::{Value, json};

/// Measures the processor time (user + system, whole process) of a balanced call.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: BenchSetup,
    /// Calls a second offered to each target.
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    /// Seconds measured of each target, a round.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rounds; the targets take turns within each.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds from the answer of a call to its BYE.
    #[arg(long, default_value_t = 1_000)]
    hold_ms: u64,
    /// Microseconds from one burst of calls to the next; 0: calls evenly spaced.
    #[arg(long, default_value_t = 1_000)]
    burst_us: u64,
    /// Also write everything measured to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

struct Sample {
    kind: TargetKind,
    round: usize,
    run: MeasuredRun,
}

impl Sample {
    /// Microseconds of processor time a call that completed.
    fn call_us(&self) -> f64 {
        report::micros(self.run.usage.total_ns) / self.run.outcome.completed.max(1) as f64
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut driver = Driver::new(SERVERS)?;
    let mut samples = Vec::new();
    for round in 1..=arguments.rounds {
        for kind in &arguments.setup.kinds {
            let sample = measure(arguments, *kind, round, &mut driver)?;
            let (us, failed) = (sample.call_us(), sample.run.outcome.failed());
            let (name, others) = (kind.name(), sample.run.others);
            eprintln!(
                "round {round}: {name:<11} {us:>7.2} us a call, {failed} failed; other work took {others:.2} processors"
            );
            samples.push(sample);
        }
    }
    println!("{}", table(arguments, &samples));
    if let Some(file) = &arguments.json {
        report::write(file, &json(arguments, &samples))?;
    }
    Ok(())
}

fn measure(arguments: &Arguments, kind: TargetKind, round: usize, driver: &mut Driver) -> Result<Sample> {
    let plan = RunPlan {
        rate: arguments.rate,
        duration: Duration::from_secs(arguments.seconds),
        hold: Duration::from_millis(arguments.hold_ms),
        burst: Duration::from_micros(arguments.burst_us),
        spin: false,
    };
    let run = arguments.setup.start(kind, driver)?.measure(driver, &plan)?;
    Ok(Sample { kind, round, run })
}

/// Processor time of `kind` as a multiple of that of `base`: the median of the rounds' own ratios.
fn ratio(samples: &[Sample], kind: TargetKind, base: TargetKind) -> f64 {
    let of = |round, wanted| samples.iter().find(|s: &&Sample| s.round == round && s.kind == wanted);
    let pairs = samples.iter().filter(|sample| sample.kind == kind);
    let ratios: Vec<f64> =
        pairs.filter_map(|sample| Some(sample.call_us() / of(sample.round, base)?.call_us())).collect();
    median(&ratios)
}

fn table(arguments: &Arguments, samples: &[Sample]) -> Table {
    let mut table = report::table([
        "target",
        "us CPU a call",
        "least - most",
        "user share",
        "x relay",
        "x sarabande",
        "x proxy",
        "calls",
        "failed",
        "misrouted",
        "INVITEs a server",
    ]);
    for kind in &arguments.setup.kinds {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.kind == *kind).collect();
        let times: Vec<f64> = own.iter().map(|sample| sample.call_us()).collect();
        let (least, most) = spread(times.iter().copied());
        let user: Vec<f64> = own.iter().map(|sample| sample.run.usage.user_share()).collect();
        let multiple = |base| number(ratio(samples, *kind, base), 2);
        let total = |count: fn(&RunOutcome) -> u64| {
            own.iter().map(|s| count(&s.run.outcome)).sum::<u64>().to_string()
        };
        table.add_row([
            kind.name().to_owned(),
            format!("{:.2}", median(&times)),
            format!("{least:.2} - {most:.2}"),
            format!("{:.0} %", 100.0 * median(&user)),
            multiple(TargetKind::Relay),
            multiple(TargetKind::Sarabande),
            multiple(TargetKind::Proxy),
            total(|outcome| outcome.started),
            total(RunOutcome::failed),
            total(|outcome| outcome.misrouted),
            own.last().map_or_else(String::new, |sample| format!("{:?}", sample.run.outcome.invites)),
        ]);
    }
    table
}

fn json(arguments: &Arguments, samples: &[Sample]) -> Value {
    let sample = |sample: &Sample| {
        json!({
            "target": sample.kind.name(),
            "round": sample.round,
            "cpu_ns": sample.run.usage.total_ns,
            "cpu_us_per_call": sample.call_us(),
            "user_share": sample.run.usage.user_share(),
            "other_work_processors": sample.run.others,
            "outcome": report::outcome(&sample.run.outcome),
        })
    };
    let ratios: Vec<Value> = [
        (TargetKind::Sarabande, TargetKind::Relay),
        (TargetKind::Kamailio, TargetKind::Relay),
        (TargetKind::Kamailio, TargetKind::Sarabande),
        (TargetKind::Proxy, TargetKind::Relay),
        (TargetKind::KamailioTm, TargetKind::Proxy),
    ]
    .into_iter()
    .filter(|(kind, base)| arguments.setup.kinds.contains(kind) && arguments.setup.kinds.contains(base))
    .map(|(kind, base)| json!({"of": kind.name(), "to": base.name(), "ratio": ratio(samples, kind, base)}))
    .collect();
    json!({
        "machine": report::machine(),
        "threads": arguments.setup.programs.threads,
        "rate_per_s": arguments.rate,
        "seconds": arguments.seconds,
        "hold_ms": arguments.hold_ms,
        "burst_us": arguments.burst_us,
        "samples": samples.iter().map(sample).collect::<Vec<_>>(),
        "ratios": ratios,
    })
}
