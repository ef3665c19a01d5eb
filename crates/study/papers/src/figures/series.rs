//! Converts quantities over time from results into curves and numbers.

use super::topology::at;
use crate::report::{Axis, Plot, PlotSeries, Style};
use base::Instant;
use sim::model::{HostResults, StreamResults};
use sim::stats::Series;

/// A plot over time with a mark at each change of the load.
pub(super) fn plot(title: &str, quantity: &str, changes: &[(u64, &str)]) -> Plot {
    let mut plot = Plot::new(title, Axis::linear("time (s)"), Axis::linear(quantity));
    for &(second, label) in changes {
        plot.mark(label, second as f64);
    }
    plot
}

/// Returns a curve of a count per second.
pub(super) fn steps(name: &str, series: &Series) -> PlotSeries {
    PlotSeries::new(name, Style::Step, sum([series]))
}

/// Returns points `(seconds, value)` of the sum of several series whose bins start at the same instants.
pub(super) fn sum<'a>(series: impl IntoIterator<Item = &'a Series>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for rates in series {
        for (bin, (begin, rate)) in rates.rates().enumerate() {
            match points.get_mut(bin) {
                Some(point) => point.1 += rate,
                None => points.push((seconds(begin), rate)),
            }
        }
    }
    points
}

/// Adds the calls answered after their callers had given up, if there are any: they do not count as goodput.
pub(super) fn late(plot: &mut Plot, name: &str, streams: &[StreamResults]) {
    let late = sum(streams.iter().map(|stream| &stream.late));
    if !late.is_empty() {
        plot.series(PlotSeries::new(name, Style::Step, late));
    }
}

/// Returns points `(seconds, mean)` of several hosts' utilisation.
pub(super) fn utilisation(hosts: &[HostResults]) -> Vec<(f64, f64)> {
    let bins = hosts.iter().map(|host| host.utilisation.len()).min().unwrap_or(0);
    let point = |bin: usize| {
        let total: f64 = hosts.iter().map(|host| host.utilisation[bin].1).sum();
        (seconds(hosts[0].utilisation[bin].0), total / hosts.len() as f64)
    };
    (0..bins).map(point).collect()
}

/// Mean of the points between two times in seconds; NaN if there are none.
pub(super) fn mean(points: &[(f64, f64)], from: u64, to: u64) -> f64 {
    let within: Vec<f64> =
        points.iter().filter(|p| p.0 > from as f64 && p.0 <= to as f64).map(|p| p.1).collect();
    within.iter().sum::<f64>() / within.len() as f64
}

/// Calls per second that several streams completed between two times in seconds.
pub(super) fn goodput(streams: &[StreamResults], from: u64, to: u64) -> f64 {
    streams.iter().map(|stream| stream.completed.rate(at(from), at(to))).sum()
}

fn seconds(instant: Instant) -> f64 {
    (instant - Instant::ZERO).as_secs_f64()
}
