//! Draws series as curves with markers, intervals and bands, or as bars.

use super::axes::Axes;
use super::svg::{Spot, Stroke, Svg};
use super::{INK, REFERENCE_DASH};
use crate::report::scale::is_drawable;
use crate::report::{At, Plot, PlotSeries, Point, Scale, Style};

/// Okabe and Ito's colours, which are distinct for any colour vision. Yellow is too faint on white and replaced by
/// wine; a grey is added. The report's style sheet brightens some colours on a dark page.
const PALETTE: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#777777"];
/// Dash patterns and markers, for prints without colour and for lines that coincide.
const DASHES: [Option<&str>; 4] = [None, Some("9 4"), Some("2 3"), Some("9 3 2 3")];
const MARKERS: [Marker; 6] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::TriangleDown, Marker::Cross];
const LAW_DASH: &str = "5 3";
/// Maximum number of points with markers. Longer series have no markers, and a band for their intervals.
const MARKED_MAX: usize = 40;
/// Half of a marker's width, and of the stroke at the end of an interval.
const HALF: f64 = 4.0;
/// Part of the available width that a group of bars takes.
const GROUP: f64 = 0.8;

/// Shape of a point.
#[derive(Clone, Copy)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    TriangleDown,
    Cross,
}

impl Marker {
    pub(super) fn draw(self, svg: &mut Svg, (x, y): Spot, colour: &'static str) {
        const H: f64 = HALF;
        let around = |corners: [Spot; 3]| corners.map(|(right, down)| (x + right, y + down));
        match self {
            Self::Circle => svg.circle((x, y), H, colour),
            Self::Square => svg.rect((x - H, y - H), (x + H, y + H), Some(colour)),
            Self::Triangle => svg.area(around([(0.0, -H - 1.0), (H + 1.0, H), (-H - 1.0, H)]), colour, 1.0),
            Self::TriangleDown => {
                svg.area(around([(0.0, H + 1.0), (H + 1.0, -H), (-H - 1.0, -H)]), colour, 1.0);
            }
            Self::Diamond => {
                let h = H + 1.0;
                svg.area([(x, y - h), (x + h, y), (x, y + h), (x - h, y)], colour, 1.0);
            }
            Self::Cross => {
                let stroke = Stroke { colour, width: 2.0, dash: None };
                svg.line((x - H, y - H), (x + H, y + H), stroke);
                svg.line((x - H, y + H), (x + H, y - H), stroke);
            }
        }
    }
}

/// Appearance of a series.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) colour: &'static str,
    pub(super) marker: Marker,
    pub(super) stroke: Stroke,
    /// Whether its points have markers.
    pub(super) is_marked: bool,
}

impl Look {
    /// Returns the appearance of a series at this index of its plot.
    pub(super) fn of(index: usize, series: &PlotSeries) -> Self {
        let number = series.colour.unwrap_or(index);
        let colour = PALETTE[number % PALETTE.len()];
        let (width, dash) = match series.style {
            Style::Law => (1.3, Some(LAW_DASH)),
            Style::Line | Style::Step | Style::Points => (2.0, DASHES[number % DASHES.len()]),
        };
        let is_few = runs_of(series, |point| point.y.is_finite()).all(|run| run.len() <= MARKED_MAX);
        Self {
            colour,
            marker: MARKERS[number % MARKERS.len()],
            stroke: Stroke { colour, width, dash },
            is_marked: series.style == Style::Points || (series.style == Style::Line && is_few),
        }
    }
}

/// Splits a series at its missing points.
fn runs_of(series: &PlotSeries, is_there: impl Fn(&Point) -> bool) -> impl Iterator<Item = &[Point]> {
    series.points.split(move |point| !is_there(point)).filter(|run| !run.is_empty())
}

/// Splits a series at its gaps.
fn runs<'a>(plot: &Plot, series: &'a PlotSeries) -> impl Iterator<Item = &'a [Point]> {
    let drawable = |point: &Point| is_drawable(&plot.x.scale, point.x) && is_drawable(&plot.y.scale, point.y);
    runs_of(series, drawable)
}

