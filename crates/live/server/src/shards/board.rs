//! The loads of all nodes as each shard has them, for the other shards to read.

use balance::Load;
use std::sync::atomic::{AtomicU64, Ordering};

/// Load of every node on every shard: each shard writes its own column and reads the others'.
///
/// Relaxed atomics suffice: each number stands for itself, and being a batch late is what
/// `LoadCell::expected` reckons with.
#[derive(Debug)]
pub(crate) struct Board {
    shards: Vec<Vec<Cell>>,
}

/// Most nodes on the board. Loads of nodes beyond are not exchanged: each shard then balances those on its own.
const NODES: usize = 1_024;

/// Calls and transactions in one word, work in another: written by one thread, so never torn.
#[derive(Debug, Default)]
struct Cell {
    counts: AtomicU64,
    work: AtomicU64,
}

impl Board {
    pub(crate) fn new(shards: usize) -> Self {
        let column = || (0..NODES).map(|_| Cell::default()).collect();
        Self { shards: (0..shards).map(|_| column()).collect() }
    }

    /// Says what `shard` has on the node in `slot`.
    pub(crate) fn publish(&self, shard: usize, slot: usize, load: Load) {
        let Some(cell) = self.shards[shard].get(slot) else { return };
        let counts = u64::from(load.calls) << 32 | u64::from(load.transactions);
        cell.counts.store(counts, Ordering::Relaxed);
        cell.work.store(load.work, Ordering::Relaxed);
    }

    /// What all shards but `shard` have on the node in `slot`.
    pub(crate) fn others(&self, shard: usize, slot: usize) -> Load {
        let mut sum = Load::default();
        for (_, column) in self.shards.iter().enumerate().filter(|(other, _)| *other != shard) {
            let Some(cell) = column.get(slot) else { continue };
            let counts = cell.counts.load(Ordering::Relaxed);
            let (calls, transactions) = ((counts >> 32) as u32, counts as u32);
            sum += Load { calls, transactions, work: cell.work.load(Ordering::Relaxed) };
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_sees_the_sum_of_the_others() {
        let board = Board::new(3);
        for shard in 0..3 {
            let load = Load { calls: 10 + shard, transactions: shard, work: 7 };
            board.publish(shard as usize, 5, load);
        }
        assert_eq!(board.others(0, 5), Load { calls: 11 + 12, transactions: 3, work: 14 });
        assert_eq!(board.others(0, NODES), Load::default());
    }
}
