//! 503 with Retry-After: an on/off switch that oscillates.

use super::topology::{CORES, EDGES, core, steps};
use super::{Entry, Options, Progress, series};
use crate::model::{self, Results};
use crate::report::{Claim, Figure, Series, Style};
use crate::stats::sweep;
use config::scenario::{Group, Local};
use core::time::Duration;

/// Goodput and utilisation over time where overloaded servers answer 503 with Retry-After.
pub(super) const OVERLOAD_9: Entry = Entry {
    name: "overload-9",
    title: "Overload control by 503 with Retry-After",
    source: "Overload paper, section V-C, figure 9",
    run,
};

/// Calls a second in each phase: below what both core servers carry, above it, below.
const LOADS: [f64; 3] = [200.0, 320.0, 200.0];
/// Capacities of the core servers, and of each edge server.
const CORE_CAPACITIES: [f64; 2] = [120.0, 160.0];
const EDGE_CAPACITY: f64 = 480.0;

fn simulate(phase: u64, pause: Duration, seed: u64) -> Results {
    let mut scenario = core(3 * phase);
    scenario.groups = vec![
        Group::proxies("edge", EDGES, EDGE_CAPACITY),
        Group { capacities: CORE_CAPACITIES.to_vec(), ..Group::proxies("core", CORES, 0.0) },
    ];
    for group in &mut scenario.groups {
        group.overload.local = Local::BangBang;
        group.overload.retry_after = Some(pause);
        group.overload.retry = true;
    }
    let load: Vec<_> = (0..).map(|index| index * phase).zip(LOADS).collect();
    scenario.streams[0].load = steps(&load);
    scenario.run.bin = Duration::from_secs(1);
    model::run(&scenario, seed)
}

fn run(options: &Options, progress: &dyn Fn(Progress<'_>)) -> Figure {
    let phase = options.pick(500, 300);
    let pauses = [10, 1].map(Duration::from_secs);
    let done = |done| progress(Progress { done, of: 2, what: "Retry-After" });
    let seed = sweep::replication_seed(options.seed, 0);
    let one = |run: usize| simulate(phase, pauses[run], seed);
    let results = sweep::sweep(pauses.len(), options.threads, one, done);
    let (ten, short) = (&results[0], &results[1]);

    let labels = [(phase, "overload begins"), (2 * phase, "it ends")];
    let mut goodput = series::plot("Offered load and goodput, Retry-After of 10 s", "calls/s", &labels);
    let offered = series::sum([&ten.streams[0].offered].into_iter());
    goodput.series(Series::new("offered load", Style::Law, smooth(&offered)));
    goodput.series(Series::new("goodput", Style::Step, smooth(&completed(ten))));
    let mut utilisation =
        series::plot("Utilisation of the core servers for 150 s of the overload", "utilisation", &[]);
    let window = (phase + phase / 2) as f64;
    for (name, host) in [("core server 1", core_host(0)), ("core server 2", core_host(1))] {
        let points = series::utilisation(&ten.hosts[host..=host]);
        let within = points.into_iter().filter(|point| (window..=window + 150.0).contains(&point.0));
        utilisation.series(Series::new(name, Style::Step, within));
    }
    let mut figure = options.figure(&OVERLOAD_9, vec![goodput, utilisation]);
    figure.claims = claims(ten, short, phase);
    figure.assumptions = vec![
        "The paper shows the load in its plot only. Here: 200, 320 and 200 calls/s, a third of the run each.".into(),
        "Every server, also those of the edge, answers new INVITEs with 503 and Retry-After between the watermarks \
         800 and 600. A user agent whose call is refused gives it up."
            .into(),
        "M = 4 edge servers, which choose a core server at random.".into(),
    ];
    figure.notes =
        vec![format!("Phases of {phase} s, one run; plot (a) in means of 10 s, plot (b) in those of 1 s.")];
    figure
}

fn core_host(index: usize) -> usize {
    usize::from(EDGES) + index
}

fn completed(results: &Results) -> Vec<(f64, f64)> {
    series::sum([&results.streams[0].completed].into_iter())
}

/// Means of ten bins each.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean =
        |bins: &[(f64, f64)]| (bins[0].0, bins.iter().map(|bin| bin.1).sum::<f64>() / bins.len() as f64);
    points.chunks(10).map(mean).collect()
}

/// The lag, in bins, at which a quantity is most like itself, of those beyond the first dip of its autocorrelation; and
/// how like, -1 to 1.
fn period(values: &[f64]) -> (usize, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let product =
        |lag: usize| -> f64 { values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let power = product(0);
    let correlations: Vec<(usize, f64)> =
        (1..values.len() / 4).map(|lag| (lag, product(lag) / power)).collect();
    let beyond = correlations.iter().skip_while(|lag| lag.1 > 0.0);
    beyond.fold((0, -1.0), |best, &each| if each.1 > best.1 { each } else { best })
}

fn claims(ten: &Results, short: &Results, phase: u64) -> Vec<Claim> {
    let (from, to) = (phase + phase / 2, 2 * phase);
    let goodput = |results: &Results, from, to| series::goodput(&results.streams, from, to);
    let (before, during) = (goodput(ten, phase / 2, phase), goodput(ten, from, to));
    let shortest = goodput(short, from, to);
    let points = |index| series::utilisation(&ten.hosts[core_host(index)..=core_host(index)]);
    let (first, second) = (points(0), points(1));
    let window: Vec<f64> =
        second.iter().filter(|p| p.0 > from as f64 && p.0 <= to as f64).map(|p| p.1).collect();
    let (lag, likeness) = period(&window);
    let (low, high) =
        window.iter().fold((1.0_f64, 0.0_f64), |(low, high), &value| (low.min(value), high.max(value)));
    let busy = series::mean(&first, from, to);
    vec![
        Claim::check(
            "section V-C",
            "This technique results in congestion collapse during overload: the goodput drops significantly.",
            format!("{before:.0} calls/s with 200 offered, {during:.0} with 320."),
            during < 0.5 * before,
        ),
        Claim::check(
            "section V-C",
            "The effects are the same with the shortest Retry-After, 1 s.",
            format!("{shortest:.0} calls/s with 320 offered."),
            shortest < 0.5 * before,
        ),
        Claim::check(
            "section V-C",
            "Core server 2 oscillates at a period of about 10 s.",
            format!(
                "Its utilisation goes between {low:.2} and {high:.2}, and is most like itself {lag} s later \
                 (autocorrelation {likeness:.2})."
            ),
            (8..=14).contains(&lag) && likeness > 0.2,
        )
        .about(1),
        Claim::check(
            "section V-C",
            "Core server 1, the slower one, is severely overloaded and cannot recover within the Retry-After.",
            format!("Its utilisation in the overload is {busy:.2}."),
            busy > 0.9,
        )
        .about(1),
    ]
}

#[cfg(test)]
mod tests {
    use super::period;

    #[test]
    fn the_period_of_a_wave_is_found() {
        let wave: Vec<f64> = (0..200).map(|second| f64::from(second % 11 < 4)).collect();
        assert_eq!(period(&wave).0, 11);
    }
}
