//! The legend to the right of the axes.

use super::series::{Look, Marker};
use super::svg::{Anchor, Spot, Stroke, Svg, lines, width};
use super::{INK, PICTURE, REFERENCE_DASH, TEXT};
use crate::report::{Plot, Scale, Style};

/// Width of the samples, and their distance to the text.
const SAMPLE: f64 = 28.0;
const GAP: f64 = 8.0;
/// Maximum width of a name's line.
const NAME_MAX: f64 = 190.0;
/// Distance between the lines of a name, and additional distance between entries.
const LINE: f64 = 14.0;
const BETWEEN: f64 = 4.0;

/// Sample beside a name.
enum Sample {
    Line(Stroke, Option<Marker>),
    Marker(Marker, &'static str),
    Block(&'static str),
}

struct Entry {
    sample: Sample,
    name: Vec<String>,
}

/// Names of series and reference lines; empty if the plot has only one.
pub(super) struct Legend(Vec<Entry>);

impl Legend {
    pub(super) fn of(plot: &Plot) -> Self {
        let is_bars = matches!(plot.x.scale, Scale::Names(_));
        let series = plot.series.iter().enumerate().map(|(index, series)| {
            let look = Look::of(index, series);
            let sample = match series.style {
                _ if is_bars => Sample::Block(look.colour),
                Style::Points => Sample::Marker(look.marker, look.colour),
                _ => Sample::Line(look.stroke, look.is_marked.then_some(look.marker)),
            };
            (sample, &series.name)
        });
        let stroke = Stroke { colour: INK, width: 1.5, dash: Some(REFERENCE_DASH) };
        let references =
            plot.references.iter().map(|reference| (Sample::Line(stroke, None), &reference.label));
        let entries = series.chain(references);
        let entries = entries.map(|(sample, name)| Entry { sample, name: lines(name, TEXT, NAME_MAX) });
        let mut entries: Vec<_> = entries.collect();
        if entries.len() == 1 {
            entries.clear();
        }
        Self(entries)
    }

    /// Width of the legend.
    pub(super) fn width(&self) -> f64 {
        let names = self.0.iter().flat_map(|entry| &entry.name);
        let widest = names.map(|line| width(line, TEXT)).reduce(f64::max);
        widest.map_or(0.0, |widest| SAMPLE + GAP + widest)
    }

    /// Draws the legend with its upper left corner at this position.
    pub(super) fn draw(&self, svg: &mut Svg, (x, top): Spot) {
        let height: f64 = self.0.iter().map(|entry| LINE * entry.name.len() as f64 + BETWEEN).sum();
        // Many entries are drawn closer together, so that all are within the picture.
        let closer = ((PICTURE.1 - top) / height).min(1.0);
        let mut y = top + TEXT * 0.8;
        for Entry { sample, name } in &self.0 {
            sample.draw(svg, (x, y - TEXT * 0.35));
            for line in name {
                svg.text((x + SAMPLE + GAP, y), Anchor::Start, TEXT * closer, 0.0, line);
                y += LINE * closer;
            }
            y += BETWEEN * closer;
        }
    }
}

impl Sample {
    /// Draws the sample with the middle of its left side at this position.
    fn draw(&self, svg: &mut Svg, (x, y): Spot) {
        let middle = (x + SAMPLE / 2.0, y);
        match *self {
            Self::Line(stroke, marker) => {
                svg.line((x, y), (x + SAMPLE, y), stroke);
                if let Some(marker) = marker {
                    marker.draw(svg, middle, stroke.colour);
                }
            }
            Self::Marker(marker, colour) => marker.draw(svg, middle, colour),
            Self::Block(colour) => svg.rect((x + 10.0, y - 5.0), (x + SAMPLE, y + 5.0), Some(colour)),
        }
    }
}
