//! What an established call costs: memory, and the time of a message as the table grows.
//!
//! Calls are established on one shard by real datagrams (INVITE, 200, ACK), held, sampled with re-INVITEs, and
//! released (BYE, 200, and the time that an ended session lingers). No sockets: this is the core alone.

use anyhow::{Context, Result, ensure};
use balance::policy::Tlwl;
use balance::{Balancer, Cluster, HealthSettings, Member, Sign};
use base::{Instant, Outbox};
use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use node::{Input, Key, Listener, NodeAddress, Orphans, Settings, Shard, Tokens, Topology, node_id};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Measures memory and time a call on one shard, from a thousand calls to the given number.
#[derive(Parser)]
struct Arguments {
    /// Most calls held at a time.
    #[arg(long, default_value_t = 1_000_000)]
    calls: u64,
}

const CLIENT: &str = "127.0.0.1:5070";
const NODES: u16 = 4;
/// Calls whose messages are timed at each size of the table.
const SAMPLE: u64 = 20_000;

/// One shard and a clock that stands still unless told.
struct Bed {
    shard: Shard,
    out: Outbox<Sign>,
    now: Instant,
    /// Forwarded in the last step.
    last: Vec<u8>,
}

impl Bed {
    fn new() -> Result<Self> {
        let settings = HealthSettings { fall: 1, rise: 1, slow_start: Duration::ZERO };
        let mut cluster = Cluster::new(settings);
        let mut topology = Topology::new(vec![Listener::new("127.0.0.1:5060".parse()?)], Vec::new());
        let addresses = (1..=NODES).map(|n| SocketAddr::from(([127, 0, 1, n as u8], 5080)));
        let member = |address| Member { id: node_id(address), capacity: 1.0, max_calls: 0 };
        cluster.set_members(Instant::ZERO, &addresses.clone().map(member).collect::<Vec<_>>());
        addresses.for_each(|address| topology.push_node(NodeAddress { address, listener: 0 }));
        let mut balancer = Balancer::new(balance::Settings::default(), Box::new(Tlwl::new(0)));
        balancer.set_nodes(cluster.nodes());
        let tokens = Tokens::new(Key([7; 16]), &[], Duration::from_hours(24));
        let settings = Settings { orphans: Orphans::Reject, epoch_unix: 1_800_000_000, stopping: false };
        let shard = Shard::new(balancer, Arc::new(topology), tokens, settings);
        Ok(Self { shard, out: Outbox::default(), now: Instant::ZERO, last: Vec::new() })
    }

    /// One datagram in, exactly one out.
    fn pass(&mut self, from: &str, bytes: &[u8]) -> Result<SocketAddr> {
        self.out.clear();
        let input = Input::Datagram { listener: 0, from: from.parse()?, bytes };
        self.shard.handle(self.now, input, &mut self.out);
        let sent = self.out.transmits();
        ensure!(sent.len() == 1, "{} datagrams came of {}", sent.len(), String::from_utf8_lossy(bytes));
        self.last.clear();
        self.last.extend_from_slice(self.out.datagram(&sent[0]));
        Ok(sent[0].to)
    }

    /// The 200 of the node that got the last request.
    fn answer(&mut self, node: SocketAddr) -> Result<()> {
        let request = wire::scan(&self.last).map_err(|discard| anyhow::anyhow!(discard.reason()))?;
        let mut response = Vec::new();
        wire::write_response(&request, "127.0.0.1:5060".parse()?, 200, "OK", "callee", &[], &mut response);
        self.pass(&node.to_string(), &response)?;
        Ok(())
    }

    /// Returns the Record-Route URI, which the caller's later requests carry as Route.
    fn establish(&mut self, call: u64) -> Result<Vec<u8>> {
        let node = self.pass(CLIENT, &request(call, "INVITE", 1, None))?;
        let forwarded = wire::scan(&self.last).map_err(|discard| anyhow::anyhow!(discard.reason()))?;
        let route = forwarded.header("Record-Route").context("the INVITE was not record-routed")?.to_vec();
        self.answer(node)?;
        self.pass(CLIENT, &request(call, "ACK", 1, Some(&route)))?;
        Ok(route)
    }

    fn transaction(&mut self, call: u64, method: &str, cseq: u32, route: &[u8]) -> Result<()> {
        let node = self.pass(CLIENT, &request(call, method, cseq, Some(route)))?;
        self.answer(node)
    }
}

fn request(call: u64, method: &str, cseq: u32, route: Option<&[u8]>) -> Vec<u8> {
    let (tag, route) = match route {
        Some(route) => (";tag=callee", format!("Route: {}\r\n", String::from_utf8_lossy(route))),
        None => ("", String::new()),
    };
    format!(
        "{method} sip:bob@127.0.0.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP {CLIENT};branch=z9hG4bK{call}-{method}-{cseq}\r\n\
         {route}Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=a{call}\r\nTo: <sip:bob@example.com>{tag}\r\n\
         Call-ID: {call:016x}@example.com\r\nCSeq: {cseq} {method}\r\nContact: <sip:alice@{CLIENT}>\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// Resident memory of this process, in bytes.
fn resident() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).context("statm has a second field")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut bed = Bed::new()?;
    // The first calls warm up arenas and histograms, which do not grow with the number of calls.
    for call in 0..100 {
        bed.establish(u64::MAX - call)?;
    }
    let base = resident()?;
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header([
        "calls held",
        "bytes a call",
        "us to establish (3 messages)",
        "us to re-INVITE (2 messages)",
    ]);
    let (mut held, mut size, mut sampled) = (0, 1_000, Vec::new());
    while held < arguments.calls {
        let begun = std::time::Instant::now();
        let added = size.min(arguments.calls) - held;
        for call in held..held + added {
            let route = bed.establish(call)?;
            // Keeping every route would be the benchmark's memory, not the balancer's.
            if call % (arguments.calls / SAMPLE).max(1) == 0 {
                sampled.push((call, route));
            }
        }
        held += added;
        let establish = begun.elapsed().as_secs_f64() * 1e6 / added as f64;
        let begun = std::time::Instant::now();
        for (call, route) in &sampled {
            bed.transaction(*call, "INVITE", held as u32, route)?;
        }
        let again = begun.elapsed().as_secs_f64() * 1e6 / sampled.len() as f64;
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

/// Ends the sampled calls by BYE and the rest by their lease, and checks that nothing is left.
fn release(bed: &mut Bed, sampled: &[(u64, Vec<u8>)]) -> Result<()> {
    let begun = std::time::Instant::now();
    for (call, route) in sampled {
        bed.transaction(*call, "BYE", 1 << 30, route)?;
    }
    println!("BYE and 200: {:.2} us", begun.elapsed().as_secs_f64() * 1e6 / sampled.len() as f64);
    let begun = std::time::Instant::now();
    let left = bed.shard.balancer().counts();
    while let Some(deadline) = bed.shard.deadline() {
        bed.shard.handle(deadline, Input::Timer, &mut bed.out);
    }
    let total = (left.active + left.expired) as f64;
    println!("expiry: {:.2} us a call", begun.elapsed().as_secs_f64() * 1e6 / total);
    let counts = bed.shard.balancer().counts();
    ensure!(counts.active + counts.expired == 0, "sessions are left: {counts:?}");
    bed.shard.balancer().audit().map_err(|error| anyhow::anyhow!(error))
}
