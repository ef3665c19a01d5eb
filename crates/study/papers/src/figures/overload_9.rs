//! 503 with Retry-After: an on/off control that oscillates.

use super::topology::{CORES, EDGES, core, steps};
use super::{FigureRun, series};
use crate::report::{Axis, Figure, PlotSeries, Statement, Style};
use config::scenario::{Group, ScenarioLocal};
use core::time::Duration;
use overload::RejectAt;
use overload::retry_after::During;
use sim::model::{self, RunResults};
use sim::stats::sweep;

/// Calls per second in each phase: below the capacity of both core servers, above it, and below it again.
const LOADS: [f64; 3] = [200.0, 320.0, 200.0];
/// Capacities of the core servers, and of each edge server.
const CORE_CAPACITIES: [f64; 2] = [120.0, 160.0];
const EDGE_CAPACITY: f64 = 480.0;
/// Utilisation in one second from which a server counts as busy for the whole second.
const FULL: f64 = 0.99;

/// Seconds at which the load changes, and the end.
#[derive(Clone, Copy)]
struct Times {
    overload: u64,
    relief: u64,
    end: u64,
}

impl Times {
    /// The overload without its beginning.
    fn window(self) -> (u64, u64) {
        (self.overload + (self.relief - self.overload) / 3, self.relief)
    }
}

fn simulate(times: Times, pause: Duration, seed: u64) -> RunResults {
    let mut scenario = core(times.end);
    scenario.groups = vec![
        Group::proxies("edge", EDGES, EDGE_CAPACITY),
        Group { capacities: CORE_CAPACITIES.to_vec(), ..Group::proxies("core", CORES, 0.0) },
    ];
    for group in &mut scenario.groups {
        let overload = &mut group.overload;
        overload.local = ScenarioLocal::BangBang;
        overload.retry_after = Some(pause);
        overload.during_pause = During::Ignore;
        overload.retry = true;
        overload.reject = RejectAt::Service;
        overload.stateful = true;
    }
    let at = [0, times.overload, times.relief];
    scenario.streams[0].load = steps(&core::array::from_fn::<_, 3, _>(|index| (at[index], LOADS[index])));
    scenario.run.bin = Duration::from_secs(1);
    model::run(&scenario, seed)
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let (overload, relief, end) = work.scale((500, 1_000, 1_500), (300, 600, 700), (20, 50, 60));
    let times = Times { overload, relief, end };
    let pauses = [10, 1].map(Duration::from_secs);
    let seed = sweep::replication_seed(work.seed, 0);
    let one = |run: usize| simulate(times, pauses[run], seed);
    let results = work.sweep("Retry-After", pauses.len(), one);
    let (ten, short) = (&results[0], &results[1]);

    let labels = [(overload, "overload begins"), (relief, "it ends")];
    let mut goodput = series::plot("Offered load and goodput, Retry-After of 10 s", "calls/s", &labels);
    let offered = series::sum([&ten.streams[0].offered]);
    goodput.series(PlotSeries::new("offered load", Style::Law, smooth(&offered)));
    goodput.series(PlotSeries::new("goodput", Style::Step, smooth(&completed(ten))));
    series::late(&mut goodput, "answered late", &ten.streams);
    let mut utilisation =
        series::plot("Utilisation of the core servers for 100 s of the overload", "utilisation", &[]);
    let from = times.window().0 as f64;
    utilisation.x = Axis::linear("time (s)").from_to(from, from + 100.0);
    for (name, host) in [("core server 1", core_host(0)), ("core server 2", core_host(1))] {
        let points = series::utilisation(&ten.hosts[host..=host]);
        let within = points.into_iter().filter(|point| (from..=from + 100.0).contains(&point.0));
        utilisation.series(PlotSeries::new(name, Style::Step, within));
    }
    let mut figure = work.figure(vec![goodput, utilisation]);
    figure.claims = goodput_claims(ten, short, times);
    figure.claims.extend(core_claims(ten, times));
    figure.assumptions = assumptions();
    figure.notes = vec![
        "One run; plot (a) in means of 10 s, plot (b) in those of 1 s. Both core servers together carry 245 calls/s of \
         7 messages each, but 214 evenly split."
            .into(),
        "Where every 503 that comes in prolongs the pause, as RFC 3261 section 21.5.4 has it, the period is 14 to 20 s \
         instead: a server refuses the repetitions of INVITEs that it was sent before the pause, one by one."
            .into(),
    ];
    figure
}

fn assumptions() -> Vec<String> {
    vec![
        "The paper shows the load in its plot only. Here: 200, 320 and 200 calls/s.".into(),
        "A pause lasts as long as the first 503 says: one that comes in the meantime, for an INVITE from before, does \
         not prolong it."
            .into(),
        "Early and stateless rejection come into the paper with section VI; here a request is rejected when its turn \
         comes, through a transaction, for the price of any message, 1 ms."
            .into(),
        "In a pause no new call goes to that server; requests of calls that it has already still do, and what was sent \
         to it before is repeated. A call for which both servers pause is answered 500 for the price of a message."
            .into(),
        "Every server may send 503, but only core servers come near the watermarks 800 and 600. A user agent whose \
         call is refused gives it up."
            .into(),
        "M = 4 edge servers, which choose a core server at random.".into(),
    ]
}

fn core_host(index: usize) -> usize {
    usize::from(EDGES) + index
}

fn completed(results: &RunResults) -> Vec<(f64, f64)> {
    series::sum([&results.streams[0].completed])
}

