//! The box of the axes: positions of values, grid, ticks and labels.

use super::svg::{Anchor, Spot, Stroke, Svg, fitting, width};
use super::{GRID, INK, PICTURE, TEXT};
use crate::report::scale::{self, Extent};
use crate::report::{Axis, Plot, Scale};

const TITLE: f64 = 16.0;
const LABEL: f64 = 13.0;
/// Margin of the picture, and space between elements side by side.
const MARGIN: f64 = 10.0;
/// Length of the ticks.
const TICK: f64 = 5.0;
const TOP: f64 = 44.0;
/// Height of the horizontal axis's ticks and label.
const BELOW: f64 = 50.0;
/// Angle in degrees for names that do not fit side by side. Turned names end below their bars.
const TURN: f64 = 35.0;
/// Maximum additional height of turned names.
const TURNED_MAX: f64 = 110.0;

/// Conversion of one axis's values to pixels.
pub(super) struct Ruler {
    extent: Extent,
    is_log: bool,
    /// Positions of the low and the high end.
    ends: (f64, f64),
}

impl Ruler {
    fn new(axis: &Axis, extent: Extent, ends: (f64, f64)) -> Self {
        Self { extent, is_log: axis.scale == Scale::Log, ends }
    }

    /// Position of a value. The value may be outside the axis, but must be drawable on its scale.
    pub(super) fn place(&self, value: f64) -> f64 {
        let along = |value: f64| if self.is_log { value.log10() } else { value };
        let (low, high) = (along(self.extent.low), along(self.extent.high));
        let part = (along(value) - low) / (high - low);
        self.ends.0 + part * (self.ends.1 - self.ends.0)
    }

    /// Position of a value, or of the nearer end if the value is beyond it.
    pub(super) fn place_within(&self, value: f64) -> f64 {
        self.place(value.clamp(self.extent.low, self.extent.high))
    }

    /// Whether the value lies between the ends.
    pub(super) fn has(&self, value: f64) -> bool {
        // With tolerance for rounding errors of a computed end.
        let allowance = 1e-9 * (self.extent.high - self.extent.low);
        value >= self.extent.low - allowance && value <= self.extent.high + allowance
    }
}

/// Both axes of a plot.
pub(super) struct Axes {
    /// In a bar chart, from 0 with a width of 1 for each name.
    pub(super) x: Ruler,
    pub(super) y: Ruler,
    /// Whether the names below the bars are turned.
    is_turned: bool,
}

impl Axes {
    /// Returns the largest axes for a legend of this width to the right (0 for none).
    pub(super) fn of(plot: &Plot, legend: f64) -> Self {
        let horizontal = scale::horizontal(plot);
        let vertical = scale::vertical(plot, horizontal);
        let ticks = vertical.ticks().into_iter().map(|value| width(&tick(value), TEXT));
        let left = MARGIN + LABEL + MARGIN + ticks.fold(0.0, f64::max) + TICK + 3.0;
        let right = PICTURE.0 - if legend > 0.0 { legend + 3.0 * MARGIN } else { 2.0 * MARGIN };
        let (across, below) = match &plot.x.scale {
            Scale::Names(names) => {
                let room = (right - left) / names.len().max(1) as f64;
                let widths: Vec<f64> = names.iter().map(|name| width(name, TEXT)).collect();
                let is_close = widths.windows(2).any(|pair| f64::midpoint(pair[0], pair[1]) + MARGIN > room);
                let widest = widths.into_iter().fold(0.0, f64::max);
                let turned = is_close.then_some(widest * TURN.to_radians().sin());
                let extent = Extent { low: 0.0, high: names.len().max(1) as f64, step: None };
                (extent, turned.map(|height| height.min(TURNED_MAX)))
            }
            Scale::Linear | Scale::Log => (horizontal, None),
        };
        let bottom = PICTURE.1 - BELOW - below.unwrap_or(0.0);
        Self {
            x: Ruler::new(&plot.x, across, (left, right)),
            y: Ruler::new(&plot.y, vertical, (bottom, TOP)),
            is_turned: below.is_some(),
        }
    }

    /// Upper left and lower right corner of the box.
    pub(super) fn corners(&self) -> (Spot, Spot) {
        ((self.x.ends.0, self.y.ends.1), (self.x.ends.1, self.y.ends.0))
    }

    /// Draws the grid lines behind the data.
    pub(super) fn grid(&self, svg: &mut Svg, plot: &Plot) {
        let stroke = Stroke { colour: GRID, width: 1.0, dash: None };
        let ((left, top), (right, bottom)) = self.corners();
        if !matches!(plot.x.scale, Scale::Names(_)) {
            for x in self.x.extent.ticks().into_iter().map(|value| self.x.place(value)) {
                svg.line((x, top), (x, bottom), stroke);
            }
        }
        for y in self.y.extent.ticks().into_iter().map(|value| self.y.place(value)) {
            svg.line((left, y), (right, y), stroke);
        }
    }

