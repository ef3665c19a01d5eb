//! The benchmarks, one command each. `bench_instructions`, the gate, and `bench_bindings` are
//! separate programs, since each has an allocator of its own.

mod flood;
mod modes;
mod monitor;
mod prices;
mod routes;
mod sim;
mod table;

use anyhow::Result;
use clap::Parser;
use sarabande_bench::targets::{call, latency};
use sarabande_bench::{cluster, distribution, elastic, overload};

/// Measures Sarabande, its core and its simulator, and Kamailio where it has a counterpart.
#[derive(Parser)]
#[command(name = "bench")]
enum Benchmark {
    Call(call::Arguments),
    Cluster(cluster::Arguments),
    Distribution(distribution::Arguments),
    Elastic(elastic::Arguments),
    Flood(flood::Arguments),
    Latency(latency::Arguments),
    Modes(modes::Arguments),
    Monitor(monitor::Arguments),
    Overload(overload::Arguments),
    Prices(prices::Arguments),
    Routes(routes::Arguments),
    Sim(sim::Arguments),
    Table(table::Arguments),
}

fn main() -> Result<()> {
    match Benchmark::parse() {
        Benchmark::Call(arguments) => call::run(&arguments),
        Benchmark::Cluster(arguments) => cluster::run(&arguments),
        Benchmark::Distribution(arguments) => distribution::run(&arguments),
        Benchmark::Elastic(arguments) => elastic::run(&arguments),
        Benchmark::Flood(arguments) => flood::run(&arguments),
        Benchmark::Latency(arguments) => latency::run(&arguments),
        Benchmark::Modes(arguments) => modes::run(&arguments),
        Benchmark::Monitor(arguments) => monitor::run(&arguments),
        Benchmark::Overload(arguments) => overload::run(&arguments),
        Benchmark::Prices(arguments) => prices::run(&arguments),
        Benchmark::Routes(arguments) => routes::run(&arguments),
        Benchmark::Sim(arguments) => sim::run(&arguments),
        Benchmark::Table(arguments) => table::run(&arguments),
    }
}
