//! Prices of the operations of a ledger.

use base::{Ledger, Operation};
use config::scenario::Costs;
use core::time::Duration;

/// The price list of `[costs.operations]`, in the order of [`Operation::ALL`].
#[derive(Debug)]
pub(crate) struct Prices([Duration; Operation::ALL.len()]);

impl Prices {
    /// Returns the prices; `None` if no operation has one.
    pub(crate) fn new(costs: &Costs) -> Option<Self> {
        let of = |operation: Operation| {
            costs.operations.iter().find(|(name, _)| *name == operation.name()).map(|(_, price)| *price)
        };
        (!costs.operations.is_empty()).then(|| Self(Operation::ALL.map(|op| of(op).unwrap_or_default())))
    }

    /// Whether ending a transaction costs nothing.
    pub(crate) fn clears_for_free(&self) -> bool {
        [Operation::TimerFire, Operation::ExpireTransaction].iter().all(|op| self.0[*op as usize].is_zero())
    }

    /// Returns the price of all operations of a ledger.
    pub(crate) fn of(&self, work: &Ledger) -> Duration {
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        work.iter().zip(self.0).map(|((_, done), price)| price.saturating_mul(count(done))).sum()
    }
}