/// Draws all series and the reference lines. `id` is the plot's.
pub(super) fn curves(svg: &mut Svg, axes: &Axes, plot: &Plot, id: &str) {
    let (corner, end) = axes.corners();
    svg.clipped(id, corner, end, |svg| {
        for (index, series) in plot.series.iter().enumerate() {
            let look = Look::of(index, series);
            for run in runs(plot, series) {
                if !look.is_marked {
                    band(svg, axes, plot, run, look.colour);
                }
                if series.style != Style::Points {
                    svg.path(line(axes, series, run), look.stroke);
                }
            }
        }
        references(svg, axes, plot);
    });
    // Markers are drawn in front of all lines, and not clipped at the edge of the box.
    for (index, series) in plot.series.iter().enumerate() {
        let look = Look::of(index, series);
        let shown = runs(plot, series).flatten().filter(|point| axes.x.has(point.x) && axes.y.has(point.y));
        for point in shown.filter(|_| look.is_marked) {
            let spot = (axes.x.place(point.x), axes.y.place(point.y));
            interval(svg, axes, spot.0, point.y, arms(plot, point), look.colour);
            look.marker.draw(svg, spot, look.colour);
        }
    }
}

/// Draws the band of intervals around a part of a series, if it has intervals.
fn band(svg: &mut Svg, axes: &Axes, plot: &Plot, run: &[Point], colour: &str) {
    let arms: Vec<_> = run.iter().map(|point| (point, arms(plot, point))).collect();
    if arms.iter().any(|&(_, arms)| arms != (0.0, 0.0)) {
        let upper = arms.iter().map(|(point, (_, up))| (point.x, point.y + up));
        let lower = arms.iter().rev().map(|(point, (down, _))| (point.x, point.y - down));
        let around = upper.chain(lower).map(|(x, y)| (axes.x.place(x), axes.y.place(y)));
        svg.area(around, colour, 0.2);
    }
}

/// Returns the line through a part of a series, with steps if its style has them.
fn line(axes: &Axes, series: &PlotSeries, run: &[Point]) -> Vec<Spot> {
    let mut spots: Vec<Spot> = Vec::new();
    for (x, y) in run.iter().map(|point| (point.x, point.y)).chain(end_of_step(series, run)) {
        let spot = (axes.x.place(x), axes.y.place(y));
        if let Some(&(_, before)) = spots.last().filter(|_| series.style == Style::Step) {
            spots.push((spot.0, before));
        }
        spots.push(spot);
    }
    spots
}

/// End of the last step in a part of a series: the next x, or the end of the series.
fn end_of_step(series: &PlotSeries, run: &[Point]) -> Option<(f64, f64)> {
    let last = run.last().filter(|_| series.style == Style::Step)?;
    let next = series.points.iter().map(|point| point.x).find(|&x| x > last.x);
    next.or_else(|| series.end()).map(|x| (x, last.y))
}

/// Lengths of an interval downwards and upwards. On a logarithmic axis the lower arm ends at a tenth of the value if it
/// would reach zero.
fn arms(plot: &Plot, point: &Point) -> (f64, f64) {
    let up = point.half_width.filter(|width| width.is_finite()).unwrap_or(0.0);
    let down = if plot.y.scale == Scale::Log { up.min(0.9 * point.y) } else { up };
    (down, up)
}

/// Draws an interval around a value, clipped to the axis.
fn interval(svg: &mut Svg, axes: &Axes, x: f64, value: f64, (down, up): (f64, f64), colour: &'static str) {
    if (down, up) == (0.0, 0.0) {
        return;
    }
    let stroke = Stroke { colour, width: 1.0, dash: None };
    let (lower, upper) = (axes.y.place_within(value - down), axes.y.place_within(value + up));
    svg.line((x, lower), (x, upper), stroke);
    for y in [lower, upper] {
        svg.line((x - HALF, y), (x + HALF, y), stroke);
    }
}

fn references(svg: &mut Svg, axes: &Axes, plot: &Plot) {
    let stroke = Stroke { colour: INK, width: 1.5, dash: Some(REFERENCE_DASH) };
    let ((left, top), (right, bottom)) = axes.corners();
    for reference in &plot.references {
        match reference.at {
            At::X(x) if is_drawable(&plot.x.scale, x) => {
                let x = axes.x.place(x);
                svg.line((x, bottom), (x, top), stroke);
            }
            At::Y(y) if is_drawable(&plot.y.scale, y) => {
                let y = axes.y.place(y);
                svg.line((left, y), (right, y), stroke);
            }
            At::X(_) | At::Y(_) => {}
        }
    }
}

