//! Cost of a call at a proxy by the state kept (figure 1), and utilisation by load (figure 2). Also the capacities of
//! the proxies of a series.

use anyhow::{Result, ensure};
use papers::report::Axis;

use super::arrangement::{Forward, Kept, ProxyPlace, Shape};
use super::chain::{Chain, Places, ProxySpec};
use super::watch::LoadResult;
use super::{CALLERS, DistributionBench, QUOTA, USER};
use crate::generator::LoadGenerator;
use crate::modes::Product;
use crate::rig::server;
use crate::study::{Alternative, Cell, Figures, Measure, Over, Picture, Samples, Study};

/// Capacity of a proxy at its place in a chain, in calls a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NodePrices {
    /// Without state: `T_SL` of the paper.
    pub(super) stateless: f64,
    /// With the state of every call: `T_SF`.
    pub(super) stateful: f64,
}

/// Measured capacities of the proxies of a network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct NetworkPrices {
    /// The first proxy of a series, and one behind it.
    pub(super) nodes: [NodePrices; 2],
    /// New calls a second that the first one can refuse, if it does nothing else.
    pub(super) refusals: f64,
}

/// Cost of a call at one proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallPrice {
    /// Processor time of a call at full load in microseconds, including the kernel's.
    full_us: f64,
    /// The same at a tenth of that load, where each message wakes a thread.
    idle_us: f64,
    /// Capacity in calls a second.
    capacity: f64,
}

/// State kept by a proxy, from left to right in the figure.
const MODES: [(&str, Option<Kept>); 4] = [
    ("stateless", None),
    ("transactions", Some(Kept::Transactions)),
    ("dialogs and records", Some(Kept::Dialogs)),
    ("authentication as well", Some(Kept::Authenticated)),
];
/// Loads of the ramp, as fractions of the capacity.
const LOADS: [f64; 10] = [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.3];

/// No refusals, so that the capacity is the rate of forwarded calls.
const NO_CONTROL: &str = "[overload]\nlocal = \"none\"\n";
const ALL_REFUSED: &str = "[overload]\nlocal = \"none\"\n\n[[route]]\nanswer = 503\n";

fn spec(way: ProxyPlace, forward: Forward, kept: Kept, quota: f64) -> ProxySpec {
    let asks = kept == Kept::Authenticated && forward != Forward::Stateless;
    ProxySpec { ways: vec![(way, forward)], asks, quota, threads: 1, tables: NO_CONTROL }
}

/// Returns the route of calls through a single proxy.
fn only_way() -> ProxyPlace {
    Shape::Series(1).places().remove(0).remove(0)
}

impl DistributionBench {
    /// Starts callers, an answerer, and these proxies between them.
    fn series(&self, product: Product, specs: &[ProxySpec], kept: Kept) -> Result<(LoadGenerator, Chain)> {
        let mut generator = LoadGenerator::repeating(CALLERS, 1)?;
        generator.user = (kept == Kept::Authenticated).then_some(USER);
        let chain = Places { answerers: &generator.answerers() }.start(self, product, specs, kept)?;
        Ok((generator, chain))
    }

    fn call_price(&self, product: Product, mode: Option<Kept>) -> Result<CallPrice> {
        let forward = if mode.is_some() { Forward::Stateful } else { Forward::Stateless };
        let kept = mode.unwrap_or(Kept::Transactions);
        let (mut generator, chain) = self.series(product, &[spec(only_way(), forward, kept, QUOTA)], kept)?;
        let full = self.saturate(&mut generator, &chain, &[server(0)], false)?;
        let capacity = full.window.set_up;
        ensure!(capacity > 10.0, "{product:?} takes {capacity} calls/s, which is too little to measure");
        let idle = self.sweep(&mut generator, &chain, &[server(0)], &[capacity / 10.0], false)?.remove(0);
        let price = |result: &LoadResult| 1e6 * result.proxy(0).busy * QUOTA / result.window.set_up;
        Ok(CallPrice { full_us: price(&full), idle_us: price(&idle), capacity })
    }