/// Returns the means of ten bins each.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean =
        |bins: &[(f64, f64)]| (bins[0].0, bins.iter().map(|bin| bin.1).sum::<f64>() / bins.len() as f64);
    points.chunks(10).map(mean).collect()
}

/// Returns the period of a quantity in bins, and its autocorrelation there, -1 to 1. The period is the best lag beyond
/// the first dip of the autocorrelation, and the first of its equally good multiples.
fn period(values: &[f64]) -> (usize, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let product =
        |lag: usize| -> f64 { values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let power = product(0);
    let correlations: Vec<(usize, f64)> =
        (1..values.len() / 4).map(|lag| (lag, product(lag) / power)).collect();
    let beyond: Vec<_> = correlations.into_iter().skip_while(|lag| lag.1 > 0.0).collect();
    let most = beyond.iter().fold(-1.0, |most: f64, lag| most.max(lag.1));
    let rises = beyond.iter().skip_while(|lag| lag.1 < 0.8 * most);
    let peak = rises.take_while(|lag| lag.1 >= 0.8 * most);
    peak.fold((0, -1.0), |best, &each| if each.1 > best.1 { each } else { best })
}

/// Returns the utilisation of a core server in each second of the overload.
fn seconds(results: &RunResults, core: usize, times: Times) -> Vec<f64> {
    let (from, to) = times.window();
    let points = series::utilisation(&results.hosts[core_host(core)..=core_host(core)]);
    points.into_iter().filter(|p| p.0 > from as f64 && p.0 <= to as f64).map(|p| p.1).collect()
}

/// Returns the lengths in seconds of the periods in which a server was busy without a break.
fn stretches(seconds: &[f64]) -> Vec<f64> {
    let runs = seconds.split(|&busy| busy < FULL).filter(|run| !run.is_empty());
    runs.map(|run| run.len() as f64).collect()
}

fn longest(stretches: &[f64]) -> f64 {
    stretches.iter().fold(0.0, |most, &length| most.max(length))
}

/// Returns the smallest and the largest value.
fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((1.0, 0.0), |(low, high): (f64, f64), &value| (low.min(value), high.max(value)))
}

fn goodput_claims(ten: &RunResults, short: &RunResults, times: Times) -> Vec<Statement> {
    let (from, to) = times.window();
    let before = series::goodput(&ten.streams, times.overload / 2, times.overload);
    let [during, shortest] = [ten, short].map(|run| series::goodput(&run.streams, from, to));
    let (low, high) = ends(&seconds(short, 1, times));
    claims! {
        "section V-C", "With Retry-After the goodput collapses during overload.",
            ["{before:.0} calls/s with 200 offered, {during:.0} with 320."],
            during < 0.5 * before;
        "section V-C", "The goodput also collapses with the shortest Retry-After, 1 s.",
            ["{shortest:.0} calls/s with 320 offered."],
            shortest < 0.5 * before;
        "section V-C", "Core server 2 also oscillates with the shortest Retry-After, 1 s.",
            ["Utilisation between {low:.2} and {high:.2}."],
            high - low > 0.5,
            differs_by("A full buffer of 1000 messages takes a second, as long as the pause. So the server is never \
             idle.");
    }
}

fn core_claims(ten: &RunResults, times: Times) -> Vec<Statement> {
    let [first, second] = [0, 1].map(|core| seconds(ten, core, times));
    let (lag, likeness) = period(&second);
    let (low, high) = ends(&second);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let [longs, shorts] = [&first, &second].map(|seconds| stretches(seconds));
    let overloaded =
        "The slower core server 1 has a severe overload and does not recover during Retry-After.";
    let measured = format!(
        "Busy {:.0} % of the time, core server 2 {:.0} %; without a break for {:.1} s on average and {:.0} s at most, \
         core server 2 for {:.1} and {:.0} s.",
        100.0 * mean(&first),
        100.0 * mean(&second),
        mean(&longs),
        longest(&longs),
        mean(&shorts),
        longest(&shorts)
    );
    claims! {
        "section V-C", "Core server 2 oscillates at a period of about 10 s.",
            ["Utilisation between {low:.2} and {high:.2}, with a period of {lag} s (autocorrelation \
             {likeness:.2})."],
            (9..=11).contains(&lag) && likeness > 0.5 && high - low > 0.5, differs_by(LONGER), about(1);
        "section V-C", overloaded,
            ["{}", measured],
            mean(&first) > 0.9, differs_by(WHY), about(1);
    }
}

/// Cause: the period is longer.
const LONGER: &str = "A period is the pause of 10 s, and the time to fill and empty the buffer, which the paper does \
 not mention.";
/// Cause: core server 1 recovers here.
const WHY: &str = "The backlog of a burst is processed before the pause ends. The simulated servers follow RFC 6026 \
 and absorb an INVITE that is repeated after the 200. Under RFC 3261 alone it starts a new transaction, which core \
 server 1 must process.";

#[cfg(test)]
mod tests {
    use super::{longest, period, stretches};

    #[test]
    fn the_period_of_a_wave_is_found() {
        let wave: Vec<f64> = (0..200).map(|second| f64::from(second % 11 < 4)).collect();
        assert_eq!(period(&wave).0, 11);
    }

    #[test]
    fn stretches_end_with_the_first_second_that_is_not_full() {
        assert_eq!(stretches(&[0.2, 1.0, 1.0, 0.9, 0.1, 0.995, 0.0, 1.0]).len(), 3);
        assert!(longest(&stretches(&[1.0, 0.3, 1.0, 1.0])) > 1.9);
    }
}
