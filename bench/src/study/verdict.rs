//! Statements, and their verdicts from the rows.
//!
//! Two alternatives are compared by the ratio of their values within each round, which had the same arrivals and the
//! same hour of the machine. The 95 % interval of the ratios over rounds (from their logarithms) decides if it lies on
//! one side of the bound. Otherwise, or with a single round, the statement stays open.

use papers::report::StatementVerdict;
use sim::stats::Interval;

use super::Rows;

/// Selects values by cell, alternative, place and column.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) cell: String,
    pub(crate) alternative: String,
    /// `None`: the first sample.
    pub(crate) at: Option<f64>,
    pub(crate) column: &'static str,
}

impl Values {
    pub(crate) fn new(
        cell: impl Into<String>,
        alternative: impl Into<String>,
        at: Option<f64>,
        column: &'static str,
    ) -> Self {
        Self { cell: cell.into(), alternative: alternative.into(), at, column }
    }

    fn of(&self, rows: &Rows) -> Vec<(u32, f64)> {
        rows.values(&self.cell, &self.alternative, self.at, self.column)
    }
}

/// Required range of a value, or of a ratio.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    Above(f64),
    Below(f64),
    Between(f64, f64),
}

impl Bound {
    fn verdict(self, interval: Interval, scale: fn(f64) -> f64) -> StatementVerdict {
        let above = |least| StatementVerdict::above(interval, scale(least));
        let below = |most| StatementVerdict::below(interval, scale(most));
        match self {
            Self::Above(least) => above(least),
            Self::Below(most) => below(most),
            Self::Between(least, most) => above(least).and(below(most)),
        }
    }
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) statement: String,
    /// Source of the statement.
    pub(crate) source: &'static str,
    pub(crate) left: Values,
    /// The bound applies to left divided by right; `None`: to left alone.
    pub(crate) right: Option<Values>,
    pub(crate) bound: Bound,
}

/// Result of a statement.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Answer {
    pub(crate) verdict: StatementVerdict,
    pub(crate) measured: String,
    /// Number of rounds used.
    pub(crate) rounds: usize,
}

impl Question {
    /// Returns the answer; `None` if there are no rows for it.
    pub(crate) fn answer(&self, rows: &Rows) -> Option<Answer> {
        let left = self.left.of(rows);
        let found = match &self.right {
            Some(right) => logarithms(&left, &right.of(rows)),
            None => left.into_iter().map(|(_, value)| value).collect(),
        };
        let rounds = found.len();
        let interval = over(found)?;
        let (verdict, measured) = match self.right {
            Some(_) => (self.bound.verdict(interval, f64::ln), format!("{} times", interval.ratio())),
            None => (self.bound.verdict(interval, |bound| bound), shown(interval, 2)),
        };
        Some(Answer { verdict, measured, rounds })
    }
}

/// Returns the natural logarithms of left divided by right, for rounds that both have.
fn logarithms(left: &[(u32, f64)], right: &[(u32, f64)]) -> Vec<f64> {
    let ratio = |(round, value): &(u32, f64)| {
        let (_, other) = right.iter().find(|(other, _)| other == round)?;
        Some((value / other).ln())
    };
    left.iter().filter_map(ratio).collect()
}

/// Returns the mean with its 95 % interval; `None` if there are no values.
pub(crate) fn over(values: Vec<f64>) -> Option<Interval> {
    (!values.is_empty()).then(|| Interval::over(values))
}

/// Formats a value with its interval, if it has one; NaN as a dash.
pub(crate) fn shown(value: Interval, digits: usize) -> String {
    match (value.mean.is_nan(), value.half_width.is_finite()) {
        (true, _) => "-".to_owned(),
        (false, true) => format!("{value:.digits$}"),
        (false, false) => format!("{:.digits$}", value.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{rows, run};
    use super::*;
    use StatementVerdict::{Fails, Holds, Open};

    /// Rounds of `b` with 40, 44 and 36 ms, and of `a` with these multiples of them.
    fn ratios(of: &[f64]) -> Rows {
        let rounds = (0..).zip([40.0, 44.0, 36.0]).zip(of);
        let runs: Vec<_> = rounds
            .flat_map(|((round, ms), ratio)| {
                [run("c", "a", round, &[ratio * ms]), run("c", "b", round, &[ms])]
            })
            .collect();
        rows(&runs)
    }

    fn values(alternative: &str) -> Values {
        Values::new("c", alternative, None, "ms")
    }

    fn question(bound: Bound) -> Question {
        let (statement, right) = (String::new(), Some(values("b")));
        Question { statement, source: "", left: values("a"), right, bound }
    }

    fn verdict(bound: Bound, of: &[f64]) -> Option<StatementVerdict> {
        question(bound).answer(&ratios(of)).map(|answer| answer.verdict)
    }

    #[test]
    fn a_ratio_is_decided_where_its_interval_is_on_one_side() {
        let half = Bound::Below(0.5);
        assert_eq!(verdict(half, &[0.4, 0.41, 0.39]), Some(Holds));
        assert_eq!(verdict(half, &[1.3, 1.31, 1.29]), Some(Fails));
        assert_eq!(verdict(half, &[0.3, 0.5, 0.8]), Some(Open), "too wide");
        assert_eq!(verdict(half, &[0.1]), Some(Open), "one round");
        assert_eq!(verdict(half, &[]), None);
        assert_eq!(verdict(Bound::Above(1.2), &[1.3, 1.31, 1.29]), Some(Holds));
        assert_eq!(verdict(Bound::Between(0.9, 1.1), &[1.0, 1.01, 0.99]), Some(Holds));
        assert_eq!(verdict(Bound::Between(0.9, 1.1), &[1.3, 1.31, 1.29]), Some(Fails));
        assert_eq!(
            verdict(half, &[0.4, 0.41, f64::NAN]),
            Some(Open),
            "a round without a value is not left out"
        );
    }

    #[test]
    fn a_round_is_compared_with_the_same_round() {
        let mut of = ratios(&[0.5, 0.5, 0.5]);
        of.all.reverse();
        let answer = question(Bound::Below(0.6)).answer(&of).expect("rows");
        assert_eq!((answer.measured.as_str(), answer.rounds), ("0.50 (0.50 - 0.50) times", 3));
        // A round without values of the other alternative is ignored.
        of.all.retain(|row| (row.round, row.alternative.as_str()) != (2, "b"));
        let answer = question(Bound::Below(0.6)).answer(&of).expect("rows");
        assert_eq!((answer.measured.as_str(), answer.rounds), ("0.50 (0.50 - 0.50) times", 2));
    }

    #[test]
    fn a_value_alone_has_a_bound_of_its_own() {
        let of = ratios(&[1.0, 1.0, 1.0]);
        let answer = |bound| Question { right: None, ..question(bound) }.answer(&of).expect("rows");
        assert_eq!(answer(Bound::Above(20.0)).verdict, Holds);
        assert_eq!(answer(Bound::Below(20.0)).verdict, Fails);
        assert_eq!(answer(Bound::Below(41.0)).verdict, Open);
        assert_eq!(answer(Bound::Above(20.0)).measured, "40.00 ± 9.94");
    }
}
