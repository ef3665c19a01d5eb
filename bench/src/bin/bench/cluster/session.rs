//! What there is of a session, in files from which it goes on.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use sarabande_bench::cluster::costs::{CostRun, Costs, Pricing};
use sarabande_bench::cluster::runs::{Run, Runs, Shape, header, lines, peak};
use sarabande_bench::cluster::sweep::{Cluster, LevelResult};
use sarabande_bench::cluster::verdict::NODES;
use sarabande_bench::cluster::{ClusterBench, Product};
use sarabande_bench::report::name;

/// All that was measured.
pub(super) struct Session {
    out: PathBuf,
    since: Instant,
    pub(super) runs: Runs,
    pub(super) costs: Vec<(Product, Pricing, Costs)>,
    /// Calls a second that these servers carry: measured once, since loads are parts of it.
    pub(super) capacities: Vec<(Product, Shape, f64)>,
    /// What an INVITE weighs as was estimated: after so many seconds.
    pub(super) estimates: Vec<(Product, f64, f64)>,
}

const RUNS: &str = "runs.csv";
const COSTS: &str = "priced.csv";
const CAPACITIES: &str = "capacities.csv";
const ESTIMATES: &str = "estimates.csv";
/// Servers whose weights are estimated, the part of what they carry, and seconds.
const ESTIMATING: (Shape, f64, f64) = (Shape { nodes: NODES, is_unequal: false }, 0.5, 600.0);

fn product(name: &str) -> Result<Product> {
    Product::from_str(name, false).map_err(anyhow::Error::msg)
}

impl Session {
    /// A new one, or the one in `out`. A new one keeps the runs of the one before under another name.
    pub(super) fn open(out: &Path, resume: bool, loads: usize) -> Result<Self> {
        let mut session = Self {
            out: out.to_owned(),
            since: Instant::now(),
            runs: Runs::default(),
            costs: Vec::new(),
            capacities: Vec::new(),
            estimates: Vec::new(),
        };
        let read = |file: &str| fs::read_to_string(out.join(file)).unwrap_or_default();
        if resume {
            session.runs =
                Runs::parse(&read(RUNS), loads).with_context(|| out.join(RUNS).display().to_string())?;
            session.costs = parse_costs(&read(COSTS))?;
            session.capacities = parse_capacities(&read(CAPACITIES))?;
            session.estimates = parse_estimates(&read(ESTIMATES))?;
        } else if out.join(RUNS).exists() {
            fs::rename(out.join(RUNS), out.join("runs-before.csv"))?;
        }
        let whole: String = session.runs.0.iter().map(|(run, levels)| lines(run, levels)).collect();
        fs::write(out.join(RUNS), format!("{}\n{whole}", header()))?;
        Ok(session)
    }

    /// Copies what was measured to this folder.
    pub(super) fn keep(&self, kept: &Path) -> Result<()> {
        let all = [
            (RUNS, self.runs.0.is_empty()),
            (COSTS, self.costs.is_empty()),
            (CAPACITIES, self.capacities.is_empty()),
            (ESTIMATES, self.estimates.is_empty()),
        ];
        for (file, _) in all.into_iter().filter(|(_, is_empty)| !is_empty) {
            fs::copy(self.out.join(file), kept.join(file)).with_context(|| file)?;
        }
        Ok(())
    }

    pub(super) fn add(&mut self, run: Run, levels: Vec<(f64, LevelResult)>) -> Result<()> {
        let mut file = OpenOptions::new().append(true).open(self.out.join(RUNS))?;
        file.write_all(lines(&run, &levels).as_bytes())?;
        let elapsed = self.since.elapsed().as_secs_f64();
        let last = levels.last().map(|(_, level)| *level).unwrap_or_default();
        eprintln!(
            "{elapsed:5.0} s: {run}: peak {:.0}; at the last load: {:.0} calls/s, INVITE {:.1} (99 %: {:.1}) ms, BYE {:.1} ms, \
             done {:.2} %, repeated {:.0}/s, servers {:.2}, balancer {:.2}, callers {:.2}, stood still {:.1} % (most {:.0} ms), \
             late {:.0} ms",
            peak(&levels),
            last.rate,
            last.invite.mean,
            last.invite.p99,
            last.bye.mean,
            100.0 * last.done,
            last.repeated,
            last.servers,
            last.balancer,
            last.callers,
            100.0 * last.paused,
            last.pause_ms,
            last.late_ms
        );
        self.runs.0.push((run, levels));
        Ok(())
    }

