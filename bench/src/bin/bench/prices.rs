//! Costs of the ledger's operations on this machine: the price list of the simulator's scenarios.
//!
//! Calls pass the server's code without sockets. Each kind of message is timed alone, and so are scans. The time of a
//! message is the sum of its operations; the prices are the best fit over all kinds (least squares, none below zero).
//! Operations that always occur together share their time, so single prices mean little and sums a lot.

use anyhow::Result;
use base::{Flow, Instant, Ledger, Operation, Outbox};
use clap::{Args, ValueEnum};
use node::{Shard, ShardEvent, ShardInput};
use sarabande_bench::bed::{Bed, CLIENT, Element, balancer, proxy, request, stateless};
use sarabande_bench::report::median;
use std::collections::BTreeMap;
use std::hint::black_box;

/// Prints `[costs.operations]` of a scenario, as measured on this machine.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Role to measure.
    #[arg(value_enum)]
    role: Role,
    /// Calls in progress at a time.
    #[arg(long, default_value_t = 500)]
    calls: u64,
    /// Number of repetitions. The end of the fastest quarter counts.
    #[arg(long, default_value_t = 31)]
    rounds: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    /// The balancer of `[pool]`.
    Balancer,
    /// The transaction-stateful proxy of `[proxy]`.
    Proxy,
    /// The stateless proxy of `[proxy]`.
    Stateless,
}

/// Steps of one kind in one round.
#[derive(Clone, Copy, Default)]
struct Row {
    steps: u64,
    nanos: u64,
    work: Ledger,
}

/// A shard with a stopwatch.
struct Timed {
    shard: Shard,
    kind: &'static str,
    rows: BTreeMap<&'static str, Row>,
}

impl Timed {
    /// Times a scan alone: all messages begin with one, so their times do not separate it from the rest.
    fn scan(&mut self, bytes: &[u8]) {
        let scan = || black_box(wire::scan(black_box(bytes)).is_ok());
        // The first one warms the caches; the scan within the step finds them as warm as this.
        scan();
        let start = std::time::Instant::now();
        scan();
        let nanos = start.elapsed().as_nanos() as u64;
        let row = self.rows.entry("scan alone").or_default();
        row.steps += 1;
        row.nanos += nanos;
        row.work.charge(Operation::Scan);
    }
}

impl Element for Timed {
    fn handle(&mut self, now: Instant, input: ShardInput<'_>, out: &mut Outbox<ShardEvent>) {
        if let ShardInput::Message { bytes, .. } = input {
            self.scan(bytes);
        }
        let before = self.shard.ledger();
        let start = std::time::Instant::now();
        self.shard.handle(now, input, out);
        let nanos = start.elapsed().as_nanos() as u64;
        let row = self.rows.entry(self.kind).or_default();
        row.steps += 1;
        row.nanos += nanos;
        row.work += self.shard.ledger() - before;
    }

    fn shard(&self) -> &Shard {
        &self.shard
    }
}

/// One round: all calls begin, are answered, hang up, and are forgotten. Some are refused by a server.
fn round(bed: &mut Bed<Timed>, calls: u64) -> Result<()> {
    let mut open = Vec::new();
    for call in 0..calls {
        bed.element.kind = "INVITE";
        let invite = request(call, "INVITE", 1, None);
        let node = bed.pass(CLIENT, &invite)?;
        let (forwarded, route) = (bed.last.clone(), bed.route()?);
        bed.element.kind = "INVITE again";
        bed.pass(CLIENT, &invite)?;
        bed.last = forwarded;
        bed.element.kind = "180";
        bed.answer(node, 180)?;
        bed.element.kind = "200 to INVITE";
        bed.answer(node, 200)?;
        open.push((call, route));
    }
    for (call, route) in &open {
        bed.element.kind = "ACK";
        bed.pass(CLIENT, &request(*call, "ACK", 1, Some(route)))?;
    }
    for (call, route) in &open {
        bed.element.kind = "BYE";
        let node = bed.pass(CLIENT, &request(*call, "BYE", 2, Some(route)))?;
        bed.element.kind = "200 to BYE";
        bed.answer(node, 200)?;
    }
    for call in 0..calls {
        bed.element.kind = "refused";
        let exhausted = String::from_utf8_lossy(&request(call, "OPTIONS", 9, None))
            .replace("Forwards: 70", "Forwards: 0");
        bed.pass(CLIENT, exhausted.as_bytes())?;
        bed.element.kind = "dropped";
        let foreign = format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bKforeign{call}\r\nVia: SIP/2.0/UDP {CLIENT}\r\n\
             From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>;tag=2\r\nCall-ID: {call}\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n"
        );
        let input = ShardInput::Message { flow: Flow::udp(0, CLIENT), bytes: foreign.as_bytes() };
        bed.element.handle(bed.now, input, &mut bed.out);
    }
    bed.element.kind = "timers";
    while let Some(due) = bed.element.deadline() {
        bed.now = due;
        bed.out.clear();
        bed.element.handle(due, ShardInput::Timer, &mut bed.out);
    }
    Ok(())
}

