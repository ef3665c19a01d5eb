//! Runs of a session and their order.

use base::Rng;
use rand::Rng as _;

/// One run: a cell, an alternative in it, and a round from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunId {
    pub(crate) cell: usize,
    pub(crate) alternative: usize,
    pub(crate) round: u32,
}

/// Returns all runs round by round, so that a slow hour of the machine affects every cell. The alternatives of a cell
/// are in random order, except models (see `models`), which come last. Equal seeds give equal orders, even if the
/// numbers of rounds differ.
pub(crate) fn order(models: &[Vec<bool>], rounds: u32, seed: u64) -> Vec<RunId> {
    let mut rng = Rng::from_seed(seed);
    let mut runs = Vec::new();
    for round in 0..rounds {
        for (cell, models) in models.iter().enumerate() {
            let mut order: Vec<usize> = (0..models.len()).collect();
            order.sort_by_cached_key(|alternative| (models[*alternative], rng.random::<u64>()));
            runs.extend(order.into_iter().map(|alternative| RunId { cell, alternative, round }));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_round_has_every_alternative_of_every_cell_once() {
        let runs = order(&[vec![false; 3], vec![false; 2]], 4, 1);
        assert_eq!(runs.len(), 4 * 5);
        let unlike: BTreeSet<_> = runs.iter().map(|run| (run.round, run.cell, run.alternative)).collect();
        assert_eq!(unlike.len(), runs.len());
        assert!(runs.is_sorted_by_key(|run| (run.round, run.cell)), "rounds are outermost");
    }

    #[test]
    fn the_order_is_random_follows_from_the_seed_and_models_come_last() {
        let models = [vec![true, false, false, false]];
        let firsts = |seed| -> Vec<usize> {
            order(&models, 20, seed).chunks(4).map(|round| round[0].alternative).collect()
        };
        assert_eq!(firsts(1), firsts(1));
        assert_ne!(firsts(1), firsts(2));
        assert_eq!(firsts(1).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([1, 2, 3]));
        assert!(order(&models, 20, 1).chunks(4).all(|round| round[3].alternative == 0));
        // A session continued with more rounds keeps the earlier ones.
        assert_eq!(order(&models, 20, 1)[..12], order(&models, 3, 1));
    }
}
