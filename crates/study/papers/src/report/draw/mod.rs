//! Plots as pictures in SVG.

mod axes;
mod legend;
mod series;
mod svg;

use super::{Plot, Scale};
use axes::Axes;
use legend::Legend;
use svg::Svg;

/// Width and height of the whole picture, legend included.
const PICTURE: (f64, f64) = (760.0, 400.0);
/// Font size of ticks and legend.
const TEXT: f64 = 12.0;
/// Colours in full length and lower case, as the report's style sheet matches them.
const INK: &str = "#222222";
const PAPER: &str = "#ffffff";
const GRID: &str = "#dddddd";
const REFERENCE_DASH: &str = "3 5";

/// Draws a plot as a complete SVG file. `id` makes its names unique on a page with several pictures.
///
/// No plotting library: kuva, which was used before, includes a text shaper and a PNG encoder, and took longer to
/// compile than the rest of this crate.
pub(super) fn draw(plot: &Plot, id: &str) -> String {
    let legend = Legend::of(plot);
    let axes = Axes::of(plot, legend.width());
    let mut svg = Svg::new(PICTURE, PAPER, INK);
    axes.grid(&mut svg, plot);
    match &plot.x.scale {
        Scale::Names(names) => series::bars(&mut svg, &axes, plot, names, id),
        Scale::Linear | Scale::Log => series::curves(&mut svg, &axes, plot, id),
    }
    axes.draw(&mut svg, plot);
    let ((_, top), (right, _)) = axes.corners();
    legend.draw(&mut svg, (right + 14.0, top));
    svg.finish()
}
