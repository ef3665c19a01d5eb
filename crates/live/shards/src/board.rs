//! Loads of all nodes at each shard, shared among the shards.

use crate::utilisation::ThreadWork;
use balance::Load;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Load of every node at every shard. Each shard writes its own column and reads the others.
///
/// Relaxed atomics suffice, since each number is independent. `LoadCell::expected` takes into account that values may
/// be one batch old.
#[derive(Debug)]
pub struct Board {
    shards: Vec<Vec<Cell>>,
    work: Vec<WorkCell>,
}

/// Limit of nodes on the board. Loads of further nodes are not exchanged, so each shard balances these on its own.
const NODES: usize = 1_024;

/// Calls and transactions in one word, work in another. Only one thread writes each word, so that no value is torn.
#[derive(Debug, Default)]
struct Cell {
    counts: AtomicU64,
    work: AtomicU64,
}

/// Work of a thread in its last period. A read during a write may mix two periods.
#[derive(Debug, Default)]
struct WorkCell([AtomicU64; 5]);

impl Board {
    /// Creates a board with a column for each of `shards` shards.
    pub fn new(shards: usize) -> Self {
        let column = || (0..NODES).map(|_| Cell::default()).collect();
        let work = (0..shards).map(|_| WorkCell::default()).collect();
        Self { shards: (0..shards).map(|_| column()).collect(), work }
    }

    /// Publishes the work of a shard's thread in a period.
    pub fn publish_work(&self, shard: usize, work: ThreadWork) {
        let ThreadWork { read, sent, transactions, sleeps, processor } = work;
        let numbers = [read, sent, transactions, sleeps, processor.as_nanos() as u64];
        for (cell, number) in self.work[shard].0.iter().zip(numbers) {
            cell.store(number, Ordering::Relaxed);
        }
    }

    /// Returns the work of all threads, each in its last period.
    pub fn work(&self) -> ThreadWork {
        let mut sum = ThreadWork::default();
        for WorkCell(numbers) in &self.work {
            let [read, sent, transactions, sleeps, nanos] =
                numbers.each_ref().map(|number| number.load(Ordering::Relaxed));
            sum += ThreadWork { read, sent, transactions, sleeps, processor: Duration::from_nanos(nanos) };
        }
        sum
    }

    /// Publishes the load of `shard` at the node in `slot`.
    pub fn publish(&self, shard: usize, slot: usize, load: Load) {
        let Some(cell) = self.shards[shard].get(slot) else { return };
        let counts = u64::from(load.calls) << 32 | u64::from(load.transactions);
        cell.counts.store(counts, Ordering::Relaxed);
        cell.work.store(load.work, Ordering::Relaxed);
    }

    /// Returns the load of all shards but `shard` at the node in `slot`.
    pub fn others(&self, shard: usize, slot: usize) -> Load {
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

    #[test]
    fn the_work_of_all_threads_is_summed_up() {
        let board = Board::new(2);
        let work = |factor: u64| ThreadWork {
            read: factor,
            sent: 2 * factor,
            transactions: 3 * factor,
            sleeps: 4 * factor,
            processor: Duration::from_micros(factor),
        };
        board.publish_work(0, work(1));
        board.publish_work(1, work(10));
        board.publish_work(0, work(2));
        assert_eq!(board.work(), work(12));
    }
}
