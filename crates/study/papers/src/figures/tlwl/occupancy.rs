//! Distributions of occupancy: the number of transactions that an arriving one meets at its server.

use super::cluster::{self, POLICIES, SERVERS};
use super::response::capital;
use super::runs::{HIGH, Runs, SETTINGS, Setting};
use crate::figures::FigureRun;
use crate::report::{Axis, Figure, Plot, PlotSeries, Statement};

/// Share of the transactions below which a curve ends, because the samples are too few.
const RAREST: f64 = 1e-4;
/// Approximate number of points of a curve.
const POINTS: f64 = 30.0;

/// Returns the probability of meeting more than each number of transactions.
fn tail(met: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let all: u64 = met.iter().map(|(_, count)| count).sum();
    let mut above = all;
    let mut points = Vec::new();
    for (value, count) in met {
        above -= count;
        let part = above as f64 / all as f64;
        if part < RAREST {
            break;
        }
        points.push((*value as f64 + 1.0, part));
    }
    thinned(points)
}

/// Selects points with a minimum distance on a logarithmic axis, and the last one. The points must be in order of x.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let Some((&first, &last)) = points.first().zip(points.last()) else { return points };
    let apart = (last.0 / first.0).powf(1.0 / POINTS);
    let mut next = first.0;
    let mut kept: Vec<(f64, f64)> = points
        .into_iter()
        .filter(|point| {
            let keep = point.0 >= next;
            if keep {
                next = point.0 * apart;
            }
            keep
        })
        .collect();
    if kept.last() != Some(&last) {
        kept.push(last);
    }
    kept
}

/// Returns the number of transactions that this share of the arrivals does not exceed.
fn percentile(met: &[(u64, u64)], part: f64) -> u64 {
    let all: u64 = met.iter().map(|(_, count)| count).sum();
    let mut below = 0;
    for (value, count) in met {
        below += count;
        if below as f64 >= part * all as f64 {
            return *value;
        }
    }
    0
}

fn mean(met: &[(u64, u64)]) -> f64 {
    let all: u64 = met.iter().map(|(_, count)| count).sum();
    met.iter().map(|(value, count)| (value * count) as f64).sum::<f64>() / all.max(1) as f64
}

/// Pearson's correlation of pairs.
fn correlation<const N: usize>(pairs: &[(f64, f64); N]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / N as f64;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|pair| of(pair.0 - x, pair.1 - y)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

fn plot(runs: &Runs, setting: Setting) -> Plot {
    let x = Axis::log("transactions n at the server");
    let y = Axis::log("part of arrivals that meet n or more").from_to(RAREST, 1.0);
    let line = |policy: &&str| PlotSeries::line(*policy, tail(&runs.at(setting, policy, HIGH).occupancy));
    let title = format!("{}, {HIGH:.0} calls/s", capital(&setting.name()));
    Plot::of(title, x, y, setting.policies().iter().map(line))
}

fn claims(runs: &Runs, at: usize) -> Vec<Statement> {
    let setting = SETTINGS[at];
    let of = |policy: &str| &runs.at(setting, policy, HIGH).occupancy;
    let listed = |policies: &[&str], part| {
        let one = |policy: &&str| format!("{policy} {}", percentile(of(policy), part));
        format!(
            "{}, percentile {:.1}: {}.",
            capital(setting.servers.name()),
            100.0 * part,
            policies.iter().map(one).collect::<Vec<_>>().join(", ")
        )
    };
    let balanced = ["tjsq", "tlwl-1.75", "tlwl-2"].map(|policy| percentile(of(policy), 0.999));
    let naive = ["round-robin", "hash", "fnv-hash", "cjsq"].map(|policy| percentile(of(policy), 0.999));
    let tails = naive.iter().min() > balanced.iter().max();
    // Orders of the policies by mean occupancy, and by response time.
    let order = |key: &dyn Fn(&str) -> f64| {
        let mut policies = POLICIES;
        policies.sort_by(|a, b| key(a).total_cmp(&key(b)));
        policies
    };
    let response = |policy: &str| runs.at(setting, policy, HIGH).response[0].interval().mean;
    let by_occupancy = order(&|policy| mean(of(policy)));
    let by_response = order(&response);
    let correlation = correlation(&POLICIES.map(|policy| (mean(of(policy)).ln(), response(policy).ln())));
    claims! {
        "section I", "Naive approaches cause imbalances: their distributions of occupancy have long tails.",
            ["{}", listed(&["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl-1.75"], 0.999)],
            tails, about(at);
        "section V", "TLWL and TJSQ balance the distributions of occupancy across the cluster.",
            ["{}",
             listed(&["tjsq", "tlwl-1.75", "tlwl-2", "hash"], 0.5) + " " + &listed(&["tjsq", "tlwl-1.75", "tlwl-2", "hash"], 0.99)],
            ["tjsq", "tlwl-1.75", "tlwl-2"]
                .iter()
                .all(|policy| percentile(of(policy), 0.99) < percentile(of("hash"), 0.99)), about(at);
        "section I", "Occupancy decides response times.",
            ["{}: order by mean occupancy: {}; by mean response time of INVITE: {}; correlation of the logarithms \
             {correlation:.3} (the check requires 0.9).", capital(setting.servers.name()), by_occupancy.join(", "),
             by_response.join(", ")],
            correlation >= 0.9, about(at);
    }
}

pub(in crate::figures) fn occupancy(work: &FigureRun<'_>) -> Figure {
    let runs = Runs::of(work);
    let mut figure = work.figure(SETTINGS.map(|setting| plot(runs, setting)).into());
    figure.claims = [claims(runs, 0), claims(runs, 1)].concat();
    figure.assumptions = cluster::assumptions(work);
    figure.assumptions.push(format!(
        "Occupancy is what the balancer counts: transactions of a server that were begun and not answered when another \
         one, INVITE or BYE, is sent to it; all {SERVERS} servers together, warm-up included."
    ));
    figure.notes = vec![format!(
        "Curves end where fewer than {RAREST} of the arrivals are left, and show about {POINTS} points of all."
    )];
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_what_lies_above() {
        let met = [(0, 50), (1, 30), (4, 20)];
        assert_eq!(tail(&met), [(1.0, 0.5), (2.0, 0.2)]);
        assert_eq!([0.5, 0.51, 0.8, 0.81].map(|part| percentile(&met, part)), [0, 1, 1, 4]);
        assert!((mean(&met) - 1.1).abs() < 1e-12);
    }

    #[test]
    fn what_lies_on_a_line_is_correlated() {
        assert!((correlation(&[(0.0, 3.0), (1.0, 5.0), (4.0, 11.0)]) - 1.0).abs() < 1e-12);
        assert!((correlation(&[(0.0, 3.0), (1.0, 1.0), (2.0, -1.0)]) + 1.0).abs() < 1e-12);
        assert!(correlation(&[(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)]).abs() < 1e-12);
    }

    #[test]
    fn few_points_of_a_long_curve_are_kept_but_both_ends_are() {
        let kept = thinned((1..=1_000).map(|n| (f64::from(n), 0.0)).collect());
        assert!((20..=40).contains(&kept.len()), "{}", kept.len());
        assert!((kept[0].0, kept[kept.len() - 1].0) == (1.0, 1_000.0));
    }
}
