//! What a figure is: plots of data, and what a paper says about them.

use sim::stats::Interval;

/// A figure of a paper, reproduced: data, the paper's statements about it, and what was assumed to get there.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name on the command line and of its files, such as `overload-7`.
    pub name: String,
    /// One line.
    pub title: String,
    /// Where it comes from, such as `Overload paper, figure 7`.
    pub source: String,
    /// Numbers that stand above the plots.
    pub tables: Vec<ReportTable>,
    /// What it shows, in the order of the paper.
    pub plots: Vec<Plot>,
    /// What the paper states, and whether the data say so too.
    pub claims: Vec<Claim>,
    /// What had to be assumed because the paper is silent, a sentence each.
    pub assumptions: Vec<String>,
    /// Other remarks, a sentence or paragraph each.
    pub notes: Vec<String>,
    /// The command that makes it again.
    pub command: String,
    /// The seed that all of its randomness comes from.
    pub seed: u64,
    /// Whether it was made with short runs.
    pub quick: bool,
}

impl Figure {
    /// Name of a plot's files without their extension: the figure's name, and a letter if there are several plots.
    pub fn stem(&self, plot: usize) -> String {
        match self.plots.len() {
            0 | 1 => self.name.clone(),
            ..=26 => format!("{}{}", self.name, char::from(b'a' + plot as u8)),
            _ => format!("{}-{}", self.name, plot + 1),
        }
    }

    /// How many claims of these figures have each verdict, in the order of [`ClaimVerdict::NAMES`].
    pub fn tally<'a>(figures: impl IntoIterator<Item = &'a Self>) -> [usize; 4] {
        let mut tally = [0; 4];
        for claim in figures.into_iter().flat_map(|figure| &figure.claims) {
            tally[claim.verdict.place()] += 1;
        }
        tally
    }
}

/// A table of text: names to the left, figures to the right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportTable {
    /// Names of the columns.
    pub header: Vec<String>,
    /// Each as long as the header.
    pub rows: Vec<Vec<String>>,
}

impl ReportTable {
    /// A table without rows.
    pub fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self { header: header.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }
}

/// Curves or bars over one pair of axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// One line.
    pub title: String,
    /// The horizontal axis. If its scale has names, the plot is a bar chart.
    pub x: Axis,
    /// The vertical axis; never with names.
    pub y: Axis,
    /// The data, drawn and listed in this order.
    pub series: Vec<PlotSeries>,
    /// Lines to compare with, such as the capacity.
    pub references: Vec<Reference>,
    /// Whether the bars of a name stand on each other, as parts of a whole.
    pub is_stacked: bool,
}

impl Plot {
    /// A plot without data.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), references: Vec::new(), is_stacked: false }
    }

    /// A plot of these.
    pub fn of(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        series: impl IntoIterator<Item = PlotSeries>,
    ) -> Self {
        Self { series: series.into_iter().collect(), ..Self::new(title, x, y) }
    }

    /// The same with the bars of a name on each other.
    #[must_use]
    pub fn stacked(self) -> Self {
        Self { is_stacked: true, ..self }
    }

    /// Adds a series.
    pub fn series(&mut self, series: PlotSeries) {
        self.series.push(series);
    }

    /// Adds a level to compare with, such as the capacity: a horizontal line.
    pub fn level(&mut self, label: impl Into<String>, y: f64) {
        self.references.push(Reference { label: label.into(), at: At::Y(y) });
    }

    /// Adds an instant or load to compare with, such as the end of a burst: a vertical line.
    pub fn mark(&mut self, label: impl Into<String>, x: f64) {
        self.references.push(Reference { label: label.into(), at: At::X(x) });
    }
}

