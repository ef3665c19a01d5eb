//! Plots as pictures.

use super::scale::{self, Extent, is_drawable};
use super::{At, Plot, PlotSeries, Point, Scale, Style};
use kuva::backend::png::PngBackend;
use kuva::backend::svg::SvgBackend;
use kuva::plot::legend::{LegendEntry, LegendPosition, LegendShape};
use kuva::plot::scatter::MarkerShape;
use kuva::plot::{BandPlot, BarPlot, LinePlot, ScatterPlot};
use kuva::render::annotations::ReferenceLine;
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot as Drawn;
use kuva::render::render::{Scene, render_multiple};
use kuva::render::theme::Theme;
use std::io;
use std::sync::Arc;

/// Okabe and Ito's colours, told apart with any colour vision; yellow, too faint on white, gives way to wine, and a
/// grey is added. The report's style sheet brightens some on a dark page.
const PALETTE: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#777777"];
/// Patterns and markers as well, for prints without colour and for lines that coincide.
const DASHES: [Option<&str>; 4] = [None, Some("9 4"), Some("2 3"), Some("9 3 2 3")];
const MARKERS: [MarkerShape; 6] = [
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Triangle,
    MarkerShape::Diamond,
    MarkerShape::TriangleDown,
    MarkerShape::Cross,
];
const LAW_DASH: &str = "5 3";
const REFERENCE_DASH: &str = "3 5";
/// Written in full and in lower case, as the report's style sheet looks for them.
const INK: &str = "#222222";
const PAPER: &str = "#ffffff";
const GRID: &str = "#dddddd";
/// Of the whole picture, legend included.
const SIZE: (f64, f64) = (760.0, 400.0);
/// Pixels of the PNG per unit of the drawing.
const PNG_SCALE: f32 = 2.0;
/// A series of more points is drawn without markers, and its intervals as a band.
const MARKED_MAX: usize = 40;

/// A plot as a picture, in two formats.
pub(super) struct Picture {
    /// A file of its own: XML, with a fixed size.
    pub(super) svg: String,
    pub(super) png: Vec<u8>,
}

/// Draws a plot. `id` keeps names in the SVG apart when several stand in one page.
pub(super) fn draw(plot: &Plot, id: &str) -> io::Result<Picture> {
    let scene = scene(plot);
    let png = PngBackend::new().with_scale(PNG_SCALE).render_scene(&scene).map_err(io::Error::other)?;
    let svg = named(&SvgBackend::new().render_scene(&scene), id);
    // So that a page can scale it.
    let scaled = format!("<svg viewBox=\"0 0 {} {}\" ", scene.width, scene.height);
    Ok(Picture { svg: svg.replacen("<svg ", &scaled, 1), png })
}

/// Names the clipping areas after the plot. The drawing library numbers them through the life of the process, so the
/// same plot would not be the same bytes twice.
fn named(svg: &str, id: &str) -> String {
    const NUMBERED: &str = "kuva-clip-";
    let mut parts = svg.split(NUMBERED);
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        named += "clip-";
        named += id;
        named += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    named
}

fn scene(plot: &Plot) -> Scene {
    let (drawn, legend) = match &plot.x.scale {
        Scale::Names(names) => bars(plot, names),
        Scale::Linear | Scale::Log => curves(plot),
    };
    let x = scale::horizontal(plot);
    let y = scale::vertical(plot, x);
    let layout = framed(Layout::auto_from_plots(&drawn), plot, x, y);
    render_multiple(drawn, referenced(layout, plot, legend))
}

/// Size, labels, axes and theme.
fn framed(layout: Layout, plot: &Plot, x: Extent, y: Extent) -> Layout {
    let theme = Theme {
        background: PAPER.into(),
        axis_color: INK.into(),
        tick_color: INK.into(),
        text_color: INK.into(),
        grid_color: GRID.into(),
        // The text is measured in DejaVu Sans; Verdana is as wide.
        font_family: Some("DejaVu Sans, Verdana, sans-serif".into()),
        ..Theme::light()
    };
    let mut layout = layout
        .with_width(SIZE.0)
        .with_height(SIZE.1)
        .with_title(literal(&plot.title))
        .with_x_label(literal(&plot.x.label))
        .with_y_label(literal(&plot.y.label))
        .with_title_size(16)
        .with_label_size(13)
        .with_tick_size(12)
        .with_body_size(12)
        .with_y_axis_min(y.low)
        .with_y_axis_max(y.high)
        .with_tick_format(TickFormat::Custom(Arc::new(tick)))
        .with_theme(theme);
    if !matches!(plot.x.scale, Scale::Names(_)) {
        layout = layout.with_x_axis_min(x.low).with_x_axis_max(x.high);
        layout.x_tick_step = x.step;
    }
    layout.y_tick_step = y.step;
    layout.log_x = plot.x.scale == Scale::Log;
    layout.log_y = plot.y.scale == Scale::Log;
    layout
}