/// Nanoseconds and operations of a mean step of one kind.
struct Kind {
    name: &'static str,
    nanos: f64,
    work: [f64; Operation::ALL.len()],
}

fn measure(shard: impl Fn() -> Shard, arguments: &Arguments) -> Result<Vec<Kind>> {
    let mut rounds = Vec::new();
    for _ in 0..arguments.rounds {
        let mut bed = Bed::new(Timed { shard: shard(), kind: "", rows: BTreeMap::new() });
        // The first calls allocate memory that later ones reuse.
        round(&mut bed, arguments.calls)?;
        bed.element.rows.clear();
        round(&mut bed, arguments.calls)?;
        rounds.push(bed.element.rows);
    }
    let kind = |(name, first): (&&'static str, &Row)| {
        let each = rounds.iter().map(|rows| rows[name].nanos as f64 / rows[name].steps as f64).collect();
        let work = Operation::ALL.map(|operation| first.work[operation] as f64 / first.steps as f64);
        Kind { name, nanos: (quarter(each) - watch()).max(0.0), work }
    };
    Ok(rounds[0].iter().map(kind).collect())
}

/// Returns the end of the lowest quarter: other work on the machine can only have added time.
fn quarter(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

/// Returns the nanoseconds for reading the clock.
fn watch() -> f64 {
    let looks: Vec<_> = (0..1_001)
        .map(|_| {
            let start = std::time::Instant::now();
            start.elapsed().as_nanos() as f64
        })
        .collect();
    median(&looks)
}

/// Returns the prices, none below zero, with the least sum of squared errors. Each in turn is set to its best value
/// given the others, until they converge.
fn fit(kinds: &[Kind]) -> [f64; Operation::ALL.len()] {
    const SWEEPS: usize = 20_000;
    /// Among equal fits, prefers the list with similar prices.
    const RIDGE: f64 = 1e-6;
    let mut prices = [0.0; Operation::ALL.len()];
    for _ in 0..SWEEPS {
        for at in 0..prices.len() {
            let (mut pull, mut weight) = (0.0, RIDGE);
            for Kind { nanos, work, .. } in kinds {
                let operations: f64 = work.iter().sum();
                let all: f64 = prices.iter().zip(work).map(|(price, count)| price * count).sum();
                let share = work[at] / operations;
                pull += share * (nanos - all + prices[at] * work[at]) / operations;
                weight += share * share;
            }
            prices[at] = f64::max(pull / weight, 0.0);
        }
    }
    prices
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let kinds = match arguments.role {
        Role::Balancer => measure(balancer, arguments)?,
        Role::Proxy => measure(proxy, arguments)?,
        Role::Stateless => measure(stateless, arguments)?,
    };
    let prices = fit(&kinds);
    println!("[costs.operations]");
    for (operation, price) in Operation::ALL.iter().zip(prices) {
        if price >= 0.5 {
            println!("{} = \"{price:.0}ns\"", operation.name());
        }
    }
    println!("\n# a step of each kind, in ns: measured, and by this list");
    for kind in &kinds {
        let listed: f64 = prices.iter().zip(kind.work).map(|(price, count)| price * count).sum();
        println!("# {:14} {:6.0} {listed:6.0}", kind.name, kind.nanos);
    }
    Ok(())
}