    /// What the transactions of this product cost when it is priced so, if that was measured.
    pub(super) fn prices(&self, product: Product, pricing: Pricing) -> Option<&Costs> {
        self.costs.iter().find(|(of, so, _)| *of == product && *so == pricing).map(|(.., costs)| costs)
    }

    /// Measures what the transactions of this product cost, unless that is known.
    pub(super) fn price(
        &mut self,
        bench: &ClusterBench,
        product: Product,
        pricing: Pricing,
        rounds: u32,
    ) -> Result<()> {
        if self.prices(product, pricing).is_some() {
            return Ok(());
        }
        let costs = bench.costs(product, pricing, rounds)?;
        eprintln!(
            "{product:?}, {pricing:?}: INVITE {:.0} us, BYE {:.0} us, ratio {:.2}; {:.1} KiB a call",
            costs.invite_us, costs.bye_us, costs.ratio, costs.call_kib
        );
        self.costs.push((product, pricing, costs));
        self.costs.sort_by_key(|(product, pricing, _)| (*product, *pricing));
        Ok(fs::write(self.out.join(COSTS), costs_text(&self.costs))?)
    }

    /// What an INVITE weighs on servers of this product as is estimated, unless that is known.
    pub(super) fn estimate(&mut self, bench: &ClusterBench, product: Product) -> Result<()> {
        if self.estimates.iter().any(|(known, ..)| *known == product) {
            return Ok(());
        }
        let (shape, load, seconds) = ESTIMATING;
        let mut cluster = Cluster::start(bench, product, shape.quotas(product))?;
        let capacity = self.capacity(&mut cluster, product, shape)?;
        let estimates = cluster.estimated_weights(load * capacity, seconds)?;
        for (at, weight) in &estimates {
            eprintln!("{product:?}: after {at:.0} s an INVITE weighs {weight:.2}");
        }
        self.estimates.extend(estimates.into_iter().map(|(at, weight)| (product, at, weight)));
        let line = |(product, at, weight): &(Product, f64, f64)| format!("{},{at},{weight}\n", name(product));
        Ok(fs::write(self.out.join(ESTIMATES), self.estimates.iter().map(line).collect::<String>())?)
    }

    /// What these servers carry.
    pub(super) fn capacity(
        &mut self,
        cluster: &mut Cluster<'_>,
        product: Product,
        shape: Shape,
    ) -> Result<f64> {
        let known = self.capacities.iter().find(|(of, its, _)| *of == product && *its == shape);
        if let Some((_, _, capacity)) = known {
            return Ok(*capacity);
        }
        let capacity = cluster.capacity()?;
        eprintln!("{} {product:?}: {capacity:.0} calls/s", shape.nodes);
        self.capacities.push((product, shape, capacity));
        let line = |(product, shape, capacity): &(Product, Shape, f64)| {
            format!("{},{},{},{capacity:.1}\n", name(product), shape.nodes, u8::from(shape.is_unequal))
        };
        fs::write(self.out.join(CAPACITIES), self.capacities.iter().map(line).collect::<String>())?;
        Ok(capacity)
    }
}

fn parse_capacities(text: &str) -> Result<Vec<(Product, Shape, f64)>> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [of, nodes, is_unequal, capacity] = fields[..] else { anyhow::bail!("{CAPACITIES}: {line}") };
        let shape = Shape { nodes: nodes.parse()?, is_unequal: is_unequal == "1" };
        Ok((product(of)?, shape, capacity.parse()?))
    };
    text.lines().map(parse).collect()
}

