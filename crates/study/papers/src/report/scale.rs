//! Ends and ticks of axes.

use super::{At, Axis, Plot, PlotSeries, Point, Scale};

/// Ends of an axis, and the distance of its ticks (`None` on a logarithmic axis).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Extent {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) step: Option<f64>,
}

impl Extent {
    /// Positions of the ticks. On a logarithmic axis: powers of ten, and 2 and 5 times these on a short one.
    pub(super) fn ticks(&self) -> Vec<f64> {
        // Tolerance for rounding errors.
        const NEAR: f64 = 1e-9;
        if let Some(step) = self.step {
            let (first, last) =
                ((self.low / step - NEAR).ceil() as i64, (self.high / step + NEAR).floor() as i64);
            return (first..=last).map(|times| times as f64 * step).collect();
        }
        let (first, last) =
            ((self.low.log10() + NEAR).floor() as i32, (self.high.log10() + NEAR).floor() as i32);
        let times: &[f64] = if last - first <= SHORT { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let ticks =
            (first..=last).flat_map(|power| times.iter().map(move |times| times * 10_f64.powi(power)));
        ticks.filter(|tick| *tick >= self.low * (1.0 - NEAR) && *tick <= self.high * (1.0 + NEAR)).collect()
    }
}

/// Maximum of powers of ten on a logarithmic axis that also has ticks between them.
const SHORT: i32 = 3;
/// Desired number of ticks; the steps 1, 2 and 5 result in 5 to 12.
const TICKS: f64 = 8.0;
/// Factor that keeps a curve at its maximum away from the frame.
const HEADROOM: f64 = 1.04;

/// Returns the horizontal extent: all points, the whole last steps, and vertical reference lines.
pub(super) fn horizontal(plot: &Plot) -> Extent {
    let marks = plot.references.iter().filter_map(|reference| match reference.at {
        At::X(x) => Some(x),
        At::Y(_) => None,
    });
    let points = plot.series.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ends = plot.series.iter().filter_map(PlotSeries::end);
    extent(&plot.x, 1.0, points.chain(ends).chain(marks))
}

/// Returns the vertical extent: the points within the horizontal one with their intervals, and horizontal references.
pub(super) fn vertical(plot: &Plot, x: Extent) -> Extent {
    let levels = plot.references.iter().filter_map(|reference| match reference.at {
        At::Y(y) => Some(y),
        At::X(_) => None,
    });
    let is_named = matches!(plot.x.scale, Scale::Names(_));
    let shown = |point: &&Point| is_named || (point.x >= x.low && point.x <= x.high);
    let points = plot.series.iter().flat_map(|series| &series.points).filter(shown).flat_map(|point| {
        let half_width = point.half_width.filter(|width| width.is_finite()).unwrap_or(0.0);
        [point.y - half_width, point.y, point.y + half_width]
    });
    let sums = plot.is_stacked.then(|| stacks(plot)).into_iter().flatten();
    extent(&plot.y, HEADROOM, points.chain(levels).chain(sums))
}

/// Returns the heights of stacked bars, by name.
fn stacks(plot: &Plot) -> Vec<f64> {
    let points = || plot.series.iter().flat_map(|series| &series.points).filter(|point| point.y.is_finite());
    let height = |x: usize| points().filter(|point| point.x as usize == x).map(|point| point.y).sum();
    let names = if let Scale::Names(names) = &plot.x.scale { names.len() } else { 0 };
    (0..names).map(height).collect()
}

/// Whether a value can be drawn on an axis of this scale.
pub(super) fn is_drawable(scale: &Scale, value: f64) -> bool {
    value.is_finite() && (*scale != Scale::Log || value > 0.0)
}

/// Returns the extent of an axis that reaches at least `room` times the highest value.
fn extent(axis: &Axis, room: f64, values: impl Iterator<Item = f64>) -> Extent {
    let found = values.filter(|&value| is_drawable(&axis.scale, value)).fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    });
    if axis.scale == Scale::Log {
        let (low, high) = axis.range.or(found).unwrap_or((1.0, 10.0));
        let (low, high) = if axis.range.is_some() { (low, high) } else { decades(low, high) };
        return Extent { low, high, step: None };
    }
    if let Some((low, high)) = axis.range {
        return Extent { low, high, step: Some(step(high - low)) };
    }
    let (low, high) = found.unwrap_or((0.0, 1.0));
    // A quantity that is never negative is shown from zero, so that ratios are visible.
    let low = if low > 0.0 { 0.0 } else { low };
    let step = step(high - low);
    // Whole steps, with tolerance for rounding errors: 1.1 / 0.1 is slightly more than 11.
    let out = |value: f64| (value / step - 1e-9).ceil() * step;
    let (low, high) = (-out(-low), out(room * high));
    Extent { low, high: if high > low { high } else { low + step }, step: Some(step) }
}

