//! Costs of a flood of unanswered INVITEs for the running program, and the results of other calls.
//!
//! The program is a separate process, whose memory is read from the kernel. One thread sends INVITEs that no server
//! answers; normal calls go on all the while. After the flood, the unanswered INVITEs time out.

use std::io::Write;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::Table;
use sarabande_bench::answerer::SILENT;
use sarabande_bench::endpoint::Endpoint;
use sarabande_bench::generator::{LoadGenerator, RunPlan};
use sarabande_bench::report::{name, table};
use sarabande_bench::targets::{BenchSetup, BenchTarget, SERVERS, TargetKind};
use sockets::SendBatch;

/// Measures memory before, during and after a flood of unanswered INVITEs, with normal calls beside it.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: BenchSetup,
    /// INVITEs of the flood.
    #[arg(long, default_value_t = 4_000)]
    invites: u32,
    /// Size of an INVITE in bytes.
    #[arg(long, default_value_t = 60_000)]
    bytes: usize,
    /// INVITEs a second.
    #[arg(long, default_value_t = 1_000)]
    flood: u32,
    /// Normal calls a second.
    #[arg(long, default_value_t = 50.0)]
    calls: f64,
    /// Seconds of measurement after the flood.
    #[arg(long, default_value_t = 100)]
    settle: u64,
}

/// Interval between memory readings.
const STEP: Duration = Duration::from_secs(5);

struct Run {
    driver: LoadGenerator,
    target: BenchTarget,
    plan: RunPlan,
    table: Table,
    peak: u64,
}

impl Run {
    /// Plays normal calls for a while, and prints a line.
    fn step(&mut self, name: &str) -> Result<()> {
        let outcome = self.driver.run(&self.target.addresses(), &self.plan)?;
        let resident = self.target.resident().context("the program has ended")?;
        self.peak = self.peak.max(resident);
        let round_trips = outcome.round_trips();
        let quantile = |share| format!("{:.2}", round_trips.value_at_quantile(share) as f64 / 1e6);
        self.table.add_row([
            name.to_owned(),
            format!("{:.1}", resident as f64 / 1e6),
            outcome.calls.len().to_string(),
            outcome.completed().to_string(),
            outcome.refused().to_string(),
            quantile(0.5),
            quantile(0.95),
        ]);
        Ok(())
    }
}

/// Sends the flood at its rate. Responses are not read: the kernel drops those that exceed the buffer.
fn flood(to: SocketAddr, arguments: &Arguments) -> Result<JoinHandle<()>> {
    let mut endpoint = Endpoint::bind()?;
    let (count, rate, length) = (arguments.invites, f64::from(arguments.flood), arguments.bytes);
    Ok(thread::spawn(move || {
        let (from, mut batch, start) = (endpoint.address, SendBatch::new(), Instant::now());
        for n in 0..count {
            endpoint.send(to, |out| invite(n, from, length, out));
            if n % 8 == 7 || n + 1 == count {
                endpoint.flush(&mut batch);
                let due = Duration::from_secs_f64(f64::from(n) / rate);
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
        }
    }))
}

fn invite(n: u32, from: SocketAddr, length: usize, out: &mut Vec<u8>) {
    let start = out.len();
    write!(
        out,
        "INVITE sip:{SILENT}@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKflood{n};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:flood@example.com>;tag=f{n}\r\nTo: <sip:{SILENT}@example.com>\r\n\
         Call-ID: flood-{n}-{from}\r\nCSeq: 1 INVITE\r\nContact: <sip:{from}>\r\n\r\n"
    )
    .expect("writing to memory cannot fail");
    let header = out.len() - start;
    out.resize(start + length.max(header), b'x');
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for &kind in &arguments.setup.targets.kinds {
        ensure!(
            matches!(kind, TargetKind::Sarabande | TargetKind::Proxy),
            "{} cannot be flooded",
            name(&kind)
        );
        measure(kind, arguments)?;
    }
    Ok(())
}

fn measure(kind: TargetKind, arguments: &Arguments) -> Result<()> {
    let mut driver = LoadGenerator::new(SERVERS, SERVERS)?;
    let target = arguments.setup.start(kind, &mut driver)?;
    let (hold, burst) = (Duration::from_millis(500), Duration::ZERO);
    let plan = RunPlan { hold, burst, ..RunPlan::at(arguments.calls, STEP) };
    let table = table(["", "MB resident", "calls", "completed", "refused", "p50 ms", "p95 ms"]);
    let mut run = Run { driver, target, plan, table, peak: 0 };
    run.step("before")?;
    let flood = flood(run.target.addresses()[0], arguments)?;
    while !flood.is_finished() {
        run.step("flood")?;
    }
    flood.join().expect("the flood does not panic");
    let over = Instant::now();
    while over.elapsed().as_secs() < arguments.settle {
        run.step(&format!("{} s after", over.elapsed().as_secs()))?;
    }
    println!(
        "{}: {} INVITEs of {} bytes, at most {:.1} MB\n{}",
        name(&kind),
        arguments.invites,
        arguments.bytes,
        run.peak as f64 / 1e6,
        run.table
    );
    Ok(())
}
