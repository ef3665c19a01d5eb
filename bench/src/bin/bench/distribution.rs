//! State distribution on running proxies, beside the plan, Kamailio and the simulator.

mod results;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use sarabande_bench::distribution::goodput::Case;
use sarabande_bench::distribution::{DistributionBench, Kept, Product, Shape, prices, ramp, simulated};
use sarabande_bench::report::median;

use crate::files::Files;
use crate::programs::ProgramPaths;
use results::{CaseRounds, PriceRounds, RampRounds};

/// Measures what state costs a proxy, how its utilisation follows the load, and the goodput of networks of proxies
/// that share state out, beside splits by hand and Kamailio. Needs root, for control groups.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    programs: ProgramPaths,
    /// What each proxy may use, in percent of a processor; at least 10, a millisecond of each period.
    #[arg(long, default_value_t = 12.0)]
    quota: f64,
    /// Seconds before the first load of a run counts.
    #[arg(long, default_value_t = 5.0)]
    warm_up: f64,
    /// Seconds of each load that do not count.
    #[arg(long, default_value_t = 3.0)]
    settle: f64,
    /// Seconds of each load that count.
    #[arg(long, default_value_t = 4.0)]
    counted: f64,
    /// Times that all is repeated, every second time in reverse order.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One round of short windows, to see whether all runs.
    #[arg(long)]
    quick: bool,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_values = ["prices", "ramp", "transactions", "dialogs", "authentication", "three", "fork", "edges"])]
    parts: Vec<Part>,
    /// Loads of networks, as parts of the plan.
    #[arg(long, value_delimiter = ',', default_values_t = [0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0])]
    loads: Vec<f64>,
    /// Arrangements whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Further lines of `[distribution]`, such as `state_cost = "40%"`.
    #[arg(long, default_value = "")]
    keys: String,
    /// Tables, pictures and a page are written to this folder.
    #[arg(long, default_value = "target/distribution")]
    out: PathBuf,
    /// Keeps pictures and tables in docs.
    #[arg(long)]
    record: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What a call costs one proxy, by what it keeps.
    Prices,
    /// Utilisation against load.
    Ramp,
    /// Two in series.
    Transactions,
    /// Two in series that share out dialogs with records, too.
    Dialogs,
    /// Two in series that share out authentication as well.
    Authentication,
    /// Three in series.
    Three,
    /// One before two.
    Fork,
    /// Two edges that call each other through a core.
    Edges,
}

/// Those of the loads at which longer networks are looked at.
const FEW: [f64; 2] = [1.0, 1.2];

impl Part {
    fn case(self) -> Option<Case> {
        let case = |name, title, shape, kept| Some(Case { name, title, shape, kept });
        let transactions = Kept::Transactions;
        match self {
            Self::Prices | Self::Ramp => None,
            Self::Transactions => {
                case("transactions", "Two in series, transactions", Shape::Series(2), transactions)
            }
            Self::Dialogs => {
                case("dialogs", "Two in series, dialogs with records", Shape::Series(2), Kept::Dialogs)
            }
            Self::Authentication => case(
                "authentication",
                "Two in series, dialogs with records and authentication",
                Shape::Series(2),
                Kept::Authenticated,
            ),
            Self::Three => case("three", "Three in series, transactions", Shape::Series(3), transactions),
            Self::Fork => case("fork", "One before two, transactions", Shape::Fork, transactions),
            Self::Edges => case("edges", "Edge, core, edge, transactions", Shape::Edges, transactions),
        }
    }
}

/// What is there so far.
struct Session<'a> {
    bench: DistributionBench,
    arguments: &'a Arguments,
    prices: PriceRounds,
    ramps: RampRounds,
    cases: Vec<CaseRounds>,
}

impl Session<'_> {
    fn round(&mut self, part: Part, turn: usize) -> Result<()> {
        let Some(case) = part.case() else {
            return if part == Part::Prices { self.prices() } else { self.ramp() };
        };
        let all = matches!(case.shape, Shape::Series(2));
        let loads: Vec<f64> =
            self.arguments.loads.iter().copied().filter(|load| all || FEW.contains(load)).collect();
        let round = self.bench.round(&case, &loads, &self.arguments.only, turn)?;
        match self.cases.iter_mut().find(|rounds| rounds.case.name == case.name) {
            Some(rounds) => rounds.rounds.push(round),
            None => self.cases.push(CaseRounds { case, loads, rounds: vec![round], simulated: Vec::new() }),
        }
        Ok(())
    }

    fn prices(&mut self) -> Result<()> {
        for product in [Product::Sarabande, Product::Kamailio] {
            for (mode, (_, kept)) in prices::MODES.iter().enumerate() {
                self.prices.add(product, mode, self.bench.call_price(product, *kept)?);
            }
        }
        Ok(())
    }

    fn ramp(&mut self) -> Result<()> {
        for threads in [1, 2] {
            for (name, kept) in ramp::MODES {
                self.ramps.add(name, threads, self.bench.ramp(kept, threads)?);
            }
        }
        Ok(())
    }

    /// Two in series in the simulator, with the medians of the prices.
    fn simulate(&mut self) {
        for rounds in &mut self.cases {
            if rounds.case.shape == Shape::Series(2) {
                let (prices, plan) = (rounds.prices(), rounds.plan());
                rounds.simulated = simulated::run(rounds.case.kept, &prices, plan, &rounds.loads);
            }
        }
    }

    fn write(&self, files: &Files, record: bool) -> Result<()> {
        let mut parts = Vec::new();
        parts.extend(self.prices.part());
        parts.extend(self.ramps.part());
        parts.extend(self.cases.iter().map(CaseRounds::part));
        files.write(&parts, record)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let short = |usual: f64, quick: f64| if arguments.quick { quick } else { usual };
    let bench = DistributionBench {
        sarabande: arguments.programs.sarabande()?,
        kamailio: arguments.programs.kamailio.clone(),
        quota: arguments.quota / 100.0,
        warm_up: short(arguments.warm_up, 2.0),
        settle: short(arguments.settle, 1.0),
        counted: short(arguments.counted, 2.0),
        network: (std::process::id() % 200) as u8 + 20,
        keys: arguments.keys.clone(),
    };
    let files = Files::new("distribution", &arguments.out, "docs/distribution")?;
    let (prices, ramps) = (PriceRounds::new(bench.quota), RampRounds::default());
    let mut session = Session { bench, arguments, prices, ramps, cases: Vec::new() };
    for turn in 0..if arguments.quick { 1 } else { arguments.rounds } {
        for &part in &arguments.parts {
            session.round(part, turn)?;
            // After each part: a later one that fails takes nothing away.
            session.write(&files, false)?;
        }
    }
    session.simulate();
    session.write(&files, arguments.record)?;
    println!("{}", files.page()?);
    Ok(())
}

/// Of several rounds: the middle one, the least and the most.
fn middle(values: &[f64]) -> (f64, f64, f64) {
    let (least, most) = sarabande_bench::report::spread(values.iter().copied());
    (median(values), least, most)
}