/// Returns 1, 2 or 5 times a power of ten, about an eighth of the span.
fn step(span: f64) -> f64 {
    let rough = if span > 0.0 { span / TICKS } else { 1.0 };
    let power = 10_f64.powf(rough.log10().floor());
    let times = match rough / power {
        ..1.5 => 1.0,
        ..3.5 => 2.0,
        ..7.5 => 5.0,
        _ => 10.0,
    };
    times * power
}

/// Returns the powers of ten around two values.
fn decades(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = ((low.log10() + 1e-9).floor(), (high.log10() - 1e-9).ceil());
    (10_f64.powf(low), 10_f64.powf(high.max(low + 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_ends(axis: &Axis, values: &[f64], low: f64, high: f64) {
        let found = extent(axis, 1.0, values.iter().copied());
        let misses = (found.low - low).abs().max((found.high - high).abs());
        assert!(misses < 1e-9 * high, "{found:?}");
    }

    #[test]
    fn an_axis_ends_at_whole_steps_around_the_data() {
        let linear = Axis::linear("x");
        assert_ends(&linear, &[100.0, 140.0], 0.0, 140.0);
        // Eleven steps of 0.1 and not twelve, although 1.1 / 0.1 is slightly more than 11.
        assert_ends(&linear, &[0.0, 1.1], 0.0, 1.1);
        assert_ends(&linear, &[-3.0, 61.0, f64::NAN], -10.0, 70.0);
        assert_ends(&linear, &[0.0], 0.0, 1.0);
        assert_ends(&linear, &[], 0.0, 1.0);
        assert_ends(&linear.from_to(3.0, 4.5), &[100.0], 3.0, 4.5);
    }

    #[test]
    fn a_logarithmic_axis_ends_at_powers_of_ten() {
        let log = Axis::log("y");
        assert_ends(&log, &[0.0, -1.0, 0.02, 350.0], 0.01, 1_000.0);
        assert_ends(&log, &[1.0, 100.0], 1.0, 100.0);
        assert_ends(&log, &[5.0], 1.0, 10.0);
    }

    #[test]
    fn ticks_are_between_the_ends() {
        let ticks = |axis: &Axis, values: &[f64]| {
            let ticks = extent(axis, 1.0, values.iter().copied()).ticks();
            ticks.iter().map(|tick| format!("{tick:.4}").parse().unwrap()).collect::<Vec<f64>>()
        };
        assert_eq!(ticks(&Axis::linear("x"), &[-0.4, 1.1]), [-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2]);
        assert_eq!(ticks(&Axis::linear("x").from_to(0.7, 4.2), &[]), [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]);
        assert_eq!(ticks(&Axis::log("y"), &[0.3, 7.0]), [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(&Axis::log("y"), &[0.3, 7e3]), [0.1, 1.0, 10.0, 100.0, 1e3, 1e4]);
        assert_eq!(ticks(&Axis::log("y"), &[0.1, 70.0]).len(), 10);
        assert_eq!(ticks(&Axis::log("y").from_to(3.0, 30.0), &[]), [5.0, 10.0, 20.0]);
    }

    #[test]
    fn what_a_fixed_horizontal_axis_hides_does_not_stretch_the_other() {
        let mut plot = Plot::new("t", Axis::linear("x").from_to(0.0, 10.0), Axis::linear("y"));
        plot.series(PlotSeries::new("s", super::super::Style::Line, [(5.0, 8.0), (20.0, 1e6)]));
        plot.level("capacity", 10.0);
        let extent = vertical(&plot, horizontal(&plot));
        assert!((10.4..12.0).contains(&extent.high), "{extent:?}");
    }
}
