//! Edges that are not limited send all calls to one core that is, before an answerer (Overload paper, section VII).

use anyhow::Result;

use super::cluster::{Cluster, pool};
use super::load::LoadGenerator;
use super::result::{Course, Curve, PartResult};
use super::simulated::{Simulated, proxy};
use super::{CALLERS, OverloadBench, address, steps};

/// The core's number.
const CORE: u8 = 97;
/// The edges' numbers.
const EDGES: [u8; 2] = [95, 96];
const LOADS: [f64; 5] = [0.9, 1.5, 2.0, 5.0, 10.0];
/// Names of what the core tells the edges, and keys of `[overload]` at both.
const WAYS: [(&str, &str); 4] = [
    ("nothing, local none", "local = \"none\"\ntriage = false"),
    ("nothing, local delay", "feedback = \"none\""),
    ("loss", "feedback = \"loss\"\nneighbours = [\"127.79.0.0/24\"]"),
    ("rate", "feedback = \"rate\"\nneighbours = [\"127.79.0.0/24\"]"),
];
/// The same in the simulator: names, and keys of the simulated core and edges.
const SIMULATED: [(&str, &str); 4] = [
    ("nothing, local none", "local = \"none\""),
    ("nothing, local delay", "local = \"delay\", triage = true"),
    ("loss", "local = \"occupancy\", feedback = \"hop-by-hop\", triage = true"),
    ("rate", "local = \"delay\", feedback = \"rate\", triage = true"),
];
/// A step and back: loads in capacities, and seconds of each.
const STEP: [(f64, f64); 3] = [(0.8, 4.0), (2.4, 8.0), (0.8, 8.0)];

fn start<'a>(bench: &'a OverloadBench, generator: &LoadGenerator, keys: &str) -> Result<Cluster<'a>> {
    let mut cluster = Cluster::new(bench)?;
    let role = |members: &[_]| format!("{}\n[overload]\n{keys}\n", pool(members, ""));
    let core = cluster.sarabande(address(CORE), &role(&generator.answerers()))?;
    cluster.start_limited("core", &core)?;
    for edge in EDGES {
        let command = cluster.sarabande(address(edge), &role(&[address(CORE)]))?;
        cluster.start(&format!("edge-{edge}"), &command)?;
    }
    Ok(cluster)
}

/// Measures each kind of feedback.
///
/// # Errors
/// What could not be started.
pub fn run(bench: &OverloadBench, say: &dyn Fn(&str)) -> Result<PartResult> {
    let targets = EDGES.map(address);
    let mut generator = LoadGenerator::new(CALLERS, 1)?;
    let capacity = {
        let _cluster = start(bench, &generator, WAYS[0].1)?;
        bench.capacity(&mut generator, &targets)?
    };
    say(&format!("chain: the core takes {capacity:.0} calls/s"));
    let mut curves = Vec::new();
    for (name, keys) in WAYS {
        say(&format!("chain: {name}"));
        let _cluster = start(bench, &generator, keys)?;
        let points = bench.sweep(&mut generator, &targets, capacity, &LOADS)?;
        curves.push(Curve { name: name.to_owned(), points });
    }
    for (name, overload) in SIMULATED {
        let edges = format!(
            "[host.edge]\ncount = {}\ncapacity = \"unlimited\"\noverload = {{ {overload} }}\n",
            EDGES.len()
        );
        let hosts = edges + &proxy("core", capacity, overload);
        let simulated = Simulated { hosts, path: &["edge", "core"] };
        curves.push(simulated.curve(bench, name, capacity, &LOADS)?);
    }
    let mut step = Course::new("step", "A step to 2.4 times the capacity and back, through a chain");
    step.marks = vec![("2.4 times".to_owned(), STEP[0].1), ("back".to_owned(), STEP[0].1 + STEP[1].1)];
    for (name, keys) in [WAYS[1], WAYS[3]] {
        say(&format!("chain: a step, {name}"));
        let _cluster = start(bench, &generator, keys)?;
        generator.await_calls(&targets)?;
        step.add(name, &steps(&mut generator, &targets, capacity, &STEP)?, capacity);
    }
    Ok(PartResult {
        name: "chain",
        title: "Two edges before a core",
        capacity,
        curves,
        courses: vec![step],
        others: Vec::new(),
    })
}
