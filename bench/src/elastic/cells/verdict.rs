//! Whether a queue is worth having in a cell, beside least work left (TLWL) without one.

use papers::report::ClaimVerdict;
use sim::stats::Interval;

use super::plan::{Cell, Run, Way};
use super::result::RunResult;

/// A percentile of set-up times may be this many times that of TLWL.
const WORSE_MAX: f64 = 1.1;
/// Where this many neighbours are busy the 99th percentile is to be at most this many times that of TLWL.
const MANY: u32 = 3;
const BETTER: f64 = 0.5;
/// Seconds until the share of a disturbed server has fallen, and until it is back.
const DOWN_S: f64 = 2.0;
const BACK_S: f64 = 10.0;

/// The runs of all cells so far.
#[derive(Default)]
pub struct Runs(pub Vec<(Run, RunResult)>);

/// A statement about a cell.
pub struct Statement {
    /// Its name, as the header of a column.
    pub name: &'static str,
    /// What the runs say.
    pub measured: String,
    /// Whether it holds.
    pub verdict: ClaimVerdict,
}

impl Runs {
    /// The results of a way in a cell, by round.
    pub fn of(&self, cell: &Cell, way: Way) -> Vec<(u32, RunResult)> {
        let all = self.0.iter().filter(|(run, _)| run.cell == *cell && run.way == way);
        let mut found: Vec<_> = all.map(|(run, result)| (run.round, *result)).collect();
        found.sort_by_key(|(round, _)| *round);
        found
    }

    /// Whether this run has been made.
    pub fn has(&self, run: &Run) -> bool {
        self.0.iter().any(|(made, _)| made == run)
    }

    /// The cells that there are runs of, in the order in which they came.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (run, _) in &self.0 {
            if !cells.contains(&run.cell) {
                cells.push(run.cell);
            }
        }
        cells
    }

    /// What is said of a way in a cell; of a queue beside TLWL in the same rounds.
    pub fn statements(&self, cell: &Cell, way: Way) -> Vec<Statement> {
        let p99 = self.logarithms(cell, way, |result| result.p99_ms);
        let mut statements = vec![
            at_most("p50 of TLWL's", self.logarithms(cell, way, |result| result.p50_ms), WORSE_MAX),
            at_most("p95", self.logarithms(cell, way, |result| result.p95_ms), WORSE_MAX),
            at_most("p99", p99, WORSE_MAX),
        ];
        if cell.neighbours >= MANY {
            statements.push(at_most("p99 at most half", p99, BETTER));
        }
        let times = |value: fn(&RunResult) -> f64| -> Vec<f64> {
            self.of(cell, way).iter().map(|(_, result)| value(result)).collect()
        };
        // A contention that is over before the share has to have fallen says nothing.
        if cell.neighbours > 0 && f64::from(cell.seconds) >= DOWN_S {
            statements.push(within("down within 2 s", &times(|result| result.down_s), DOWN_S));
        }
        if cell.neighbours > 0 {
            statements.push(within("back within 10 s", &times(|result| result.back_s), BACK_S));
        }
        statements
    }

    /// Logarithms of a value of this way by that of TLWL in the same round, which had the same arrivals.
    fn logarithms(&self, cell: &Cell, way: Way, value: fn(&RunResult) -> f64) -> Interval {
        let others = self.of(cell, Way::Tlwl);
        let ratio = |(round, result): &(u32, RunResult)| {
            let (_, other) = others.iter().find(|(other, _)| other == round)?;
            Some((value(result) / value(other)).ln())
        };
        Interval::over(self.of(cell, way).iter().filter_map(ratio))
    }
}

/// Whether a ratio is surely no more than this.
fn at_most(name: &'static str, logarithm: Interval, most: f64) -> Statement {
    let verdict = ClaimVerdict::below(logarithm, most.ln());
    Statement { name, measured: logarithm.ratio(), verdict }
}

/// Whether something came in time in every run; it fails if it did in none. One run decides nothing.
fn within(name: &'static str, times: &[f64], most: f64) -> Statement {
    let in_time = times.iter().filter(|time| **time <= most).count();
    let verdict = match in_time {
        _ if times.len() < 2 => ClaimVerdict::Open,
        0 => ClaimVerdict::Fails,
        count if count == times.len() => ClaimVerdict::Holds,
        _ => ClaimVerdict::Open,
    };
    Statement { name, measured: format!("{in_time} of {}", times.len()), verdict }
}