    /// Cost of a call at one proxy.
    pub(super) fn prices(&self) -> Study<'_, CallPrice> {
        let cell = |product: Product| {
            let alternative = |(name, kept): (&'static str, Option<Kept>)| {
                Alternative::new(name, move |_| Ok(vec![(0.0, self.call_price(product, kept)?)]))
            };
            let alternatives = MODES.map(alternative).into();
            Cell::new(format!("{product:?}"), alternatives)
        };
        let measure = |column, digits, of| Measure { column, digits: Some(digits), of };
        Study {
            cells: vec![cell(Product::Sarabande), cell(Product::Kamailio)],
            measures: vec![
                measure("calls_a_second", 0, |it: &CallPrice| it.capacity),
                measure("full_us", 0, |it| it.full_us),
                measure("tenth_us", 0, |it| it.idle_us),
            ],
            pictures: vec![Picture {
                title: "What a call costs a full proxy",
                column: "full_us",
                over: Over::Alternatives,
                y: Axis::linear("processor time of a call (us)"),
            }],
            ..Study::new(
                "prices",
                "What a call costs a proxy, by what it keeps",
                "Processor time of a call with the kernel's part: of a full proxy, and at a tenth of that load.",
            )
        }
    }

    /// Offers rising loads to one proxy.
    fn ramp_of(&self, kept: Option<Kept>, threads: usize) -> Result<Samples<LoadResult>> {
        let name = kept.map_or("stateless", |kept| Forward::Stateful.name(kept));
        let kept = kept.unwrap_or(Kept::Transactions);
        let spec = ProxySpec { threads, ..spec(only_way(), Forward::Told(name), kept, QUOTA) };
        let (mut generator, chain) = self.series(Product::Sarabande, &[spec], kept)?;
        let capacity = self.saturate(&mut generator, &chain, &[server(0)], false)?.window.set_up;
        let loads = if self.quick { &LOADS[..2] } else { &LOADS[..] };
        let rates: Vec<f64> = loads.iter().map(|load| load * capacity).collect();
        let results = self.sweep(&mut generator, &chain, &[server(0)], &rates, true)?;
        Ok(loads.iter().copied().zip(results).collect())
    }

    /// Utilisation of one proxy as the load rises to its capacity.
    pub(super) fn ramp(&self) -> Study<'_, LoadResult> {
        let cell = |threads: usize| {
            let alternative = |(name, kept): (&'static str, Option<Kept>)| {
                Alternative::new(name, move |_| self.ramp_of(kept, threads))
            };
            let alternatives = MODES.into_iter().take(3).map(alternative).collect();
            Cell::new(format!("{threads} thread(s)"), alternatives)
        };
        let measure = |column, of| Measure { column, digits: Some(2), of };
        let picture = |title, column| Picture {
            title,
            column,
            over: Over::Places(Axis::linear("offered load (part of what the proxy carries)")),
            y: Axis::linear("part of the quota").from_to(0.0, 1.1),
        };
        Study {
            at: "load",
            cells: [1, 2].map(cell).into(),
            measures: vec![
                measure("set_up", |it: &LoadResult| it.window.set_up),
                measure("says", |it| it.proxy(0).utilisation),
                measure("processor", |it| it.proxy(0).busy),
            ],
            pictures: vec![
                picture("Utilisation as reported by the proxy", "says"),
                picture("Processor time", "processor"),
            ],
            ..Study::new(
                "ramp",
                "Utilisation of one proxy as the load goes up",
                "Utilisation as reported by the proxy, and its processor time, as fractions of the quota.",
            )
        }
    }

    /// Measures the capacity of the proxy of this index in a series of two, in calls a second. The other proxy has a
    /// whole processor, and keeps the calls that this one does not.
    fn carried(&self, index: usize, keeps: bool, kept: Kept) -> Result<f64> {
        let spec_of = |(number, mut ways): (usize, Vec<_>)| {
            let is_measured = number == index;
            let forward = if is_measured == keeps { Forward::Stateful } else { Forward::Stateless };
            spec(ways.remove(0), forward, kept, if is_measured { QUOTA } else { 1.0 })
        };
        let specs: Vec<_> = Shape::Series(2).places().into_iter().enumerate().map(spec_of).collect();
        let (mut generator, chain) = self.series(Product::Sarabande, &specs, kept)?;
        let full = self.saturate(&mut generator, &chain, &[server(0)], false)?;
        ensure!(full.window.set_up > 10.0, "{} calls/s are too few to measure", full.window.set_up);
        Ok(full.window.set_up)
    }

    /// Measures how many calls a second a proxy refuses that answers each with 503.
    fn refusals(&self) -> Result<f64> {
        let kept = Kept::Transactions;
        let spec = ProxySpec { tables: ALL_REFUSED, ..spec(only_way(), Forward::Stateless, kept, QUOTA) };
        let (mut generator, chain) = self.series(Product::Sarabande, &[spec], kept)?;
        let full = self.saturate(&mut generator, &chain, &[server(0)], true)?;
        ensure!(full.window.refused > 10.0, "{} refused calls/s are too few to measure", full.window.refused);
        Ok(full.window.refused)
    }

    /// Returns the capacities of both proxies of a series, and the rate of refusals, measured once in this round.
    pub(super) fn network_prices(
        &self,
        kept: Kept,
        round: u32,
        figures: &mut Figures,
    ) -> Result<NetworkPrices> {
        let name = |what: &str| format!("round {}, {kept:?}: calls/s {what}", round + 1);
        let mut nodes = [NodePrices { stateless: f64::NAN, stateful: f64::NAN }; 2];
        for (index, prices) in nodes.iter_mut().enumerate() {
            let place = if index == 0 { "first" } else { "second" };
            let carried = |keeps| move || self.carried(index, keeps, kept);
            prices.stateless =
                figures.once(&name(&format!("through the {place}, stateless")), carried(false))?;
            prices.stateful =
                figures.once(&name(&format!("through the {place}, stateful")), carried(true))?;
        }
        let refusals = figures.once(&name("refused"), || self.refusals())?;
        Ok(NetworkPrices { nodes, refusals })
    }
}
