//! Data of a figure: plots, and the paper's statements about them.

use sim::stats::Interval;

/// A reproduced figure of a paper: data, the paper's statements about it, and the assumptions of the model.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Name on the command line and in file names, such as `overload-7`.
    pub name: String,
    /// Title of one line.
    pub title: String,
    /// Source, such as `Overload paper, figure 7`.
    pub source: String,
    /// Tables above the plots.
    pub tables: Vec<ReportTable>,
    /// Plots, in the order of the paper.
    pub plots: Vec<Plot>,
    /// Statements of the paper, with the verdicts of the data.
    pub claims: Vec<Statement>,
    /// Assumptions where the paper gives no value, one sentence each.
    pub assumptions: Vec<String>,
    /// Further remarks, a sentence or paragraph each.
    pub notes: Vec<String>,
    /// Command that makes the figure again.
    pub command: String,
    /// Seed of all its random numbers.
    pub seed: u64,
    /// Whether it was made with quick runs.
    pub quick: bool,
}

impl Figure {
    /// Base name of a plot's files: the figure's name, and a letter or number if there are several plots.
    pub fn stem(&self, plot: usize) -> String {
        match self.plots.len() {
            0 | 1 => self.name.clone(),
            ..=26 => format!("{}{}", self.name, char::from(b'a' + plot as u8)),
            _ => format!("{}-{}", self.name, plot + 1),
        }
    }

    /// Number of these figures' claims for each verdict, in the order of [`StatementVerdict::NAMES`].
    pub fn tally<'a>(figures: impl IntoIterator<Item = &'a Self>) -> [usize; 4] {
        let mut tally = [0; 4];
        for claim in figures.into_iter().flat_map(|figure| &figure.claims) {
            tally[claim.verdict.place()] += 1;
        }
        tally
    }
}

/// A table of text, with names in the left column and numbers to the right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportTable {
    /// Names of the columns.
    pub header: Vec<String>,
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
}

impl ReportTable {
    /// Returns a table without rows.
    pub fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self { header: header.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }
}

/// Curves or bars over one pair of axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// Title of one line.
    pub title: String,
    /// The horizontal axis. If its scale has names, the plot is a bar chart.
    pub x: Axis,
    /// The vertical axis; never with names.
    pub y: Axis,
    /// The data, drawn and listed in this order.
    pub series: Vec<PlotSeries>,
    /// Reference lines, such as the capacity.
    pub references: Vec<Reference>,
    /// Whether the bars of one name are stacked, as parts of a whole.
    pub is_stacked: bool,
}

impl Plot {
    /// Returns a plot without data.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), references: Vec::new(), is_stacked: false }
    }

    /// Returns a plot of these series.
    pub fn of(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        series: impl IntoIterator<Item = PlotSeries>,
    ) -> Self {
        Self { series: series.into_iter().collect(), ..Self::new(title, x, y) }
    }

    /// Returns the plot with stacked bars.
    #[must_use]
    pub fn stacked(self) -> Self {
        Self { is_stacked: true, ..self }
    }

    /// Adds a series.
    pub fn series(&mut self, series: PlotSeries) {
        self.series.push(series);
    }

    /// Adds a horizontal reference line, such as the capacity.
    pub fn level(&mut self, label: impl Into<String>, y: f64) {
        self.references.push(Reference { label: label.into(), at: At::Y(y) });
    }

    /// Adds a vertical reference line, such as the end of a burst.
    pub fn mark(&mut self, label: impl Into<String>, x: f64) {
        self.references.push(Reference { label: label.into(), at: At::X(x) });
    }
}

/// An axis: its quantity and its scale.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The quantity with its unit, such as `offered load (calls/s)`.
    pub label: String,
    /// Scale.
    pub scale: Scale,
    /// Ends of the axis; `None` derives them from the data. Points outside are not drawn, but stay in the CSV.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// Returns a linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, range: None }
    }

    /// Returns a logarithmic axis. Values up to zero are not drawn.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, range: None }
    }

    /// Returns an axis of names for x = 0, 1, 2, ... It makes the plot a bar chart.
    pub fn names<N: Into<String>>(label: impl Into<String>, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { label: label.into(), scale: Scale::Names(names), range: None }
    }

    /// Returns the axis with fixed ends.
    #[must_use]
    pub fn from_to(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }
}

/// Scale of an axis.
#[derive(Clone, PartialEq, Debug)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic to base ten.
    Log,
    /// Names: each whole number represents one name.
    Names(Vec<String>),
}

/// A curve, or the bars of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct PlotSeries {
    /// Name in the legend and the CSV.
    pub name: String,
    /// In order of x. A value that is not a number is a gap.
    pub points: Vec<Point>,
    /// Drawing style; a bar chart draws every series as bars.
    pub style: Style,
    /// Index of the colour in the palette; `None` takes the next one. An exact curve shares its measured one's.
    pub colour: Option<usize>,
}

impl PlotSeries {
    /// Returns a series of points `(x, y)`.
    pub fn new(name: impl Into<String>, style: Style, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, half_width: None }).collect();
        Self { name: name.into(), points, style, colour: None }
    }

    /// Returns a series of straight lines between points `(x, y)`.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::new(name, Style::Line, points)
    }

    /// Returns bars with these heights, one for each name of the axis.
    pub fn bars(name: impl Into<String>, heights: impl IntoIterator<Item = f64>) -> Self {
        Self::line(name, (0..).map(f64::from).zip(heights))
    }

    /// Returns a series of points `(x, interval)`, drawn with error bars.
    pub fn intervals(
        name: impl Into<String>,
        style: Style,
        points: impl IntoIterator<Item = (f64, Interval)>,
    ) -> Self {
        let point = |(x, y): (f64, Interval)| Point { x, y: y.mean, half_width: Some(y.half_width) };
        Self { name: name.into(), points: points.into_iter().map(point).collect(), style, colour: None }
    }

    /// End of the last step of a step curve: it is as long as the one before. `None` for other styles.
    pub(super) fn end(&self) -> Option<f64> {
        match self.points.as_slice() {
            [.., before, last] if self.style == Style::Step => Some(2.0 * last.x - before.x),
            _ => None,
        }
    }

    /// Returns the series with this colour of the palette, counted from 0.
    #[must_use]
    pub fn colour(self, colour: usize) -> Self {
        Self { colour: Some(colour), ..self }
    }
}