/// Draws a group of bars for each name with one bar per series, and the reference lines. `id` is the plot's.
pub(super) fn bars(svg: &mut Svg, axes: &Axes, plot: &Plot, names: &[String], id: &str) {
    let (corner, end) = axes.corners();
    svg.clipped(id, corner, end, |svg| {
        let side_by_side = if plot.is_stacked { 1 } else { plot.series.len() };
        let width = GROUP / side_by_side as f64;
        for group in 0..names.len() {
            let mut stacked = 0.0;
            for (index, series) in plot.series.iter().enumerate() {
                let found = series.points.iter().find(|point| point.x as usize == group);
                let Some(point) = found.filter(|point| is_drawable(&plot.y.scale, point.y)) else { continue };
                let place = if plot.is_stacked { 0 } else { index };
                let left = group as f64 + (1.0 - GROUP) / 2.0 + width * place as f64;
                let (from, to) = (stacked, stacked + point.y);
                // Stacked bars have no gap between them.
                let gap = if side_by_side > 1 { 0.5 } else { 0.0 };
                svg.rect(
                    (axes.x.place(left) + gap, axes.y.place_within(from)),
                    (axes.x.place(left + width) - gap, axes.y.place_within(to)),
                    Some(Look::of(index, series).colour),
                );
                let middle = axes.x.place(left + width / 2.0);
                interval(svg, axes, middle, to, arms(plot, point), INK);
                if plot.is_stacked {
                    stacked = to;
                }
            }
        }
        references(svg, axes, plot);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, scale};

    #[test]
    fn the_last_step_is_as_wide_as_the_one_before() {
        let points = [(0.0, 5.0), (10.0, 7.0), (20.0, f64::NAN), (30.0, 2.0), (40.0, 3.0)];
        let mut plot = Plot::new("t", Axis::linear("x"), Axis::linear("y"));
        plot.series(PlotSeries::new("s", Style::Step, points));
        let series = &plot.series[0];
        let ends: Vec<_> = runs(&plot, series).map(|run| end_of_step(series, run)).collect();
        // Before the gap, and at the end, which the axis includes.
        assert_eq!(ends, [Some((20.0, 7.0)), Some((50.0, 3.0))]);
        assert!((scale::horizontal(&plot).high - 50.0).abs() < 1e-9);
        let line = PlotSeries { style: Style::Line, ..series.clone() };
        assert_eq!((line.end(), end_of_step(&line, &line.points)), (None, None));
    }

    #[test]
    fn steps_have_corners_and_lines_have_none() {
        let mut plot = Plot::new("t", Axis::linear("x"), Axis::linear("y"));
        plot.series(PlotSeries::new("s", Style::Step, [(0.0, 1.0), (10.0, 2.0)]));
        let axes = Axes::of(&plot, 0.0);
        let series = &plot.series[0];
        let spots = line(&axes, series, &series.points);
        let (x, y) = (|value| axes.x.place(value), |value| axes.y.place(value));
        let steps = [(0.0, 1.0), (10.0, 1.0), (10.0, 2.0), (20.0, 2.0), (20.0, 2.0)];
        assert_eq!(spots, steps.map(|(at, value)| (x(at), y(value))));
        let plain = PlotSeries { style: Style::Line, ..series.clone() };
        let expected = [(0.0, 1.0), (10.0, 2.0)].map(|(at, value)| (x(at), y(value)));
        assert_eq!(line(&axes, &plain, &plain.points), expected);
    }

    #[test]
    fn an_interval_stays_on_a_logarithmic_axis() {
        let mut plot = Plot::new("t", Axis::linear("x"), Axis::log("y"));
        let point = Point { x: 1.0, y: 2.0, half_width: Some(5.0) };
        assert_eq!(arms(&plot, &point), (1.8, 5.0));
        plot.y = Axis::linear("y");
        assert_eq!(arms(&plot, &point), (5.0, 5.0));
        // The half width of a single replication is infinite.
        assert_eq!(arms(&plot, &Point { half_width: Some(f64::INFINITY), ..point }), (0.0, 0.0));
    }
}