/// A tick's number without the last digits that come of computing it; powers of ten when very large or small.
fn tick(value: f64) -> String {
    let rounded = format!("{value:.6e}").parse().unwrap_or(value);
    let is_plain = rounded == 0.0 || (1e-4..1e7).contains(&rounded.abs());
    if is_plain { format!("{rounded}") } else { format!("{rounded:e}") }
}

/// Reference lines, and the legend beside the axes.
fn referenced(mut layout: Layout, plot: &Plot, mut legend: Vec<LegendEntry>) -> Layout {
    for reference in &plot.references {
        let line = match reference.at {
            At::X(x) => ReferenceLine::vertical(x),
            At::Y(y) => ReferenceLine::horizontal(y),
        };
        let line = line.with_color(INK).with_stroke_width(1.5).with_dasharray(REFERENCE_DASH);
        layout = layout.with_reference_line(line);
        legend.push(entry(&reference.label, INK, LegendShape::Line, Some(REFERENCE_DASH)));
    }
    let many = legend.len() > 1;
    if many {
        layout = layout
            .with_legend_entries(legend)
            .with_legend_position(LegendPosition::OutsideRightTop)
            .with_legend_box(false);
    }
    layout.show_legend = many;
    layout
}

fn curves(plot: &Plot) -> (Vec<Drawn>, Vec<LegendEntry>) {
    let mut drawn = Vec::new();
    let mut legend = Vec::new();
    for (index, series) in plot.series.iter().enumerate() {
        let number = series.colour.unwrap_or(index);
        let colour = PALETTE[number % PALETTE.len()];
        let marker = MARKERS[number % MARKERS.len()];
        let dash = match series.style {
            Style::Law => Some(LAW_DASH),
            Style::Line | Style::Step | Style::Points => DASHES[number % DASHES.len()],
        };
        let shape =
            if series.style == Style::Points { LegendShape::Marker(marker) } else { LegendShape::Line };
        legend.push(entry(&series.name, colour, shape, dash));
        for run in runs(plot, series) {
            draw_run(&mut drawn, plot, series, run, (colour, marker, dash));
        }
    }
    (drawn, legend)
}

/// The parts of a series between its gaps.
fn runs<'a>(plot: &'a Plot, series: &'a PlotSeries) -> impl Iterator<Item = &'a [Point]> {
    let drawable = |point: &Point| is_drawable(&plot.x.scale, point.x) && is_drawable(&plot.y.scale, point.y);
    series.points.split(move |point| !drawable(point)).filter(|run| !run.is_empty())
}

fn draw_run(
    drawn: &mut Vec<Drawn>,
    plot: &Plot,
    series: &PlotSeries,
    run: &[Point],
    (colour, marker, dash): (&str, MarkerShape, Option<&str>),
) {
    let style = series.style;
    let points = || run.iter().map(|point| (point.x, point.y));
    let arms: Vec<(f64, f64)> = run.iter().map(|point| arms(plot, point)).collect();
    let is_sure = arms.iter().all(|&(down, up)| down == 0.0 && up == 0.0);
    let is_marked = style == Style::Points || (style == Style::Line && run.len() <= MARKED_MAX);
    if !is_sure && !is_marked {
        let edge = |side: fn(&(f64, f64)) -> f64| {
            run.iter().zip(&arms).map(move |(point, arms)| point.y + side(arms))
        };
        let band = BandPlot::new(run.iter().map(|point| point.x), edge(|arms| -arms.0), edge(|arms| arms.1));
        drawn.push(band.with_color(colour).into());
    }
    if style != Style::Points {
        let width = if style == Style::Law { 1.3 } else { 2.0 };
        let data = points().chain(end_of_step(series, run));
        let mut line = LinePlot::new().with_data(data).with_color(colour).with_stroke_width(width);
        line.step = style == Style::Step;
        line.line_style =
            dash.map_or(kuva::plot::LineStyle::Solid, |dash| kuva::plot::LineStyle::Custom(dash.into()));
        drawn.push(line.into());
    }
    if is_marked {
        let mut marks =
            ScatterPlot::new().with_data(points()).with_color(colour).with_marker(marker).with_size(4.0);
        if !is_sure {
            marks = marks.with_y_err_asymmetric(arms);
        }
        drawn.push(marks.into());
    }
}