#[cfg(test)]
mod tests {
    use super::super::plan::ServerKind;
    use super::*;
    use ClaimVerdict::{Fails, Holds, Open};

    const MIDDLE: Cell = Cell::middle(ServerKind::Kamailio);

    /// Runs of TLWL with 40, 44 and 36 ms, and of the queue with so many times that.
    fn runs(cell: Cell, ratios: &[f64], down_s: f64) -> Runs {
        let run = |way, round| Run { cell, round, way };
        let mut runs = Runs::default();
        for ((round, base), ratio) in (0..).zip([40.0, 44.0, 36.0]).zip(ratios) {
            for (way, ms) in [(Way::Queue, base * ratio), (Way::Tlwl, base)] {
                let result = RunResult {
                    p50_ms: ms,
                    p95_ms: ms,
                    p99_ms: ms,
                    down_s,
                    back_s: 10.0,
                    ..RunResult::default()
                };
                runs.0.push((run(way, round), result));
            }
        }
        runs
    }

    fn verdicts(cell: Cell, ratios: &[f64], down_s: f64) -> Vec<ClaimVerdict> {
        let statements = runs(cell, ratios, down_s).statements(&cell, Way::Queue);
        statements.into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn a_ratio_is_decided_where_its_interval_is_on_one_side() {
        assert_eq!(verdicts(MIDDLE, &[0.4, 0.41, 0.39], 2.0), [Holds, Holds, Holds, Holds, Holds, Holds]);
        // No worse, and no better by half; the share too late.
        assert_eq!(verdicts(MIDDLE, &[1.0, 1.02, 0.98], 2.1), [Holds, Holds, Holds, Fails, Fails, Holds]);
        assert_eq!(verdicts(MIDDLE, &[1.3, 1.31, 1.29], 2.0)[..4], [Fails, Fails, Fails, Fails]);
        // Too wide, or a single run.
        assert_eq!(verdicts(MIDDLE, &[0.6, 1.0, 1.6], 2.0)[..4], [Open, Open, Open, Open]);
        assert_eq!(verdicts(MIDDLE, &[0.1], 2.0)[..4], [Open, Open, Open, Open]);
        assert_eq!(verdicts(MIDDLE, &[], 2.0), [Open, Open, Open, Open, Open, Open]);
    }

    #[test]
    fn statements_are_those_that_the_cell_can_decide() {
        let count = |cell| verdicts(cell, &[1.0, 1.0, 1.0], 1.0).len();
        let cells = [
            MIDDLE,
            Cell { neighbours: 2, ..MIDDLE },
            Cell { neighbours: 0, ..MIDDLE },
            Cell { seconds: 1, ..MIDDLE },
        ];
        assert_eq!(cells.map(count), [6, 5, 3, 5]);
    }

    #[test]
    fn a_round_is_compared_with_the_same_round() {
        let mut runs = runs(MIDDLE, &[0.5, 0.5, 0.5], 1.0);
        runs.0.reverse();
        let statement = &runs.statements(&MIDDLE, Way::Queue)[1];
        assert_eq!((statement.measured.as_str(), &statement.verdict), ("0.50 (0.50 - 0.50)", &Holds));
        // A round that TLWL does not have yet says nothing.
        runs.0.retain(|(run, _)| (run.round, run.way) != (2, Way::Tlwl));
        runs.0.iter_mut().filter(|(run, _)| run.round == 2).for_each(|(_, result)| result.p95_ms = 1e9);
        assert_eq!(runs.statements(&MIDDLE, Way::Queue)[1].measured, "0.50 (0.50 - 0.50)");
        assert_eq!(runs.cells(), [MIDDLE]);
    }

    #[test]
    fn times_are_counted_by_run() {
        let of = |times: &[f64]| within("", times, 2.0).verdict;
        assert_eq!(
            [&[1.0, 2.0][..], &[1.0, f64::INFINITY], &[3.0, 2.1], &[1.0], &[3.0], &[]].map(of),
            [Holds, Open, Fails, Open, Open, Open]
        );
    }
}
