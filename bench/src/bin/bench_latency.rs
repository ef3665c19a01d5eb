//! Latency that a balancer adds at half its saturation rate, with its histogram.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use comfy_table::Table;
use sarabande_bench::caller::Outcome;
use sarabande_bench::driver::{Driver, Plan};
use sarabande_bench::process::Others;
use sarabande_bench::report::{self, QUANTILES, micros};
use sarabande_bench::target::{Kind, SERVERS, Setup};
use serde_json::{Value, json};

/// Finds the saturation rate of each target, then measures round trips at half of it, through the target and without.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    setup: Setup,
    /// Calls a second to measure at, in place of half the saturation rate.
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
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

/// The highest rate that a target carried, and what ended the search.
struct Saturation {
    rate: f64,
    limit: &'static str,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut driver = Driver::new(SERVERS)?;
    let mut results = Vec::new();
    for kind in &arguments.setup.kinds {
        results.push(measure(&arguments, *kind, &mut driver)?);
    }
    if let Some(file) = &arguments.json {
        report::write(file, &json!({"machine": report::machine(), "targets": results}))?;
    }
    Ok(())
}

fn measure(arguments: &Arguments, kind: Kind, driver: &mut Driver) -> Result<Value> {
    let target = arguments.setup.start(kind, driver)?;
    let saturation = match arguments.rate {
        None => Some(saturate(&target.addresses(), driver)?),
        Some(_) => None,
    };
    drop(target);
    let rate = arguments.rate.or(saturation.as_ref().map(|found| found.rate / 2.0)).unwrap_or(SEARCH.0);
    // A fresh process: none of the debris of the search is in its tables or queues.
    let target = arguments.setup.start(kind, driver)?;
    let plan = spinning(rate, Duration::from_secs(arguments.seconds));
    let second = Plan { duration: Duration::from_secs(1), ..plan };
    driver.run(&target.addresses(), &second)?;
    let (before, watch) = (target.usage()?, Others::watch()?);
    let through = driver.run(&target.addresses(), &plan)?;
    let others = watch.processors(target.usage()?.since(before))?;
    let servers = driver.servers();
    driver.run(&servers, &second)?;
    let direct = driver.run(&servers, &plan)?;

    let (name, failed) = (kind.name(), through.failed());
    println!("{name} at {rate:.0} calls/s, {failed} failed; other work took {others:.2} processors");
    if let Some(found) = &saturation {
        println!("saturation: {:.0} calls/s, where {}", found.rate, found.limit);
    }
    println!("{}", table(&through, &direct));
    println!("round trips through {}:\n{}", kind.name(), report::bars(&through.round_trips));
    println!("round trips without:\n{}", report::bars(&direct.round_trips));
    Ok(json!({
        "target": kind.name(),
        "rate_per_s": rate,
        "saturation_per_s": saturation.as_ref().map(|found| found.rate),
        "saturation_limit": saturation.as_ref().map(|found| found.limit),
        "other_work_processors": others,
        "through": report::outcome(&through),
        "direct": report::outcome(&direct),
    }))
}

/// Raises the rate until calls fail or the driver is late.
fn saturate(targets: &[std::net::SocketAddr], driver: &mut Driver) -> Result<Saturation> {
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
fn spinning(rate: f64, duration: Duration) -> Plan {
    Plan { rate, duration, hold: Duration::from_millis(200), burst: Duration::ZERO, spin: true }
}

fn table(through: &Outcome, direct: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header(["us", "through", "direct", "added"]);
    for (name, q) in QUANTILES {
        let [through, direct] = [through, direct].map(|o| micros(o.round_trips.value_at_quantile(q)));
        let figures = [through, direct, through - direct].map(|figure| format!("{figure:.1}"));
        table.add_row([name.to_owned()].into_iter().chain(figures));
    }
    table
}