fn parse_estimates(text: &str) -> Result<Vec<(Product, f64, f64)>> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [of, at, weight] = fields[..] else { anyhow::bail!("{ESTIMATES}: {line}") };
        Ok((product(of)?, at.parse()?, weight.parse()?))
    };
    text.lines().map(parse).collect()
}

fn costs_text(all: &[(Product, Pricing, Costs)]) -> String {
    let mut text = String::new();
    for (product, pricing, costs) in all {
        for CostRun { round, seconds, numbers: [invites, byes, registers], kept, used } in &costs.runs {
            let (product, pricing, kib) = (name(product), name(pricing), costs.call_kib);
            let line = format!(
                "{product},{pricing},{kib:.3},{round},{seconds:.4},{invites},{byes},{registers},{kept:.1},{used:.6}"
            );
            writeln!(text, "{line}").expect("memory takes all");
        }
    }
    text
}

fn parse_costs(text: &str) -> Result<Vec<(Product, Pricing, Costs)>> {
    let mut all: Vec<(Product, Pricing, f64, Vec<CostRun>)> = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ',');
        let (Some(of), Some(so), Some(numbers)) = (fields.next(), fields.next(), fields.next()) else {
            anyhow::bail!("{COSTS}: {line}")
        };
        let so = Pricing::from_str(so, false).map_err(anyhow::Error::msg)?;
        let numbers: Vec<f64> = numbers.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [kib, round, seconds, invites, byes, registers, kept, used] = numbers[..] else {
            anyhow::bail!("{COSTS}: {line}")
        };
        let numbers = [invites, byes, registers];
        let (of, run) = (product(of)?, CostRun { round: round as u32, seconds, numbers, kept, used });
        match all.last_mut().filter(|(last, its, ..)| *last == of && *its == so) {
            Some((.., runs)) => runs.push(run),
            None => all.push((of, so, kib, vec![run])),
        }
    }
    let costs = |(product, pricing, kib, runs)| Some((product, pricing, Costs::of(runs, kib)?));
    Ok(all.into_iter().filter_map(costs).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sarabande_bench::cluster::Way;
    use sarabande_bench::scratch::Scratch;

    #[test]
    fn a_session_goes_on_where_it_ended() {
        let scratch = Scratch::new("cluster-session").expect("a folder");
        let out = scratch.path();
        let shape = Shape { nodes: 8, is_unequal: false };
        let run = |round| Run { product: Product::Java, shape, way: Way::Tlwl, are_told: false, round };
        let levels = vec![(0.5, LevelResult::default()), (1.0, LevelResult::default())];
        let mut session = Session::open(out, false, 2).expect("a new one");
        session.add(run(0), levels.clone()).expect("written");
        let row = |at: u32| {
            let [a, b, kept] = [at % 3, at % 2, at % 5].map(f64::from);
            // A multiple of 1/8, so that it is the same when it is read.
            let used = 0.25 + 3.0 * a + 2.0 * b + 0.125 * kept;
            CostRun { round: at / 12, seconds: 4.0, numbers: [a, b, 0.0], kept, used }
        };
        let costs = Costs::of((0..24).map(row).collect(), 2.5).expect("rows that differ");
        session.costs = vec![(Product::Sipp, Pricing::Part, costs)];
        fs::write(out.join(COSTS), costs_text(&session.costs)).expect("written");
        fs::write(out.join(CAPACITIES), "java,8,0,2400.5\n").expect("written");
        fs::write(out.join(ESTIMATES), "java,10,1.8375\n").expect("written");

        let again = Session::open(out, true, 2).expect("the same");
        assert!(again.runs.has(&run(0)) && !again.runs.has(&run(1)));
        assert_eq!(again.capacities, [(Product::Java, shape, 2_400.5)]);
        assert_eq!(again.estimates, [(Product::Java, 10.0, 1.8375)]);
        assert_eq!(again.costs[0].2.runs, session.costs[0].2.runs);

        let new = Session::open(out, false, 2).expect("a new one");
        assert!(new.runs.0.is_empty() && out.join("runs-before.csv").exists());
    }
}
