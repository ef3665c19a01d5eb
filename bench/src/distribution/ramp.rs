//! Utilisation of one proxy as the load goes up to what it carries (figure 2).

use anyhow::Result;

use super::arrangement::{Forward, Kept, Shape};
use super::chain::{Places, Product, ProxySpec};
use super::prices::NO_CONTROL;
use super::{CALLERS, DistributionBench, IN_PROGRESS, LoadResult};
use crate::overload::load::LoadGenerator;

/// Loads as parts of the capacity.
pub const LOADS: [f64; 10] = [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.3];
/// Modes, as they are printed.
pub const MODES: [(&str, Option<Kept>); 3] =
    [("stateless", None), ("transactions", Some(Kept::Transactions)), ("dialogs", Some(Kept::Dialogs))];

/// The loads of one proxy in one mode.
pub struct Ramp {
    /// Calls a second that it carries.
    pub capacity: f64,
    /// In the order of [`LOADS`].
    pub points: Vec<LoadResult>,
}

impl DistributionBench {
    /// Offers one proxy the loads, from low to high.
    ///
    /// # Errors
    /// What could not be started.
    pub fn ramp(&self, kept: Option<Kept>, threads: usize) -> Result<Ramp> {
        let mut generator = LoadGenerator::repeating(CALLERS, 1)?;
        let answerers = generator.answerers();
        let places = Places { bench: self, answerers: &answerers };
        let name = kept.map_or("stateless", |kept| Forward::Stateful.name(kept));
        let way = Shape::Series(1).places().remove(0).remove(0);
        let spec = ProxySpec {
            asks: false,
            ways: vec![(way, Forward::Told(name, self.keys.clone()))],
            quota: self.quota,
            threads,
            tables: NO_CONTROL.to_owned(),
        };
        let chain = places.start(Product::Sarabande, &[spec], kept.unwrap_or(Kept::Transactions))?;
        let target = [places.proxy(0, 5060)];
        let capacity = self.saturate(&mut generator, &chain, &target, IN_PROGRESS)?.window.set_up;
        let rates = LOADS.map(|load| load * capacity);
        let points = self.sweep(&mut generator, &chain, &target, &rates, true)?;
        for (load, point) in LOADS.iter().zip(&points) {
            let [proxy] = point.proxies[..] else { continue };
            eprintln!(
                "  {name} {threads}: {load:4} of {capacity:.0}: says {:.2}, processor {:.2}; {}",
                proxy.utilisation,
                proxy.busy,
                point.window.line()
            );
        }
        Ok(Ramp { capacity, points })
    }
}
