//! One balancer that protects itself, held to a part of a processor, before an answerer that is not.

use anyhow::Result;

use super::cluster::{Cluster, pool};
use super::load::LoadGenerator;
use super::result::{Curve, PartResult};
use super::simulated::{Simulated, proxy};
use super::{CALLERS, OverloadBench, address};

/// The balancer's number.
const BALANCER: u8 = 98;
const LOADS: [f64; 6] = [0.9, 1.5, 2.0, 3.0, 5.0, 10.0];
/// Names of the laws, keys of `[overload]`, and those of a simulated host.
const WAYS: [(&str, &str, &str); 4] = [
    ("none", "local = \"none\"\ntriage = false", "local = \"none\""),
    (
        "bang-bang, Retry-After",
        "local = \"bang-bang\"\nretry_after = \"2s\"",
        "local = \"bang-bang\", triage = true",
    ),
    ("occupancy", "local = \"occupancy\"", "local = \"occupancy\", triage = true"),
    ("delay", "local = \"delay\"", "local = \"delay\", triage = true"),
];

fn start<'a>(bench: &'a OverloadBench, generator: &LoadGenerator, keys: &str) -> Result<Cluster<'a>> {
    let mut cluster = Cluster::new(bench)?;
    let tables = format!("{}\n[overload]\n{keys}\n", pool(&generator.answerers(), ""));
    let command = cluster.sarabande(address(BALANCER), &tables)?;
    cluster.start_limited("sarabande", &command)?;
    Ok(cluster)
}

/// Measures each law.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &OverloadBench, say: &dyn Fn(&str)) -> Result<PartResult> {
    let target = [address(BALANCER)];
    let mut generator = LoadGenerator::new(CALLERS, 1)?;
    let capacity = {
        let _cluster = start(bench, &generator, WAYS[0].1)?;
        bench.capacity(&mut generator, &target)?
    };
    say(&format!("local: it takes {capacity:.0} calls/s"));
    let mut curves = Vec::new();
    for (name, keys, _) in WAYS {
        say(&format!("local: {name}"));
        let _cluster = start(bench, &generator, keys)?;
        let points = bench.sweep(&mut generator, &target, capacity, &LOADS)?;
        curves.push(Curve { name: name.to_owned(), points });
    }
    for (name, _, overload) in WAYS {
        let hosts = proxy("front", capacity, overload);
        let simulated = Simulated { hosts, path: &["front"] };
        curves.push(simulated.curve(bench, name, capacity, &LOADS)?);
    }
    Ok(PartResult {
        name: "local",
        title: "A balancer that protects itself",
        capacity,
        curves,
        courses: Vec::new(),
        others: Vec::new(),
    })
}
