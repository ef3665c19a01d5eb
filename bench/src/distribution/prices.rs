//! What a call costs a proxy by what it keeps of it (figure 1), and the rates of the proxies of a chain.

use anyhow::{Result, ensure};

use super::arrangement::{Forward, Kept, ProxyPlace, Shape};
use super::chain::{Places, Product, ProxySpec};
use super::{CALLERS, DistributionBench, IN_PROGRESS, USER};
use crate::overload::load::LoadGenerator;

/// Calls a second that a proxy carries at its place in a chain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodePrices {
    /// Where it keeps nothing: `T_SL` of the paper.
    pub stateless: f64,
    /// Where it keeps every call: `T_SF`.
    pub stateful: f64,
}

/// What the proxies of a network are measured to carry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NetworkPrices {
    /// The first proxy of a series, and one behind it.
    pub nodes: [NodePrices; 2],
    /// New calls a second that the first one refuses, if it does nothing else.
    pub refusals: f64,
}

/// What a call costs one proxy.
#[derive(Clone, Copy, Debug)]
pub struct CallPrice {
    /// Processor time of a call while the proxy is full, in microseconds, the kernel's included.
    pub full_us: f64,
    /// The same at a tenth of that load, where each message wakes a thread.
    pub idle_us: f64,
    /// Calls a second that it carries.
    pub capacity: f64,
}

/// What a proxy keeps, from left to right in the figure.
pub const MODES: [(&str, Option<Kept>); 4] = [
    ("stateless", None),
    ("transactions", Some(Kept::Transactions)),
    ("dialogs and records", Some(Kept::Dialogs)),
    ("authentication as well", Some(Kept::Authenticated)),
];

/// Nothing is refused: a capacity is what goes through.
pub(super) const NO_CONTROL: &str = "[overload]\nlocal = \"none\"\n";

fn spec(way: ProxyPlace, forward: Forward, kept: Kept, quota: f64) -> ProxySpec {
    let asks = kept == Kept::Authenticated && forward != Forward::Stateless;
    ProxySpec { ways: vec![(way, forward)], asks, quota, threads: 1, tables: NO_CONTROL.to_owned() }
}

impl DistributionBench {
    /// What a call costs one proxy.
    ///
    /// # Errors
    /// What could not be started.
    pub fn call_price(&self, product: Product, kept: Option<Kept>) -> Result<CallPrice> {
        let mut generator = LoadGenerator::repeating(CALLERS, 1)?;
        generator.user = (kept == Some(Kept::Authenticated)).then_some(USER);
        let answerers = generator.answerers();
        let places = Places { bench: self, answerers: &answerers };
        let forward = if kept.is_some() { Forward::Stateful } else { Forward::Stateless };
        let way = Shape::Series(1).places().remove(0).remove(0);
        let kept = kept.unwrap_or(Kept::Transactions);
        let chain = places.start(product, &[spec(way, forward, kept, self.quota)], kept)?;
        let target = [places.proxy(0, 5060)];
        let full = self.saturate(&mut generator, &chain, &target, IN_PROGRESS)?;
        let capacity = full.window.set_up;
        ensure!(
            capacity > 10.0,
            "{product:?} takes {capacity} calls/s, which is no capacity to measure with"
        );
        let idle = self.sweep(&mut generator, &chain, &target, &[capacity / 10.0], false)?.remove(0);
        let price = |busy: f64, rate: f64| 1e6 * busy * self.quota / rate;
        eprintln!(
            "  {product:?} {kept:?}: {capacity:.0} calls/s, {:.2} of the quota; repeated {:.0}/s; driver {:.2}",
            full.proxies[0].busy, full.window.repetitions, full.driver
        );
        Ok(CallPrice {
            full_us: price(full.proxies[0].busy, capacity),
            idle_us: price(idle.proxies[0].busy, idle.window.set_up),
            capacity,
        })
    }

    /// Calls a second that the proxy of this index carries in a series of two, where the other one has a whole
    /// processor, and keeps them if this one does not.
    fn carried(&self, index: usize, keeps: bool, kept: Kept) -> Result<f64> {
        let mut generator = LoadGenerator::repeating(CALLERS, 1)?;
        generator.user = (kept == Kept::Authenticated).then_some(USER);
        let answerers = generator.answerers();
        let places = Places { bench: self, answerers: &answerers };
        let spec_of = |(number, mut ways): (usize, Vec<_>)| {
            let is_measured = number == index;
            let forward = if is_measured == keeps { Forward::Stateful } else { Forward::Stateless };
            spec(ways.remove(0), forward, kept, if is_measured { self.quota } else { 1.0 })
        };
        let specs: Vec<_> = Shape::Series(2).places().into_iter().enumerate().map(spec_of).collect();
        let chain = places.start(Product::Sarabande, &specs, kept)?;
        let target = [places.proxy(0, 5060)];
        let full = self.saturate(&mut generator, &chain, &target, IN_PROGRESS)?;
        ensure!(full.window.set_up > 10.0, "{} calls/s are no capacity to measure with", full.window.set_up);
        Ok(full.window.set_up)
    }

    /// Calls a second that a proxy refuses which answers each with 503.
    fn refusals(&self) -> Result<f64> {
        let mut generator = LoadGenerator::repeating(CALLERS, 1)?;
        let answerers = generator.answerers();
        let places = Places { bench: self, answerers: &answerers };
        let way = Shape::Series(1).places().remove(0).remove(0);
        let tables = format!("{NO_CONTROL}\n[[route]]\nanswer = 503\n");
        let spec = ProxySpec { tables, ..spec(way, Forward::Stateless, Kept::Transactions, self.quota) };
        let chain = places.start(Product::Sarabande, &[spec], Kept::Transactions)?;
        let target = [places.proxy(0, 5060)];
        let full = self.saturate_started(&mut generator, &chain, &target, IN_PROGRESS)?;
        ensure!(full.window.refused > 10.0, "{} calls/s refused are no price", full.window.refused);
        Ok(full.window.refused)
    }

    /// The rates of both proxies of a series, and of refusals.
    ///
    /// # Errors
    /// What could not be started.
    pub fn network_prices(&self, kept: Kept) -> Result<NetworkPrices> {
        let mut nodes = [NodePrices { stateless: f64::NAN, stateful: f64::NAN }; 2];
        for (index, prices) in nodes.iter_mut().enumerate() {
            prices.stateless = self.carried(index, false, kept)?;
            prices.stateful = self.carried(index, true, kept)?;
        }
        let prices = NetworkPrices { nodes, refusals: self.refusals()? };
        eprintln!("  carried in series, {kept:?}: {prices:?}");
        Ok(prices)
    }
}
