//! The balancing papers' experiments: clusters of servers that somebody else wrote.

mod session;
mod tables;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use sarabande_bench::cluster::costs::Pricing;
use sarabande_bench::cluster::runs::{Run, Shape};
use sarabande_bench::cluster::sweep::{Cluster, SweepPlan};
use sarabande_bench::cluster::verdict::NODES;
use sarabande_bench::cluster::{ClusterBench, Product, Way};

use crate::files::Files;
use crate::programs::ProgramPaths;
use session::Session;

/// Measures clusters of servers by every way to share calls out, and what transactions cost the servers. Needs root,
/// for control groups, and for Java a JDK and Maven; an hour a round, below a quarter of one with --quick.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    programs: ProgramPaths,
    /// Folder of the server in Java.
    #[arg(long, default_value = "bench/jain")]
    java: PathBuf,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_values = ["costs", "response", "nodes", "unequal"])]
    parts: Vec<Part>,
    /// Servers of the clusters.
    #[arg(long, value_delimiter = ',', default_values = ["java"])]
    servers: Vec<Product>,
    /// Servers whose transactions are priced.
    #[arg(long, value_delimiter = ',', default_values = ["java", "kamailio", "sipp", "sarabande"])]
    priced: Vec<Product>,
    /// What they have while they are priced.
    #[arg(long, value_delimiter = ',', default_values = ["whole", "part"])]
    pricing: Vec<Pricing>,
    /// Only these ways.
    #[arg(long, value_delimiter = ',')]
    ways: Vec<Way>,
    /// How often clusters are measured, every second time in reverse order.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    #[command(flatten)]
    length: Length,
    /// Goes on with a session of the same length that was ended.
    #[arg(long)]
    resume: bool,
    /// Of the arrivals in the first round; each round has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tables, pictures and all runs are written to this folder.
    #[arg(long, default_value = "target/cluster")]
    out: PathBuf,
    /// Keeps tables and pictures in docs/cluster, and what they are made of.
    #[arg(long)]
    record: bool,
}

/// How long runs are.
#[derive(Args)]
struct Length {
    /// One round, four loads, short; the prices of the first two servers alone, with a processor each.
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Calls of 60 s in the mean with a deviation of 30 s, as the papers have them: a round takes ten hours.
    #[arg(long, conflicts_with = "quick")]
    whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Processor time of INVITE, BYE and REGISTER.
    Costs,
    /// Response times and peaks of eight servers, by every way (figures 2, 3 and 4).
    Response,
    /// Peaks of 1, 2, 4 and 10 servers (figure 5).
    Nodes,
    /// What an INVITE weighs as `weights = "adaptive"` estimates it in ten minutes at half of what servers carry.
    Weights,
    /// Peaks of eight servers of which half have half the speed (figure 6).
    Unequal,
}

/// The ways of a session that is quick.
const QUICK: [Way; 6] = [Way::Tlwl, Way::Tjsq, Way::Cjsq, Way::RoundRobin, Way::Hash, Way::KamailioLoad];

/// Rounds in which transactions are priced, of 50 to 90 s each.
const PRICING: u32 = 6;

/// Where what is kept goes.
const KEPT: &str = "docs/cluster";

impl Length {
    /// Sessions of unlike length are not to be mixed up: each has a folder of its own.
    fn folder(&self) -> &'static str {
        match (self.quick, self.whole) {
            (true, _) => "quick",
            (_, true) => "whole",
            _ => "usual",
        }
    }

    fn plan(&self) -> SweepPlan {
        if self.quick {
            return SweepPlan {
                loads: vec![0.6, 0.8, 0.9, 1.1],
                settle: 1.5,
                counted: 3.0,
                holding: [1.0, 0.5],
            };
        }
        if self.whole {
            let loads = vec![0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1];
            return SweepPlan { loads, settle: 90.0, counted: 60.0, holding: [60.0, 30.0] };
        }
        SweepPlan { loads: vec![0.5, 0.7, 0.8, 0.9, 1.0], settle: 2.5, counted: 10.0, holding: [2.0, 1.0] }
    }
}

