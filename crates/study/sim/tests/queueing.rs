//! The engine against queueing theory, beyond the means of M/M/1, M/D/1 and two priorities, which are a figure of the
//! crate `papers`.
//!
//! Each test simulates a queue of known distribution at several loads, with fixed seeds, in replications whose first
//! part is discarded. It compares the exact value with the 99.9 % confidence interval (Student's t over the
//! replications). The intervals must also be narrow, so that a wide interval cannot hide a wrong model. Times are in
//! units of the mean service time (one second of simulated time).

use crate::model::{Class, Outcome, Queue, SECOND};
use sim::engine::{QuantileTable, TimeSpread};
use sim::stats::{Confidence, Interval, Moments};

const REPLICATIONS: u64 = 12;

/// Returns the replications of a queue.
fn simulated(queue: &Queue) -> Vec<Outcome> {
    (0..REPLICATIONS).map(|seed| queue.run(seed)).collect()
}

/// Returns the interval of a measure that is taken from each replication.
fn interval(runs: &[Outcome], measure: impl Fn(&Outcome) -> f64) -> Interval {
    Interval::of(&runs.iter().map(measure).collect::<Moments>(), Confidence::P999)
}

/// Returns the mean wait of the only class of jobs.
fn mean_wait(queue: &Queue) -> Interval {
    interval(&simulated(queue), |run| run.wait[0].mean())
}

/// Checks that an interval contains the exact value, and that its half width is at most `width` relative to its mean.
fn agrees(name: &str, interval: Interval, exact: f64, width: f64) {
    println!("{name}: exact {exact:.4}, simulated {interval}");
    assert!(interval.contains(exact), "{name}: {exact} is not within {interval}");
    assert!(!interval.too_wide(width), "{name}: {interval} is wider than {width}");
}

/// Returns a queue with one class of jobs, at a load of 0 to 1 per worker.
fn single(load: f64, spread: TimeSpread, workers: usize) -> Queue {
    let class = Class { rate: load * workers as f64, mean: SECOND };
    Queue { classes: vec![class], spread, workers, jobs: if load > 0.85 { 80_000 } else { 30_000 } }
}

/// Mean wait of M/G/1 by Pollaczek and Khinchine: W = λ E[S²] / (2 (1 - ρ)).
fn pollaczek_khinchine(load: f64, second_moment: f64) -> f64 {
    load * second_moment / (2.0 * (1.0 - load))
}

#[test]
fn wait_of_m_m_1_is_distributed_as_it_should() {
    let load: f64 = 0.7;
    let runs = simulated(&single(load, TimeSpread::Exponential, 1));
    for at in [0.0, 1.0, 3.0, 8.0] {
        // P(W > t) = ρ exp(-(1 - ρ) t): no wait at all with probability 1 - ρ.
        let exact = load * f64::exp(-(1.0 - load) * at);
        let longer = |run: &Outcome| {
            let longer = run.waits.iter().filter(|&&wait| wait > at).count();
            longer as f64 / run.waits.len() as f64
        };
        agrees(&format!("M/M/1, longer than {at}"), interval(&runs, longer), exact, 0.2);
    }
}

/// A distribution in two parts: three quarters of the services uniformly distributed from 0 to 1, the rest from 1 to 4,
/// scaled to mean 1 by the table.
fn measured() -> (TimeSpread, f64) {
    let quantiles = [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 4.0];
    // A quarter of the services is uniform between each pair: mean (a + b) / 2, mean square (a² + ab + b²) / 3.
    let pairs = || quantiles.windows(2).map(|pair| (pair[0], pair[1]));
    let mean = pairs().map(|(a, b)| (a + b) / 8.0).sum::<f64>();
    let square = pairs().map(|(a, b)| (a * a + a * b + b * b) / 12.0).sum::<f64>();
    (TimeSpread::Measured(QuantileTable::new(&quantiles)), square / (mean * mean))
}

#[test]
fn mean_wait_of_m_g_1_with_a_measured_law() {
    let (spread, second_moment) = measured();
    for load in [0.4, 0.8] {
        let exact = pollaczek_khinchine(load, second_moment);
        let interval = mean_wait(&single(load, spread.clone(), 1));
        agrees(&format!("M/G/1 at {load}"), interval, exact, 0.12);
    }
}

/// Mean waits with non-preemptive priorities (Cobham, Operations Research 2, 1954):
/// `W_p = W_0 / ((1 - σ_{p-1}) (1 - σ_p))`, where `W_0 = Σ λ_i E[S_i²] / 2` and `σ_p = Σ_{i ≤ p} ρ_i`.
/// `scatter` is E[S²] / E[S]² of each class.
fn cobham(classes: &[Class], scatter: f64) -> Vec<f64> {
    let mean = |class: &Class| class.mean.as_secs_f64();
    let residual: f64 = classes.iter().map(|c| c.rate * scatter * mean(c) * mean(c) / 2.0).sum();
    let mut above = 0.0;
    let waits = classes.iter().map(|class| {
        let upto = above + class.rate * mean(class);
        let wait = residual / ((1.0 - above) * (1.0 - upto));
        above = upto;
        wait
    });
    waits.collect()
}

fn priorities_agree(name: &str, classes: &[Class], spread: &TimeSpread, scatter: f64) {
    let queue = Queue { classes: classes.to_vec(), spread: spread.clone(), workers: 1, jobs: 50_000 };
    let runs = simulated(&queue);
    for (index, exact) in cobham(classes, scatter).into_iter().enumerate() {
        let waits = interval(&runs, |run| run.wait[index].mean());
        agrees(&format!("{name}, priority {}", index + 1), waits, exact, 0.15);
    }
}

#[test]
fn mean_waits_of_three_priorities() {
    for scale in [0.5, 0.8] {
        let timers = Class { rate: 0.4 * scale, mean: SECOND / 2 };
        let rejections = Class { rate: 1.2 * scale, mean: SECOND / 6 };
        let messages = Class { rate: 0.6 * scale, mean: SECOND };
        let (measured, scatter) = measured();
        let classes = [timers, rejections, messages];
        priorities_agree("fixed", &classes, &TimeSpread::Fixed, 1.0);
        priorities_agree("measured", &classes, &measured, scatter);
    }
}

/// Mean wait of M/M/k by Erlang's C: with a = kρ, P(wait) = C and W = C / (k - a), in service times.
fn erlang_c(load: f64, workers: usize) -> f64 {
    let offered = load * workers as f64;
    // Erlang B by its recursion B(n) = a B(n-1) / (n + a B(n-1)), then C = B / (1 - ρ (1 - B)).
    let blocked = (1..=workers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    waits / (workers as f64 - offered)
}

#[test]
fn mean_wait_of_m_m_k() {
    for (workers, load) in [(2, 0.5), (2, 0.9), (4, 0.7), (8, 0.8)] {
        let interval = mean_wait(&single(load, TimeSpread::Exponential, workers));
        agrees(&format!("M/M/{workers} at {load}"), interval, erlang_c(load, workers), 0.2);
    }
}

#[test]
fn utilisation_is_the_load() {
    for (workers, load) in [(1, 0.3), (1, 0.9), (4, 0.7)] {
        let runs = simulated(&single(load, TimeSpread::Exponential, workers));
        agrees(&format!("utilisation of {workers}"), interval(&runs, |run| run.utilisation), load, 0.03);
    }
}