/// Where the last step of a part of a series ends: at the next x, or with the series.
fn end_of_step(series: &PlotSeries, run: &[Point]) -> Option<(f64, f64)> {
    let last = run.last().filter(|_| series.style == Style::Step)?;
    let next = series.points.iter().map(|point| point.x).find(|&x| x > last.x);
    next.or_else(|| series.end()).map(|x| (x, last.y))
}

/// How far an interval reaches down and up. On a logarithmic axis the lower arm ends at a tenth of the value where it
/// would reach zero.
fn arms(plot: &Plot, point: &Point) -> (f64, f64) {
    let up = point.half_width.filter(|width| width.is_finite()).unwrap_or(0.0);
    let down = if plot.y.scale == Scale::Log { up.min(0.9 * point.y) } else { up };
    (down, up)
}

/// A group of bars a name, a bar a series.
fn bars(plot: &Plot, names: &[String]) -> (Vec<Drawn>, Vec<LegendEntry>) {
    let colour = |index: usize, series: &PlotSeries| PALETTE[series.colour.unwrap_or(index) % PALETTE.len()];
    let mut chart = BarPlot::new().with_error_color(INK);
    if plot.is_stacked {
        chart = chart.with_stacked();
    }
    let mut errors = Vec::new();
    for (group, name) in names.iter().enumerate() {
        let mut values = Vec::new();
        for (index, series) in plot.series.iter().enumerate() {
            let found = series.points.iter().find(|point| point.x as usize == group && point.y.is_finite());
            values.push((found.map_or(0.0, |point| point.y), colour(index, series)));
            errors.push(found.map_or((0.0, 0.0), |point| arms(plot, point)));
        }
        chart = chart.with_group(literal(name), values);
    }
    if errors.iter().any(|&arms| arms != (0.0, 0.0)) {
        chart = chart.with_asymmetric_error(errors);
    }
    let legend = plot
        .series
        .iter()
        .enumerate()
        .map(|(index, series)| entry(&series.name, colour(index, series), LegendShape::Rect, None));
    let legend = legend.collect();
    (vec![chart.into()], legend)
}

fn entry(label: &str, colour: &str, shape: LegendShape, dash: Option<&str>) -> LegendEntry {
    LegendEntry { label: literal(label), color: colour.into(), shape, dasharray: dash.map(Into::into) }
}

/// The drawing library takes what stands between dollar signs for mathematics.
fn literal(text: &str) -> String {
    text.replace('$', "\\$")
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
    fn the_last_step_is_as_wide_as_the_one_before() {
        use crate::report::Axis;
        let points = [(0.0, 5.0), (10.0, 7.0), (20.0, f64::NAN), (30.0, 2.0), (40.0, 3.0)];
        let mut plot = Plot::new("t", Axis::linear("x"), Axis::linear("y"));
        plot.series(PlotSeries::new("s", Style::Step, points));
        let series = &plot.series[0];
        let ends: Vec<_> = runs(&plot, series).map(|run| end_of_step(series, run)).collect();
        // Before the gap, and at the end, where the axis reaches as far.
        assert_eq!(ends, [Some((20.0, 7.0)), Some((50.0, 3.0))]);
        assert!((scale::horizontal(&plot).high - 50.0).abs() < 1e-9);
        let line = PlotSeries { style: Style::Line, ..series.clone() };
        assert_eq!((line.end(), end_of_step(&line, &line.points)), (None, None));
    }

    #[test]
    fn an_interval_stays_on_a_logarithmic_axis() {
        use crate::report::Axis;
        let mut plot = Plot::new("t", Axis::linear("x"), Axis::log("y"));
        let point = Point { x: 1.0, y: 2.0, half_width: Some(5.0) };
        assert_eq!(arms(&plot, &point), (1.8, 5.0));
        plot.y = Axis::linear("y");
        assert_eq!(arms(&plot, &point), (5.0, 5.0));
        // The half width of a single replication is infinite.
        assert_eq!(arms(&plot, &Point { half_width: Some(f64::INFINITY), ..point }), (0.0, 0.0));
    }
}