/// An axis: what it measures, and how it is divided.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The quantity with its unit, such as `offered load (calls/s)`.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
    /// Its ends; found from the data unless given. What lies outside is not drawn, but stays in the CSV.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// In equal steps.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, range: None }
    }

    /// In powers of ten. What is not above zero is not drawn.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, range: None }
    }

    /// Of things, not numbers: x = 0, 1, 2, ... of the points are these. Makes the plot a bar chart.
    pub fn names<N: Into<String>>(label: impl Into<String>, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { label: label.into(), scale: Scale::Names(names), range: None }
    }

    /// With fixed ends.
    #[must_use]
    pub fn from_to(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }
}

/// How an axis is divided.
#[derive(Clone, PartialEq, Debug)]
pub enum Scale {
    /// In equal steps.
    Linear,
    /// In powers of ten.
    Log,
    /// By name: each whole number stands for one.
    Names(Vec<String>),
}

/// Points that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct PlotSeries {
    /// Name in the legend and the CSV.
    pub name: String,
    /// In order of x. A value that is not a number is a gap.
    pub points: Vec<Point>,
    /// How it is drawn; a bar chart draws every series as bars.
    pub style: Style,
    /// Which colour of the palette; the next one unless given. An exact law has the colour of what is measured.
    pub colour: Option<usize>,
}

impl PlotSeries {
    /// A series of points `(x, y)`.
    pub fn new(name: impl Into<String>, style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, half_width: None }).collect();
        Self { name: name.into(), points, style, colour: None }
    }

    /// Straight lines between points `(x, y)`.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(name, Style::Line, points)
    }

    /// A bar of this height for each name of the axis.
    pub fn bars(name: impl Into<String>, heights: impl IntoIterator<Item = f64>) -> Self {
        Self::line(name, (0..).map(f64::from).zip(heights))
    }

    /// A series of points `(x, interval)`, with a bar for the interval.
    pub fn intervals(
        name: impl Into<String>,
        style: Style,
        points: impl IntoIterator<Item = (f64, Interval)>,
    ) -> Self {
        let point = |(x, y): (f64, Interval)| Point { x, y: y.mean, half_width: Some(y.half_width) };
        Self { name: name.into(), points: points.into_iter().map(point).collect(), style, colour: None }
    }

    /// Where the last value of a step curve ends: it lasts as long as the one before it.
    pub(super) fn end(&self) -> Option<f64> {
        match self.points.as_slice() {
            [.., before, last] if self.style == Style::Step => Some(2.0 * last.x - before.x),
            _ => None,
        }
    }

    /// With a certain colour of the palette, counted from 0.
    #[must_use]
    pub fn colour(self, colour: usize) -> Self {
        Self { colour: Some(colour), ..self }
    }
}

/// A value, and how sure it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Value, or not a number where there is none.
    pub y: f64,
    /// Half of the 95 % confidence interval, where there is one.
    pub half_width: Option<f64>,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Straight lines between points, with markers where points are few.
    Line,
    /// Each value lasts until the next x, the last one as long as the one before: counts over time.
    Step,
    /// Markers alone: measurements beside a law.
    Points,
    /// A thin dashed line without markers: an exact law or an ideal.
    Law,
}

/// A line to compare with.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// Name in the legend.
    pub label: String,
    /// Where it stands.
    pub at: At,
}

/// Where a reference line stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum At {
    /// Vertical, at this x.
    X(f64),
    /// Horizontal, at this y.
    Y(f64),
}

/// A statement of the paper, put to the test on the data.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// Which plot it is about, from 0: it stands beside that one.
    pub plot: usize,
    /// Where the paper says so, such as `section V-B`.
    pub source: String,
    /// What the paper states.
    pub statement: String,
    /// What the data say, with numbers.
    pub measured: String,
    /// Whether the two agree.
    pub verdict: ClaimVerdict,
    /// What makes the model differ from the statement where it does, if that is known.
    pub cause: Option<String>,
}

