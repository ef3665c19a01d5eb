//! Goodput of networks of proxies below, at and past what the linear program says they carry (figure 4).

use anyhow::Result;
use plan::{Plan, WayPlan};

use super::arrangement::{Arrangement, Kept, ProxyPlace, Shape};
use super::chain::{Places, Product, ProxySpec};
use super::prices::NetworkPrices;
use super::{CALLERS, DistributionBench, LoadResult, USER};
use crate::overload::load::LoadGenerator;

/// A network whose goodput is measured.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// As it is printed, and the name of its files.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// The network.
    pub shape: Shape,
    /// What is kept and shared out.
    pub kept: Kept,
}

/// Goodput of one arrangement.
pub struct Line {
    /// The arrangement.
    pub name: String,
    /// In the order of the loads.
    pub points: Vec<LoadResult>,
}

/// What one round of a case came to.
pub struct Round {
    /// What its proxies carry.
    pub prices: NetworkPrices,
    /// Calls a second that the linear program makes of them.
    pub plan: f64,
    /// All arrangements.
    pub lines: Vec<Line>,
}

/// Who can tell the share of what he keeps.
fn says(product: Product, arrangement: &Arrangement) -> bool {
    product == Product::Sarabande
        && matches!(arrangement, Arrangement::Fixed(_) | Arrangement::Calls(_) | Arrangement::Law(..))
}

impl DistributionBench {
    fn arrangements(&self, case: &Case, plan: &Plan) -> Vec<(Product, Arrangement)> {
        let keep = plan.ways.first().map_or(1.0, WayPlan::keep);
        let level = Arrangement::Law("level", self.keys.clone());
        // A hundredth of what it carries, as in the paper.
        let delta = plan.load / 100.0;
        let paper = Arrangement::Law("paper", format!("delta_c = {delta:.1}\n{}", self.keys));
        let mut ours = vec![Arrangement::Every, Arrangement::Entry, Arrangement::Exit];
        if case.kept == Kept::Authenticated {
            ours.extend([Arrangement::Split, Arrangement::Calls(self.keys.clone())]);
        }
        if case.shape == Shape::Series(2) {
            ours.extend([Arrangement::Fixed(keep), paper]);
        }
        ours.push(level);
        let mut all: Vec<_> = ours.into_iter().map(|it| (Product::Sarabande, it)).collect();
        if case.shape == Shape::Series(2) && case.kept == Kept::Transactions {
            all.extend([Arrangement::Every, Arrangement::Entry].map(|it| (Product::Kamailio, it)));
        }
        all
    }

    /// Measures all arrangements of a case, those whose name has `only` in it. Where `turn` is odd, in reverse order.
    ///
    /// # Errors
    /// What could not be started.
    pub fn round(&self, case: &Case, loads: &[f64], only: &str, turn: usize) -> Result<Round> {
        let prices = self.network_prices(case.kept)?;
        let plan = case.shape.plan(&prices.nodes);
        eprintln!("{}: the plan carries {:.0} calls/s", case.name, plan.load);
        let rates: Vec<f64> = loads.iter().map(|load| load * plan.load).collect();
        let mut arrangements = self.arrangements(case, &plan);
        if turn % 2 == 1 {
            arrangements.reverse();
        }
        let mut lines = Vec::new();
        for (product, arrangement) in arrangements {
            let name = match product {
                Product::Sarabande => arrangement.name(),
                Product::Kamailio => format!("Kamailio, {}", arrangement.name()),
            };
            if !name.contains(only) {
                continue;
            }
            let points = self.line(case, product, &arrangement, &rates)?;
            for (load, point) in loads.iter().zip(&points) {
                let proxies: Vec<_> = point
                    .proxies
                    .iter()
                    .map(|proxy| format!("{:.2}/{:.2}/{:.2}", proxy.busy, proxy.utilisation, proxy.kept))
                    .collect();
                eprintln!(
                    "  {name}, {load}: {}; busy/says/keeps {}; driver {:.2}, late {} ms",
                    point.window.line(),
                    proxies.join(" "),
                    point.driver,
                    point.late_ms
                );
            }
            lines.push(Line { name, points });
        }
        Ok(Round { prices, plan: plan.load, lines })
    }

    fn line(
        &self,
        case: &Case,
        product: Product,
        arrangement: &Arrangement,
        rates: &[f64],
    ) -> Result<Vec<LoadResult>> {
        let entries = case.shape.entries();
        let mut generator = LoadGenerator::repeating(CALLERS, entries.len())?;
        generator.user = (case.kept == Kept::Authenticated).then_some(USER);
        let answerers = generator.answerers();
        let places = Places { bench: self, answerers: &answerers };
        let spec = |ways: Vec<ProxyPlace>| {
            let asks = case.kept == Kept::Authenticated && ways.iter().any(|place| arrangement.asks(place));
            let forward = |place| (arrangement.forward(&place), place);
            let ways: Vec<_> =
                ways.into_iter().map(forward).map(|(forward, place)| (place, forward)).collect();
            ProxySpec { ways, asks, quota: self.quota, threads: 1, tables: String::new() }
        };
        let specs: Vec<ProxySpec> = case.shape.places().into_iter().map(spec).collect();
        let chain = places.start(product, &specs, case.kept)?;
        let targets: Vec<_> = entries.iter().map(|entry| places.proxy(*entry, 5060)).collect();
        self.sweep(&mut generator, &chain, &targets, rates, says(product, arrangement))
    }
}