/// A value with its uncertainty.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Horizontal position.
    pub x: f64,
    /// Value; NaN if there is none.
    pub y: f64,
    /// Half width of the 95 % confidence interval, if there is one.
    pub half_width: Option<f64>,
}

/// Drawing style of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Straight lines between points, with markers if there are few points.
    Line,
    /// Each value lasts until the next x, the last one as long as the one before. For counts over time.
    Step,
    /// Markers only, for measurements beside an exact curve.
    Points,
    /// A thin dashed line without markers, for an exact law or an ideal.
    Law,
}

/// A reference line.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// Name in the legend.
    pub label: String,
    /// Position.
    pub at: At,
}

/// Position of a reference line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum At {
    /// Vertical, at this x.
    X(f64),
    /// Horizontal, at this y.
    Y(f64),
}

/// A statement of the paper, checked on the data.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// Index of the plot that it is about and that it is shown beside.
    pub plot: usize,
    /// Source in the paper, such as `section V-B`.
    pub source: String,
    /// Statement of the paper.
    pub statement: String,
    /// Result of the data, with numbers.
    pub measured: String,
    /// Whether statement and data agree.
    pub verdict: StatementVerdict,
    /// Cause of the difference between model and statement, if known.
    pub cause: Option<String>,
}

impl Statement {
    /// Returns a claim about the first plot that the data decide: a truth value or a verdict.
    pub fn check(
        source: impl Into<String>,
        statement: impl Into<String>,
        measured: impl Into<String>,
        verdict: impl Into<StatementVerdict>,
    ) -> Self {
        let verdict = verdict.into();
        let (source, statement, measured) = (source.into(), statement.into(), measured.into());
        Self { plot: 0, source, statement, measured, verdict, cause: None }
    }

    /// Returns a claim about the first plot that this model cannot decide, with the reason.
    pub fn out_of_reach(
        source: impl Into<String>,
        statement: impl Into<String>,
        measured: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            verdict: StatementVerdict::OutOfReach(why.into()),
            ..Self::check(source, statement, measured, false)
        }
    }

    /// Returns the claim for another plot, counted from 0.
    #[must_use]
    pub fn about(self, plot: usize) -> Self {
        Self { plot, ..self }
    }

    /// Returns the claim with the cause of a difference, in case it fails.
    #[must_use]
    pub fn differs_by(self, cause: &str) -> Self {
        Self { cause: Some(cause.to_owned()), ..self }
    }

    /// Reason why the statement does not simply hold; `None` if it holds, or fails for an unknown reason.
    pub fn why(&self) -> Option<&str> {
        match &self.verdict {
            StatementVerdict::Holds => None,
            StatementVerdict::Fails => self.cause.as_deref(),
            StatementVerdict::Open => Some("Too few samples for a verdict."),
            StatementVerdict::OutOfReach(why) => Some(why),
        }
    }
}

/// Whether the paper's statement and the data agree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StatementVerdict {
    /// Statement and data agree.
    Holds,
    /// Statement and data disagree.
    Fails,
    /// There are too few samples: the interval contains the statement and its opposite.
    Open,
    /// The model cannot decide it, for this reason.
    OutOfReach(String),
}

impl From<bool> for StatementVerdict {
    fn from(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }
}

impl StatementVerdict {
    /// Names of the verdicts.
    pub const NAMES: [&str; 4] = ["holds", "fails", "open", "out of reach"];

    /// Index in [`NAMES`](Self::NAMES).
    pub fn place(&self) -> usize {
        match self {
            Self::Holds => 0,
            Self::Fails => 1,
            Self::Open => 2,
            Self::OutOfReach(_) => 3,
        }
    }

    /// Holds if the whole interval is above zero, fails if all of it is below.
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

    /// Holds if the whole interval is above a level.
    pub fn above(values: Interval, level: f64) -> Self {
        Self::above_zero(Interval { mean: values.mean - level, ..values })
    }

    /// Holds if the whole interval is below a level.
    pub fn below(values: Interval, level: f64) -> Self {
        Self::above_zero(Interval { mean: level - values.mean, ..values })
    }

    /// Combines two verdicts that must both hold.
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
        let of = |mean, half_width| StatementVerdict::above_zero(Interval { mean, half_width });
        assert_eq!(
            [of(2.0, 1.0), of(-2.0, 1.0), of(0.0, 0.0)],
            [StatementVerdict::Holds, StatementVerdict::Fails, StatementVerdict::Fails]
        );
        for open in [of(0.5, 1.0), of(-0.5, 1.0), of(9.0, f64::INFINITY), of(f64::NAN, f64::NAN)] {
            assert_eq!(open, StatementVerdict::Open);
        }
    }

    #[test]
    fn of_two_verdicts_the_worse_counts() {
        use StatementVerdict::{Fails, Holds, Open};
        assert_eq!([Holds.and(Holds), Holds.and(Open), Open.and(Open)], [Holds, Open, Open]);
        assert_eq!([Fails.and(Open), Open.and(Fails), Holds.and(Fails)], [Fails, Fails, Fails]);
    }
}
