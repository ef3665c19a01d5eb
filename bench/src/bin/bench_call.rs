//! Processor time of a balanced call: relay, Sarabande and Kamailio in turn, at one offered rate, in one run.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use comfy_table::Table;
use sarabande_bench::caller::RunOutcome;
use sarabande_bench::driver::{Driver, RunPlan};
use sarabande_bench::process::{Others, Usage};
use sarabande_bench::report::{self, median};
use sarabande_bench::target::{BenchSetup, SERVERS, TargetKind};
use serde_json::{Value, json};

/// Measures the processor time (user + system, whole process) of a balanced call.
#[derive(Parser)]
struct Arguments {
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
    usage: Usage,
    outcome: RunOutcome,
    /// Processors busy with other work meanwhile.
    others: f64,
}

impl Sample {
    /// Microseconds of processor time a call that completed.
    fn call_us(&self) -> f64 {
        report::micros(self.usage.total_ns) / self.outcome.completed.max(1) as f64
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut driver = Driver::new(SERVERS)?;
    let mut samples = Vec::new();
    for round in 1..=arguments.rounds {
        for kind in &arguments.setup.kinds {
            let sample = measure(&arguments, *kind, round, &mut driver)?;
            let (us, failed) = (sample.call_us(), sample.outcome.failed());
            let (name, others) = (kind.name(), sample.others);
            eprintln!(
                "round {round}: {name:<11} {us:>7.2} us a call, {failed} failed; other work took {others:.2} processors"
            );
            samples.push(sample);
        }
    }
    println!("{}", table(&arguments, &samples));
    if let Some(file) = &arguments.json {
        report::write(file, &json(&arguments, &samples))?;
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
    let target = arguments.setup.start(kind, driver)?;
    driver.run(&target.addresses(), &RunPlan { duration: Duration::from_secs(1), ..plan })?;
    let (before, watch) = (target.usage()?, Others::watch()?);
    let outcome = driver.run(&target.addresses(), &plan)?;
    let usage = target.usage()?.since(before);
    Ok(Sample { kind, round, usage, outcome, others: watch.processors(usage)? })
}

/// Processor time of `kind` as a multiple of that of `base`: the median of the rounds' own ratios.
fn ratio(samples: &[Sample], kind: TargetKind, base: TargetKind) -> f64 {
    let of = |round, wanted| samples.iter().find(|s: &&Sample| s.round == round && s.kind == wanted);
    let pairs = samples.iter().filter(|sample| sample.kind == kind);
    let ratios: Vec<f64> =
        pairs.filter_map(|sample| Some(sample.call_us() / of(sample.round, base)?.call_us())).collect();
    median(&ratios)
}

/// A ratio as printed; a dash where its base was not measured.
fn multiple(ratio: f64) -> String {
    if ratio.is_nan() { "-".to_owned() } else { format!("{ratio:.2}") }
}

fn table(arguments: &Arguments, samples: &[Sample]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header([
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
        let (least, most) = times.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), t| (l.min(*t), m.max(*t)));
        let user: Vec<f64> = own.iter().map(|sample| sample.usage.user_share()).collect();
        let total =
            |count: fn(&RunOutcome) -> u64| own.iter().map(|s| count(&s.outcome)).sum::<u64>().to_string();
        table.add_row([
            kind.name().to_owned(),
            format!("{:.2}", median(&times)),
            format!("{least:.2} - {most:.2}"),
            format!("{:.0} %", 100.0 * median(&user)),
            multiple(ratio(samples, *kind, TargetKind::Relay)),
            multiple(ratio(samples, *kind, TargetKind::Sarabande)),
            multiple(ratio(samples, *kind, TargetKind::Proxy)),
            total(|outcome| outcome.started),
            total(RunOutcome::failed),
            total(|outcome| outcome.misrouted),
            own.last().map_or_else(String::new, |sample| format!("{:?}", sample.outcome.invites)),
        ]);
    }
    table
}

fn json(arguments: &Arguments, samples: &[Sample]) -> Value {
    let sample = |sample: &Sample| {
        json!({
            "target": sample.kind.name(),
            "round": sample.round,
            "cpu_ns": sample.usage.total_ns,
            "cpu_us_per_call": sample.call_us(),
            "user_share": sample.usage.user_share(),
            "other_work_processors": sample.others,
            "outcome": report::outcome(&sample.outcome),
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
