//! Varies the conditions with pausing servers: the length of pauses, and the cost of a retransmitted request.

use super::cluster::{Case, POLICIES, Servers};
use super::runs::HIGH;
use crate::figures::{FigureOptions, FigureRun};
use crate::report::{Axis, Plot, PlotSeries, Statement};
use core::time::Duration;

/// Half of the capacity: a moderate load.
const LOAD: f64 = 1_200.0;
/// Policy that the others are compared with.
const BASE: &str = "tlwl-1.75";
/// The other policies; fnv-hash behaves like hash.
const VARIED: [&str; 4] = ["round-robin", "hash", "cjsq", "rwma"];
/// "An order of magnitude", and two of them.
const MAGNITUDE: f64 = 10.0;
const TWO_MAGNITUDES: f64 = 100.0;

/// Plots with their claims and notes; claims count plots from the first of these.
pub(super) struct Varied {
    pub(super) plots: Vec<Plot>,
    pub(super) claims: Vec<Statement>,
    pub(super) notes: Vec<String>,
}

/// Response times of the policies at several values of a condition.
struct Times {
    values: Vec<f64>,
    /// Times of [`BASE`], in ms.
    base: Vec<f64>,
    /// Times of each other policy, as multiples of [`BASE`]'s.
    others: Vec<Vec<f64>>,
}

impl Times {
    fn of(
        work: &FigureRun<'_>,
        what: &str,
        values: Vec<f64>,
        case: impl Fn(&'static str, f64) -> Case,
    ) -> Self {
        let policies = core::iter::once(BASE).chain(VARIED);
        let cases: Vec<Case> = policies
            .flat_map(|policy| values.iter().map(|&value| case(policy, value)).collect::<Vec<_>>())
            .collect();
        let outcomes = work.each(what, &cases, Case::run);
        let means: Vec<f64> = outcomes.iter().map(|outcome| outcome.response[0].interval().mean).collect();
        let (base, others) = means.split_at(values.len());
        let times = |means: &[f64]| means.iter().zip(base).map(|(mean, base)| mean / base).collect();
        Self { others: others.chunks(values.len()).map(times).collect(), base: base.to_vec(), values }
    }

    fn plot(&self, title: String, x: Axis, (label, level): (&str, f64)) -> Plot {
        let y = Axis::log(format!("times the INVITE response time of {BASE}"));
        let line = |(policy, times): (&str, &Vec<f64>)| {
            let points = self.values.iter().copied().zip(times.iter().copied());
            let colour = POLICIES.iter().position(|of| *of == policy).unwrap_or(0);
            PlotSeries::line(policy, points).colour(colour)
        };
        let mut plot = Plot::of(title, x, y, VARIED.into_iter().zip(&self.others).map(line));
        plot.level(label, level);
        plot
    }

    /// Returns as text the value from which each policy takes `level` times as long, and whether all have one.
    fn from(&self, level: f64, value: impl Fn(f64) -> String) -> (String, bool) {
        let mut all = true;
        let listed = VARIED.into_iter().zip(&self.others).map(|(policy, times)| {
            let from = self.values.iter().copied().zip(times).find(|(_, times)| **times >= level);
            all &= from.is_some();
            match from {
                Some((from, times)) => format!("{policy} from {} on ({times:.1} times)", value(from)),
                None => format!("{policy} not up to {}", value(self.values[self.values.len() - 1])),
            }
        });
        let listed: Vec<String> = listed.collect();
        (listed.join(", "), all)
    }

    /// Returns as text the ratio of each policy at one of the values.
    fn at(&self, value: usize) -> String {
        let one = |(policy, times): (&str, &Vec<f64>)| format!("{policy} {:.0}", times[value]);
        VARIED.into_iter().zip(&self.others).map(one).collect::<Vec<_>>().join(", ")
    }
}

fn lengths(options: &FigureOptions) -> Vec<f64> {
    options.scale(vec![0.1, 0.2, 0.5, 1.0, 2.0], vec![0.2, 0.5, 1.0], vec![0.5])
}

/// Cost of a retransmission relative to the first copy: nothing (absorbed), the look-up of its transaction, or all.
fn prices(options: &FigureOptions) -> Vec<f64> {
    options.scale(vec![0.0, 0.1, 0.25, 0.5, 1.0], vec![0.0, 0.25, 1.0], vec![0.0, 1.0])
}

/// Plots each policy's INVITE response time relative to TLWL's, against the length of pauses and cost of
/// retransmissions.
pub(super) fn vary(work: &FigureRun<'_>) -> Varied {
    let window = Duration::from_secs(work.scale(60, 25, 3));
    let by_length = |policy, seconds| {
        let servers = Servers::Pausing(Duration::from_secs_f64(seconds));
        Case { load: LOAD, window, ..Case::of(work, policy, servers) }
    };
    let lengths = Times::of(work, "lengths of pauses", lengths(work), by_length);
    let window = Duration::from_secs(work.scale(180, 25, 3));
    let by_price =
        |policy, repeat| Case { load: HIGH, window, repeat, ..Case::of(work, policy, Servers::PAUSING) };
    let prices = Times::of(work, "prices of repeats", prices(work), by_price);
    let (listed, all) = lengths.from(MAGNITUDE, |seconds| format!("{seconds} s"));
    let last = prices.values.len() - 1;
    let (listed_prices, all_prices) = prices.from(TWO_MAGNITUDES, |price| format!("a price of {price}"));
    Varied {
        plots: vec![
            lengths.plot(
                format!("Pausing servers, {LOAD:.0} calls/s, pauses of other lengths"),
                Axis::log("mean length of a pause (s)"),
                ("an order of magnitude", MAGNITUDE),
            ),
            prices.plot(
                format!("Pausing servers, {HIGH:.0} calls/s, requests that come again at other prices"),
                Axis::linear("work of a repeated request, as a share of the first"),
                ("two orders of magnitude", TWO_MAGNITUDES),
            ),
        ],
        claims: claims! {
            "section I", "With longer pauses TLWL is an order of magnitude faster than all others at moderate \
             loads.",
                ["At {LOAD:.0} calls/s {listed}. {BASE} takes {:.2} to {:.2} ms.", lengths.base[0],
                 lengths.base[lengths.base.len() - 1]],
                all;
            "section I", "With servers that process retransmissions in full the improvement at high loads is two \
             orders of magnitude.",
                ["At {HIGH:.0} calls/s {listed_prices}. In multiples of {BASE}, with free retransmissions ({:.1} ms): \
                 {}; with retransmissions in full ({:.1} ms): {}.", prices.base[0], prices.at(0),
                 prices.base[last], prices.at(last)],
                all_prices,
                differs_by("A paused server ends no calls, so CJSQ soon sends it no more."), about(1);
        },
        notes: vec![
            "How long servers pause, and how often, decides by how much policies differ: a policy that does not see the \
             pause makes a call wait for half of it, plus what has piled up. The last plot but one varies the length and \
             leaves the rest alone. A scenario sets both with `stalls`."
                .into(),
            "What a request costs that comes again decides whether a server catches up that stood still: at the full price \
             the INVITEs that waited for longer than T1 = 0.5 s are paid twice, and then those behind them wait as long. \
             The last plot varies it. A scenario sets it with `costs.repeat_work`."
                .into(),
        ],
    }
}