impl Claim {
    /// A statement about the first plot, decided by the data: whether it holds, or a verdict.
    pub fn check(
        source: impl Into<String>,
        statement: impl Into<String>,
        measured: impl Into<String>,
        verdict: impl Into<ClaimVerdict>,
    ) -> Self {
        let verdict = verdict.into();
        let (source, statement, measured) = (source.into(), statement.into(), measured.into());
        Self { plot: 0, source, statement, measured, verdict, cause: None }
    }

    /// A statement about the first plot that this model cannot decide, and why.
    pub fn out_of_reach(
        source: impl Into<String>,
        statement: impl Into<String>,
        measured: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            verdict: ClaimVerdict::OutOfReach(why.into()),
            ..Self::check(source, statement, measured, false)
        }
    }

    /// The same about another plot, counted from 0.
    #[must_use]
    pub fn about(self, plot: usize) -> Self {
        Self { plot, ..self }
    }

    /// The same with what makes the model differ, should it fail.
    #[must_use]
    pub fn differs_by(self, cause: &str) -> Self {
        Self { cause: Some(cause.to_owned()), ..self }
    }

    /// Why the statement does not simply hold; `None` if it does, or fails for no reason that is known.
    pub fn why(&self) -> Option<&str> {
        match &self.verdict {
            ClaimVerdict::Holds => None,
            ClaimVerdict::Fails => self.cause.as_deref(),
            ClaimVerdict::Open => {
                Some("Too few samples: the interval has the statement and its contrary in it.")
            }
            ClaimVerdict::OutOfReach(why) => Some(why),
        }
    }
}

/// Whether the paper's statement and the data agree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimVerdict {
    /// They agree.
    Holds,
    /// They do not.
    Fails,
    /// There are too few samples to tell: the statement and its contrary lie within the interval.
    Open,
    /// The model cannot show it, for this reason.
    OutOfReach(String),
}

impl From<bool> for ClaimVerdict {
    fn from(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }
}

impl ClaimVerdict {
    /// What verdicts are called.
    pub const NAMES: [&str; 4] = ["holds", "fails", "open", "out of reach"];

    /// Its place in [`NAMES`](Self::NAMES).
    pub fn place(&self) -> usize {
        match self {
            Self::Holds => 0,
            Self::Fails => 1,
            Self::Open => 2,
            Self::OutOfReach(_) => 3,
        }
    }

    /// Whether what an interval is about is surely above zero; fails when it surely is not.
    pub fn above_zero(interval: Interval) -> Self {
        let Interval { mean, half_width } = interval;
        if mean > half_width {
            Self::Holds
        } else if mean <= -half_width {
            Self::Fails
        } else {
            Self::Open
        }
    }

    /// Whether the mean of values is surely above a level.
    pub fn above(values: Interval, level: f64) -> Self {
        Self::above_zero(Interval { mean: values.mean - level, ..values })
    }

    /// Whether it is surely below.
    pub fn below(values: Interval, level: f64) -> Self {
        Self::above_zero(Interval { mean: level - values.mean, ..values })
    }

    /// Of two that must both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == Self::Holds || other == Self::Fails { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_an_interval_on_one_side_of_zero() {
        let of = |mean, half_width| ClaimVerdict::above_zero(Interval { mean, half_width });
        assert_eq!(
            [of(2.0, 1.0), of(-2.0, 1.0), of(0.0, 0.0)],
            [ClaimVerdict::Holds, ClaimVerdict::Fails, ClaimVerdict::Fails]
        );
        for open in [of(0.5, 1.0), of(-0.5, 1.0), of(9.0, f64::INFINITY), of(f64::NAN, f64::NAN)] {
            assert_eq!(open, ClaimVerdict::Open);
        }
    }

    #[test]
    fn of_two_verdicts_the_worse_counts() {
        use ClaimVerdict::{Fails, Holds, Open};
        assert_eq!([Holds.and(Holds), Holds.and(Open), Open.and(Open)], [Holds, Open, Open]);
        assert_eq!([Fails.and(Open), Open.and(Fails), Holds.and(Fails)], [Fails, Fails, Fails]);
    }
}