    /// Draws the axes with their ticks, all labels, and the title.
    pub(super) fn draw(&self, svg: &mut Svg, plot: &Plot) {
        let stroke = Stroke { colour: INK, width: 1.0, dash: None };
        let ((left, top), (right, bottom)) = self.corners();
        svg.path([(left, top), (left, bottom), (right, bottom)], stroke);
        for value in self.y.extent.ticks() {
            let y = self.y.place(value);
            svg.line((left - TICK, y), (left, y), stroke);
            svg.text((left - TICK - 3.0, y + TEXT * 0.36), Anchor::End, TEXT, 0.0, &tick(value));
        }
        match &plot.x.scale {
            Scale::Names(names) => self.names(svg, names),
            Scale::Linear | Scale::Log => {
                for value in self.x.extent.ticks() {
                    let x = self.x.place(value);
                    svg.line((x, bottom), (x, bottom + TICK), stroke);
                    svg.text((x, bottom + TICK + TEXT), Anchor::Middle, TEXT, 0.0, &tick(value));
                }
            }
        }
        let (middle, half_way) = (f64::midpoint(left, right), f64::midpoint(top, bottom));
        let size = fitting(&plot.x.label, LABEL, right);
        svg.text((middle, PICTURE.1 - MARGIN), Anchor::Middle, size, 0.0, &plot.x.label);
        let size = fitting(&plot.y.label, LABEL, PICTURE.1 - 2.0 * MARGIN);
        // A long label extends below the axis, but not beyond the picture.
        let reach = width(&plot.y.label, size) / 2.0 + MARGIN;
        let y = half_way.clamp(reach.min(PICTURE.1 / 2.0), (PICTURE.1 - reach).max(PICTURE.1 / 2.0));
        svg.text((MARGIN + LABEL, y), Anchor::Middle, size, -90.0, &plot.y.label);
        let size = fitting(&plot.title, TITLE, PICTURE.0 - 2.0 * MARGIN);
        let reach = width(&plot.title, size) / 2.0 + MARGIN;
        let x = middle.clamp(reach.min(PICTURE.0 / 2.0), (PICTURE.0 - reach).max(PICTURE.0 / 2.0));
        svg.text((x, TOP / 2.0 + 5.0), Anchor::Middle, size, 0.0, &plot.title);
    }

    fn names(&self, svg: &mut Svg, names: &[String]) {
        let bottom = self.y.ends.0;
        for (index, name) in names.iter().enumerate() {
            let x = self.x.place(index as f64 + 0.5);
            if self.is_turned {
                let size = fitting(name, TEXT, TURNED_MAX / TURN.to_radians().sin());
                svg.text((x + 4.0, bottom + TEXT), Anchor::End, size, -TURN, name);
            } else {
                svg.text((x, bottom + TICK + TEXT), Anchor::Middle, TEXT, 0.0, name);
            }
        }
    }
}

/// Formats a tick without rounding errors, in powers of ten if very large or small.
fn tick(value: f64) -> String {
    let rounded = format!("{value:.6e}").parse().unwrap_or(value);
    let is_plain = rounded == 0.0 || (1e-4..1e7).contains(&rounded.abs());
    if is_plain { format!("{rounded}") } else { format!("{rounded:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        let shown = [0.0, 0.1 + 0.2, 1500.0, 1e-3, -2.5, 1e-5, 3e9].map(tick);
        assert_eq!(shown, ["0", "0.3", "1500", "0.001", "-2.5", "1e-5", "3e9"]);
    }

    #[test]
    fn values_stand_in_proportion_and_on_logarithmic_axes_by_their_ratios() {
        let linear = Extent { low: 0.0, high: 50.0, step: Some(10.0) };
        let ruler = Ruler::new(&Axis::linear("x"), linear, (100.0, 200.0));
        assert_eq!([0.0, 25.0, 60.0].map(|value| ruler.place(value) as i64), [100, 150, 220]);
        assert_eq!([-1.0, 60.0].map(|value| ruler.place_within(value) as i64), [100, 200]);
        let log = Extent { low: 1.0, high: 100.0, step: None };
        let ruler = Ruler::new(&Axis::log("y"), log, (300.0, 100.0));
        assert_eq!([1.0, 10.0, 100.0].map(|value| ruler.place(value) as i64), [300, 200, 100]);
    }

    #[test]
    fn names_without_room_are_turned() {
        let plot = |names: &[&str]| {
            Plot::new("t", Axis::names("policy", names.iter().copied()), Axis::linear("calls/s"))
        };
        let plain = Axes::of(&plot(&["tlwl", "round-robin"]), 0.0);
        assert!(!plain.is_turned);
        let turned = Axes::of(&plot(&["a name that takes much room"; 6]), 0.0);
        assert!(turned.is_turned && turned.y.ends.0 < plain.y.ends.0);
    }
}
