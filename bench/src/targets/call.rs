//! Processor time of a balanced call: relay, Sarabande and Kamailio at one offered rate.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use papers::report::Axis;

use super::{MeasuredRun, SERVERS, TargetArguments, TargetKind};
use crate::generator::{LoadGenerator, RunPlan};
use crate::report::name;
use crate::study::{Alternative, Bound, Cell, Measure, Over, Picture, Question, Session, Study, Values};

/// Measures the processor time (user + system, whole process) of a balanced call.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    targets: TargetArguments,
    /// Calls a second offered to each target.
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    /// Seconds of measurement of each target in a round.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Milliseconds from the answer of a call to its BYE.
    #[arg(long, default_value_t = 1_000)]
    hold_ms: u64,
    /// Microseconds from one burst of calls to the next; 0 spaces the calls evenly.
    #[arg(long, default_value_t = 1_000)]
    burst_us: u64,
}

/// Processor time of a completed call in microseconds.
fn call_us(run: &MeasuredRun) -> f64 {
    run.usage.total_ns as f64 / 1e3 / run.outcome.completed().max(1) as f64
}

/// Calls of the server with the most calls, divided by the calls of the server with the fewest calls.
fn evenness(run: &MeasuredRun) -> f64 {
    let ends = |all: &[u64]| Some((*all.iter().max()? as f64, *all.iter().min()? as f64));
    ends(&run.outcome.invites).map_or(f64::NAN, |(most, least)| most / least)
}

/// Measures the requested targets.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (setup, plan) = (arguments.targets.setup(), plan(arguments));
    let alternative = |kind: &TargetKind| {
        let (kind, setup) = (*kind, &setup);
        Alternative::new(name(&kind), move |_| {
            let mut generator = LoadGenerator::new(SERVERS, SERVERS)?;
            Ok(vec![(0.0, setup.start(kind, &mut generator)?.measure(&mut generator, &plan)?)])
        })
    };
    let cell = format!("{} calls/s, {} thread(s)", arguments.rate, arguments.targets.tied.threads);
    let values = |kind: TargetKind| Values::new(cell.clone(), name(&kind), None, "us_a_call");
    let question = |(kind, base, most): (TargetKind, TargetKind, f64)| Question {
        statement: format!(
            "A call costs {} at most {most} times what it costs {}.",
            name(&kind),
            name(&base)
        ),
        source: "the aim",
        left: values(kind),
        right: Some(values(base)),
        bound: Bound::Below(most),
    };
    let measure = |column, digits, of| Measure { column, digits: Some(digits), of };
    let study = Study {
        cells: vec![Cell::new(cell.clone(), setup.targets.kinds.iter().map(alternative).collect())],
        measures: vec![
            measure("us_a_call", 2, call_us),
            measure("user_share", 2, |run: &MeasuredRun| run.usage.user_share()),
            measure("calls", 0, |run| run.outcome.calls.len() as f64),
            measure("failed", 0, |run| run.outcome.failed() as f64),
            measure("misrouted", 0, |run| run.outcome.misrouted as f64),
            measure("most_by_least_calls_of_a_server", 3, evenness),
        ],
        questions: [
            (TargetKind::Sarabande, TargetKind::Relay, 1.5),
            (TargetKind::Sarabande, TargetKind::Kamailio, 1.0),
            (TargetKind::Proxy, TargetKind::Relay, 2.0),
            (TargetKind::Proxy, TargetKind::KamailioTm, 1.0),
        ]
        .map(question)
        .into(),
        pictures: vec![Picture {
            title: "Processor time of a call",
            column: "us_a_call",
            over: Over::Alternatives,
            y: Axis::linear("us"),
        }],
        ..Study::new(
            "call",
            "Processor time of a call",
            format!("User and system, of the whole process: {cell}."),
        )
    };
    Session::open("call", &arguments.targets.study)?.measure(&study).map(drop)
}

fn plan(arguments: &Arguments) -> RunPlan {
    let seconds = if arguments.targets.study.quick { 1 } else { arguments.seconds };
    RunPlan {
        rate: arguments.rate,
        duration: Duration::from_secs(seconds),
        hold: Duration::from_millis(arguments.hold_ms),
        burst: Duration::from_micros(arguments.burst_us),
        spin: false,
    }
}