impl Arguments {
    /// The sweeps of a part in a round, those of the same servers one after the other.
    fn runs(&self, part: Part, product: Product, round: u32) -> Vec<Run> {
        let run = |nodes, way| Run {
            product,
            shape: Shape { nodes, is_unequal: false },
            way,
            are_told: false,
            round,
        };
        let mut runs: Vec<Run> = match part {
            Part::Costs | Part::Weights => Vec::new(),
            Part::Response => Way::value_variants().iter().map(|way| run(NODES, *way)).collect(),
            Part::Nodes => {
                let of = |nodes| [Way::Tlwl, Way::RoundRobin].map(|way| run(nodes, way));
                [1, 2, 4, 10].into_iter().flat_map(of).collect()
            }
            Part::Unequal => {
                let ways = [Way::Tlwl, Way::Tjsq, Way::Cjsq, Way::RoundRobin, Way::Hash];
                let of = |way| [false, true].map(|are_told| Run { are_told, ..run(NODES, way) });
                let ours = ways.into_iter().flat_map(of);
                let all = ours.chain([run(NODES, Way::KamailioLoad)]);
                all.map(|run| Run { shape: Shape { is_unequal: true, ..run.shape }, ..run }).collect()
            }
        };
        runs.retain(|run| self.ways.is_empty() || self.ways.contains(&run.way));
        if self.length.quick {
            runs.retain(|run| QUICK.contains(&run.way) && [1, NODES].contains(&run.shape.nodes));
            // Those that there is a statement about.
            let few = [Way::Tlwl, Way::RoundRobin];
            runs.retain(|run| part == Part::Response || few.contains(&run.way));
        }
        // None is always the first; servers are the same for all that stand together.
        if round % 2 == 1 && part != Part::Nodes {
            runs.reverse();
        }
        runs
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let bench = ClusterBench {
        sarabande: arguments.programs.sarabande()?,
        kamailio: arguments.programs.kamailio.clone(),
        java: arguments.java.clone(),
        seed: arguments.seed,
    };
    let out = arguments.out.join(arguments.length.folder());
    let files = Files::new("cluster", &out, KEPT)?;
    let plan = arguments.length.plan();
    let mut session = Session::open(&out, arguments.resume, plan.loads.len())?;
    let rounds = if arguments.length.quick { 1 } else { arguments.rounds };
    if arguments.parts.contains(&Part::Costs) {
        // Each takes five to ten minutes.
        let (products, pricings) = if arguments.length.quick { (2, 1) } else { (usize::MAX, usize::MAX) };
        for product in arguments.priced.iter().take(products) {
            for pricing in arguments.pricing.iter().take(pricings) {
                session.price(
                    &bench,
                    *product,
                    *pricing,
                    if arguments.length.quick { 1 } else { PRICING },
                )?;
                files.write(&tables::parts(&session, &plan, false), false)?;
            }
        }
    }
    if arguments.parts.contains(&Part::Weights) {
        for product in &arguments.priced {
            session.estimate(&bench, *product)?;
            files.write(&tables::parts(&session, &plan, false), false)?;
        }
    }
    for round in 0..rounds {
        for (product, part) in arguments
            .servers
            .iter()
            .flat_map(|product| arguments.parts.iter().map(move |part| (*product, *part)))
        {
            let mut runs = arguments.runs(part, product, round);
            runs.retain(|run| !session.runs.has(run));
            for same in runs.chunk_by(|a, b| a.shape == b.shape) {
                let shape = same[0].shape;
                let mut cluster = Cluster::start(&bench, product, shape.quotas(product))
                    .with_context(|| format!("{} servers of {product:?}", shape.nodes))?;
                let capacity = session.capacity(&mut cluster, product, shape)?;
                for run in same {
                    let levels = cluster.sweep(run, capacity, &plan).with_context(|| run.to_string())?;
                    session.add(*run, plan.loads.iter().copied().zip(levels).collect())?;
                    files.write(&tables::parts(&session, &plan, false), false)?;
                }
            }
        }
    }
    files.write(&tables::parts(&session, &plan, true), arguments.record)?;
    if arguments.record {
        session.keep(Path::new(KEPT))?;
    }
    println!("{}", files.page()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        all: Arguments,
    }

    fn of(arguments: &[&str]) -> Arguments {
        Only::try_parse_from([&[""], arguments].concat()).expect("good arguments").all
    }

    #[test]
    fn every_way_is_before_every_product_and_none_is_always_first() {
        let arguments = of(&[]);
        let response = [0, 1].map(|round| arguments.runs(Part::Response, Product::Java, round));
        assert_eq!(response[0].len(), Way::value_variants().len());
        assert_ne!(response[0][0].way, response[1][0].way);
        let nodes = arguments.runs(Part::Nodes, Product::Java, 1);
        assert_eq!(nodes.chunk_by(|a, b| a.shape == b.shape).count(), 4);
        assert!(arguments.runs(Part::Unequal, Product::Kamailio, 0).iter().all(|run| run.shape.is_unequal));
        let few = of(&["--ways", "tlwl,hash"]);
        assert_eq!(few.runs(Part::Response, Product::Java, 0).len(), 2);
    }

    #[test]
    fn sessions_of_unlike_length_have_unlike_folders() {
        let folders = [&[][..], &["--quick"], &["--whole"]].map(|arguments| of(arguments).length.folder());
        assert_eq!(folders, ["usual", "quick", "whole"]);
    }

    #[test]
    fn quick_leaves_out_what_no_statement_is_about() {
        let arguments = of(&["--quick"]);
        let count = |part| arguments.runs(part, Product::Java, 0).len();
        let parts = [Part::Response, Part::Nodes, Part::Unequal].map(count);
        assert_eq!(parts, [6, 2, 4]);
    }
}
