//! Runs many independent simulations on all cores.
//!
//! The only place of this crate with threads. They share only the number of the next run, and results are sorted by
//! number. The result therefore does not depend on the assignment of runs to threads.

use base::Rng;
use core::sync::atomic::{AtomicUsize, Ordering};
use rand::RngCore;
use std::num::NonZero;
use std::sync::mpsc;
use std::thread;

/// Runs `run(0)` to `run(count - 1)` on this many threads. Returns the results in the order of their numbers. `done`
/// gets the number of completed runs, on the calling thread, for a progress bar.
///
/// The last run starts first: sweeps go from low loads to high loads, and a long run at the end would leave the other
/// threads idle.
///
/// # Panics
/// When a run panics.
pub fn sweep<T: Send>(
    count: usize,
    threads: NonZero<usize>,
    run: impl Fn(usize) -> T + Sync,
    mut done: impl FnMut(usize),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    thread::scope(|scope| {
        for _ in 0..threads.get().min(count) {
            let (sender, next, run) = (sender.clone(), &next, &run);
            scope.spawn(move || {
                loop {
                    let started = next.fetch_add(1, Ordering::Relaxed);
                    let Some(index) = count.checked_sub(started + 1) else { break };
                    // The receiver is gone only when the calling thread panics.
                    if sender.send((index, run(index))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (over, (index, result)) in receiver.iter().enumerate() {
            results[index] = Some(result);
            done(over + 1);
        }
    });
    results.into_iter().map(|result| result.expect("a scope ends when all runs have, or panics")).collect()
}

/// Number of threads that the machine runs at the same time.
pub fn all_cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// Runs each of `parameters` this many times. `run` gets a parameter and a seed. Returns the results by parameter.
///
/// Replication i has the same seed for every parameter (common random numbers). Two parameters thus have the same
/// arrivals and can be compared by [`paired`](super::paired) differences.
pub fn replicate<P: Sync, T: Send>(
    parameters: &[P],
    replications: usize,
    seed: u64,
    threads: NonZero<usize>,
    run: impl Fn(&P, u64) -> T + Sync,
    done: impl FnMut(usize),
) -> Vec<Vec<T>> {
    let seeds: Vec<u64> = (0..replications).map(|replication| replication_seed(seed, replication)).collect();
    let count = parameters.len() * replications;
    let one = |index: usize| run(&parameters[index / replications], seeds[index % replications]);
    let mut results = sweep(count, threads, one, done).into_iter();
    parameters.iter().map(|_| results.by_ref().take(replications).collect()).collect()
}

/// Seed of a replication, to repeat it alone.
pub fn replication_seed(seed: u64, replication: usize) -> u64 {
    Rng::from_seed(seed).fork(&format!("replication {replication}")).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    fn threads(n: usize) -> NonZero<usize> {
        NonZero::new(n).unwrap()
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let run = |&parameter: &u64, seed: u64| (parameter, seed);
        let mut progress = Vec::new();
        let one = replicate(&[10, 20, 30], 4, 7, threads(1), run, |over| progress.push(over));
        assert_eq!(progress, (1..=12).collect::<Vec<_>>());
        assert_eq!(one, replicate(&[10, 20, 30], 4, 7, threads(5), run, |_| {}));
        assert_eq!(one[1][2], (20, replication_seed(7, 2)));
        // Common random numbers for all parameters, but different numbers in each replication.
        assert_eq!(one[0][3].1, one[2][3].1);
        assert_ne!(one[0][0].1, one[0][1].1);
    }

    #[test]
    fn a_run_that_ends_late_keeps_its_place() {
        // Run 2 starts first. The second thread takes run 0 after it has sent the result of run 1, and only then may
        // run 2 end.
        let is_last_begun = AtomicBool::new(false);
        let run = |index| {
            is_last_begun.fetch_or(index == 0, Ordering::Relaxed);
            while index == 2 && !is_last_begun.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            index
        };
        assert_eq!(sweep(3, threads(2), run, |_| {}), [0, 1, 2]);
    }

    #[test]
    fn nothing_to_run_is_an_empty_result() {
        assert!(sweep(0, threads(3), |index| index, |_| panic!("nothing is over")).is_empty());
        assert_eq!(
            replicate(&[1, 2], 0, 7, threads(3), |_, seed| seed, |_| {}),
            [Vec::<u64>::new(), Vec::new()]
        );
    }
}
