//! Costs of an established call: memory, and the time of a message as the table grows.
//!
//! Calls are established on one shard by real datagrams (INVITE, 200, ACK), held, sampled with re-INVITEs, and released
//! (BYE, 200, and the time that an ended session stays). There are no sockets: this is the core alone.

use anyhow::{Result, ensure};
use clap::Args;
use node::{Shard, ShardInput};
use sarabande_bench::bed::{Bed, CLIENT, balancer, request};
use sarabande_bench::process::resident;
use sarabande_bench::report;

/// Measures memory and time a call on one shard, from a thousand calls to the given number.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Most calls held at a time.
    #[arg(long, default_value_t = 1_000_000)]
    calls: u64,
}

/// Calls whose messages are timed at each size of the table.
const SAMPLE: u64 = 20_000;

/// Passes one datagram, which must produce exactly one.
fn pass(bed: &mut Bed<Shard>, bytes: &[u8]) -> Result<std::net::SocketAddr> {
    let to = bed.pass(CLIENT, bytes)?;
    ensure!(bed.out.transmits().len() == 1, "one datagram led to {} datagrams", bed.out.transmits().len());
    Ok(to)
}

/// Returns the Record-Route URI, which the caller's later requests carry as Route.
fn establish(bed: &mut Bed<Shard>, call: u64) -> Result<Vec<u8>> {
    let node = pass(bed, &request(call, "INVITE", 1, None))?;
    let route = bed.route()?;
    bed.answer(node, 200)?;
    pass(bed, &request(call, "ACK", 1, Some(&route)))?;
    Ok(route)
}

fn transaction(bed: &mut Bed<Shard>, call: u64, method: &str, cseq: u32, route: &[u8]) -> Result<()> {
    let node = pass(bed, &request(call, method, cseq, Some(route)))?;
    bed.answer(node, 200)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut bed = Bed::new(balancer());
    // The first calls warm up arenas and histograms, which do not grow with the number of calls.
    for call in 0..100 {
        establish(&mut bed, u64::MAX - call)?;
    }
    let base = resident()?;
    let mut table = report::table([
        "calls held",
        "bytes a call",
        "us to establish (3 messages)",
        "us to re-INVITE (2 messages)",
    ]);
    let (mut held, mut size, mut sampled) = (0, 1_000, Vec::new());
    while held < arguments.calls {
        let start = std::time::Instant::now();
        let added = size.min(arguments.calls) - held;
        for call in held..held + added {
            let route = establish(&mut bed, call)?;
            // Keeping every route would be the benchmark's memory, not the balancer's.
            if call % (arguments.calls / SAMPLE).max(1) == 0 {
                sampled.push((call, route));
            }
        }
        held += added;
        let establish = start.elapsed().as_secs_f64() * 1e6 / added as f64;
        let start = std::time::Instant::now();
        for (call, route) in &sampled {
            transaction(&mut bed, *call, "INVITE", held as u32, route)?;
        }
        let again = start.elapsed().as_secs_f64() * 1e6 / sampled.len() as f64;
        let bytes = (resident()?.saturating_sub(base)) as f64 / held as f64;
        table.add_row([
            held.to_string(),
            format!("{bytes:.0}"),
            format!("{establish:.2}"),
            format!("{again:.2}"),
        ]);
        size *= 10;
    }
    println!("{table}");
    release(&mut bed, &sampled)
}

/// Ends the sampled calls by BYE and the others by their lease, and checks that no state is left.
fn release(bed: &mut Bed<Shard>, sampled: &[(u64, Vec<u8>)]) -> Result<()> {
    let start = std::time::Instant::now();
    for (call, route) in sampled {
        transaction(bed, *call, "BYE", 1 << 30, route)?;
    }
    println!("BYE and 200: {:.2} us", start.elapsed().as_secs_f64() * 1e6 / sampled.len() as f64);
    let start = std::time::Instant::now();
    let left = bed.element.balancer().counts();
    while let Some(deadline) = bed.element.deadline() {
        bed.element.handle(deadline, ShardInput::Timer, &mut bed.out);
    }
    let total = (left.active + left.expired) as f64;
    println!("expiry: {:.2} us a call", start.elapsed().as_secs_f64() * 1e6 / total);
    let counts = bed.element.balancer().counts();
    ensure!(counts.active + counts.expired == 0, "sessions are left: {counts:?}");
    bed.element.balancer().audit().map_err(|error| anyhow::anyhow!(error))
}
