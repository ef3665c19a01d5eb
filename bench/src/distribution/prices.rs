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

fn spec(ways: Vec<(ProxyPlace, Forward)>, quota: f64) -> ProxySpec {
    ProxySpec { ways, quota, threads: 1, tables: NO_CONTROL.to_owned() }
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
        let specs = [spec(vec![(way, forward)], self.quota)];
        let chain = places.start(product, &specs, kept.unwrap_or(Kept::Transactions))?;
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
    /// processor and keeps nothing.
    fn carried(&self, index: usize, forward: &Forward, kept: Kept) -> Result<f64> {
        let mut generator = LoadGenerator::repeating(CALLERS, 1)?;
        let answerers = generator.answerers();
        let places = Places { bench: self, answerers: &answerers };
        let spec_of = |(number, mut ways): (usize, Vec<_>)| {
            let is_measured = number == index;
            let forward = if is_measured { forward.clone() } else { Forward::Stateless };
            spec(vec![(ways.remove(0), forward)], if is_measured { self.quota } else { 1.0 })
        };
        let specs: Vec<_> = Shape::Series(2).places().into_iter().enumerate().map(spec_of).collect();
        let chain = places.start(Product::Sarabande, &specs, kept)?;
        let target = [places.proxy(0, 5060)];
        let full = self.saturate(&mut generator, &chain, &target, IN_PROGRESS)?;
        ensure!(full.window.set_up > 10.0, "{} calls/s are no capacity to measure with", full.window.set_up);
        Ok(full.window.set_up)
    }

    /// The rates of both proxies of a series.
    ///
    /// # Errors
    /// What could not be started.
    pub fn node_prices(&self, kept: Kept) -> Result<[NodePrices; 2]> {
        let mut prices = [NodePrices { stateless: f64::NAN, stateful: f64::NAN }; 2];
        for (index, prices) in prices.iter_mut().enumerate() {
            prices.stateless = self.carried(index, &Forward::Stateless, kept)?;
            prices.stateful = self.carried(index, &Forward::Stateful, kept)?;
        }
        eprintln!("  carried in series, {kept:?}: {prices:?}");
        Ok(prices)
    }
}
