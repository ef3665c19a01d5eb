//! What one run came to, as callers noticed it, and its line in the file of all runs.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::plan::{Cell, Run, ServerKind, Way};
use crate::overload::log::{CallLog, CallRecord};
use crate::report::name;

/// Set-up time of a call that was refused or lost, milliseconds: its caller gives up after 64*T1 (RFC 3261 §17.1.1.2).
/// So a way gains nothing by calls that it does not carry.
pub const NEVER_MS: f64 = 32_000.0;
/// Seconds after the contention whose calls count.
pub(super) const RELIEF: f64 = 10.0;
/// Seconds after the window of a cell without contention.
const UNDISTURBED_AFTER: f64 = 1.0;
/// Seconds over which a share is taken to see when it falls and returns, and how far on the next one begins.
const SHARE_WINDOW: f64 = 0.5;
const SHARE_STEP: f64 = 0.1;
/// A share has fallen at this part of the fair one, and has returned at this one.
const FALLEN: f64 = 0.5;
const RETURNED: f64 = 0.8;

/// The parts of a run, seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timeline {
    /// Does not count: the queue finds out what the servers take.
    pub settle: f64,
    /// Undisturbed.
    pub before: f64,
    /// After the contention; the last seconds only see late answers come.
    pub after: f64,
}

impl Timeline {
    /// Begin and end of the contention.
    pub(super) fn contention(&self, cell: &Cell) -> Range<f64> {
        let begin = self.settle + self.before;
        begin..begin + f64::from(cell.seconds)
    }

    /// The whole run. Without contention there is nothing to come back from.
    pub fn total(&self, cell: &Cell) -> f64 {
        let after = if cell.neighbours == 0 { UNDISTURBED_AFTER } else { self.after };
        self.contention(cell).end + after
    }
}

/// What a run came to. Counts and times are of the calls that were due in the contention or within ten seconds after.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RunResult {
    /// How many there were.
    pub calls: f64,
    /// Set-up times, milliseconds.
    pub p50_ms: f64,
    /// Likewise.
    pub p95_ms: f64,
    /// Likewise.
    pub p99_ms: f64,
    /// Share of the disturbed servers among answered calls before, in and after the contention.
    pub shares: [f64; 3],
    /// Seconds of contention until the share has fallen to half of the fair one; infinite if it never does.
    pub down_s: f64,
    /// Seconds from the end of the contention until the share is back at 80 % of the fair one; infinite likewise.
    pub back_s: f64,
    /// INVITEs that callers sent again.
    pub repeated: f64,
    /// Calls that were refused.
    pub refused: f64,
    /// Calls that were neither answered nor refused when the run ended.
    pub lost: f64,
    /// Longest that a call left after it was due, milliseconds: the callers' own lateness.
    pub late_ms: f64,
    /// Processors that kept busy with other work than the measurement.
    pub others: f64,
}

/// The calls that were due in this time, in seconds.
fn due(log: &CallLog, seconds: Range<f64>) -> &[CallRecord] {
    let [from, to] = [seconds.start, seconds.end].map(|at| (at * 1e9).round() as u64);
    let [from, to] = [from, to].map(|at| log.calls.partition_point(|call| call.due_ns < at));
    &log.calls[from..to]
}

/// The share of the first `disturbed` servers among calls that were answered; NaN of none.
fn share(calls: &[CallRecord], disturbed: usize) -> f64 {
    let answered = calls.iter().filter_map(|call| call.server);
    let (its, all) =
        answered.fold((0, 0), |(its, all), server| (its + u32::from(server < disturbed), all + 1));
    f64::from(its) / f64::from(all)
}

impl RunResult {
    /// Of a run through these parts.
    pub(super) fn of(log: &CallLog, cell: &Cell, times: &Timeline) -> Self {
        let Range { start: begin, end } = times.contention(cell);
        let counted = due(log, begin..end + RELIEF);
        let set_up_ms =
            |call: &CallRecord| call.set_up_ns.map_or(NEVER_MS, |set_up_ns| set_up_ns as f64 / 1e6);
        let mut took: Vec<f64> = counted.iter().map(set_up_ms).collect();
        took.sort_by(f64::total_cmp);
        let percentile = |percent: usize| {
            let at = (took.len() * percent).div_ceil(100).checked_sub(1);
            at.map_or(f64::NAN, |at| took[at])
        };
        let count = |is: fn(&&CallRecord) -> bool| counted.iter().filter(is).count() as f64;
        let of = |seconds| share(due(log, seconds), cell.disturbed);
        // The first window of this time in which the share is as asked for: when it ends.
        let until = |seconds: Range<f64>, is: &dyn Fn(f64) -> bool| {
            let steps = ((seconds.end - seconds.start - SHARE_WINDOW) / SHARE_STEP + 1e-6) as u32;
            let window = |step| seconds.start + f64::from(step) * SHARE_STEP;
            let found = (0..=steps).map(window).find(|from| is(of(*from..from + SHARE_WINDOW)));
            found.map_or(f64::INFINITY, |from| from + SHARE_WINDOW - seconds.start)
        };
        let fair = cell.fair_share();
        Self {
            calls: counted.len() as f64,
            p50_ms: percentile(50),
            p95_ms: percentile(95),
            p99_ms: percentile(99),
            shares: [of(times.settle..begin), of(begin..end), of(end..end + RELIEF)],
            down_s: until(begin..end, &|share| share <= FALLEN * fair),
            back_s: until(end..end + times.after, &|share| share >= RETURNED * fair),
            repeated: counted.iter().map(|call| f64::from(call.repeated)).sum(),
            refused: count(|call| call.set_up_ns.is_none() && call.refused_ns.is_some()),
            lost: count(|call| call.set_up_ns.is_none() && call.refused_ns.is_none()),
            late_ms: log.late_ns_max as f64 / 1e6,
            others: 0.0,
        }
    }

    fn values(&self) -> [f64; 14] {
        let Self { calls, p50_ms, p95_ms, p99_ms, shares: [before, during, after], down_s, back_s, .. } =
            *self;
        let Self { repeated, refused, lost, late_ms, others, .. } = *self;
        [
            calls, p50_ms, p95_ms, p99_ms, before, during, after, down_s, back_s, repeated, refused, lost,
            late_ms, others,
        ]
    }
}

/// Names of the columns.
pub const HEADER: &str = "server,neighbours,seconds,disturbed,load,round,way,calls,p50_ms,p95_ms,p99_ms,share_before,\
                          share_during,share_after,down_s,back_s,invites_repeated,refused,lost,late_ms,others";

/// The line of a run.
pub fn line(run: &Run, result: &RunResult) -> String {
    let Run { cell: Cell { server, neighbours, seconds, disturbed, load }, round, way } = run;
    let values = result.values().map(|value| format!("{value:.4}")).join(",");
    format!("{},{neighbours},{seconds},{disturbed},{load},{round},{way},{values}", name(server))
}

/// The run of a line, and what it came to.
///
/// # Errors
/// It is none of a run.
pub fn parse(line: &str) -> Result<(Run, RunResult)> {
    let fields: Vec<&str> = line.split(',').collect();
    ensure!(fields.len() == HEADER.split(',').count(), "a line of {} fields: {line}", fields.len());
    let whole = |at: usize| fields[at].parse::<u32>().with_context(|| line.to_owned());
    let named = |what: String| anyhow::anyhow!("{what}: {line}");
    let server = ServerKind::from_str(fields[0], false).map_err(named)?;
    let way = Way::from_str(fields[6], false).map_err(named)?;
    let cell = Cell {
        server,
        neighbours: whole(1)?,
        seconds: whole(2)?,
        disturbed: whole(3)? as usize,
        load: whole(4)?,
    };
    let values: Vec<f64> = fields[7..]
        .iter()
        .map(|field| field.parse())
        .collect::<Result<_, _>>()
        .with_context(|| line.to_owned())?;
    let result = RunResult {
        calls: values[0],
        p50_ms: values[1],
        p95_ms: values[2],
        p99_ms: values[3],
        shares: [values[4], values[5], values[6]],
        down_s: values[7],
        back_s: values[8],
        repeated: values[9],
        refused: values[10],
        lost: values[11],
        late_ms: values[12],
        others: values[13],
    };
    Ok((Run { cell, round: whole(5)?, way }, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Timeline = Timeline { settle: 1.0, before: 2.0, after: 12.0 };

    /// 100 calls a second, the server and set-up time of each as `of` has it at its time.
    fn log(seconds: f64, of: impl Fn(u64, f64) -> (usize, Option<u64>)) -> CallLog {
        let call = |number: u64| {
            let due_ns = number * 10_000_000;
            let (server, set_up_ms) = of(number, due_ns as f64 / 1e9);
            let set_up_ns = set_up_ms.map(|ms| ms * 1_000_000);
            CallRecord { set_up_ns, server: set_up_ns.map(|_| server), ..CallRecord::new(false, due_ns) }
        };
        CallLog { calls: (0..(seconds * 100.0) as u64).map(call).collect(), ..CallLog::default() }
    }

    fn tenths<const N: usize>(values: [f64; N]) -> [i64; N] {
        values.map(|value| (10.0 * value).round() as i64)
    }

    #[test]
    fn percentiles_are_of_the_calls_due_in_the_contention_and_ten_seconds_after() {
        let cell = Cell::middle(ServerKind::Kamailio);
        let total = TIMES.total(&cell);
        assert!((total - 20.0).abs() < 1e-9);
        // Slow before 3 s and from 18 s on; in between a tenth takes 50 ms.
        let calls = log(total, |number, at| {
            let is_counted = (3.0..18.0).contains(&at);
            (
                0,
                Some(if !is_counted {
                    900
                } else if number % 10 == 0 {
                    50
                } else {
                    7
                }),
            )
        });
        let result = RunResult::of(&calls, &cell, &TIMES);
        let times = [result.calls, result.p50_ms, result.p95_ms, result.p99_ms];
        assert_eq!(tenths(times), [15_000, 70, 500, 500]);
    }

    #[test]
    fn what_is_refused_or_lost_took_longer_than_everything() {
        let cell = Cell::middle(ServerKind::Kamailio);
        let mut calls = log(20.0, |number, _| (0, (number % 50 != 1).then_some(7)));
        calls.calls[401].refused_ns = Some(1_000_000);
        calls.calls[402].repeated = 3;
        let result = RunResult::of(&calls, &cell, &TIMES);
        assert_eq!(tenths([result.p95_ms, result.p99_ms]), [70, 320_000]);
        assert_eq!(tenths([result.refused, result.lost, result.repeated]), [10, 290, 30]);
    }

    #[test]
    fn a_share_falls_in_the_contention_and_returns_after_it() {
        let cell = Cell::middle(ServerKind::Kamailio);
        // No call for the first server from 4.25 s, a second and a quarter of contention, to 9.05 s.
        let calls = log(20.0, |number, at| {
            let server = (number % 3) as usize;
            (if (4.25..9.05).contains(&at) { server.max(1) } else { server }, Some(7))
        });
        let result = RunResult::of(&calls, &cell, &TIMES);
        let rounded = |value: f64| (value * 100.0).round() as i64;
        assert_eq!(result.shares.map(rounded), [33, 8, 30]);
        // The window of half a second in which a sixth is left; and that in which a good quarter is there again.
        assert!((1.45..=1.65).contains(&result.down_s), "{}", result.down_s);
        assert!((1.4..=1.6).contains(&result.back_s), "{}", result.back_s);

        let steady = RunResult::of(&log(20.0, |number, _| ((number % 3) as usize, Some(7))), &cell, &TIMES);
        assert_eq!([rounded(steady.down_s), rounded(steady.back_s)], [i64::MAX, 50]);
        // Both of two servers that get nothing: half of two thirds.
        let two = Cell { disturbed: 2, ..cell };
        let result = RunResult::of(&log(20.0, |_, at| (if at < 3.0 { 0 } else { 2 }, Some(7))), &two, &TIMES);
        assert_eq!(tenths([result.shares[0], result.shares[1], result.down_s]), [10, 0, 5]);
        assert!(result.back_s.is_infinite());
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let run = Run { cell: Cell::middle(ServerKind::Kamailio), round: 2, way: Way::TlwlOutlier };
        let result = RunResult {
            calls: 900.0,
            p50_ms: 1.25,
            shares: [0.25, f64::NAN, 0.5],
            down_s: f64::INFINITY,
            back_s: 1.5,
            lost: 2.0,
            others: 0.125,
            ..RunResult::default()
        };
        let written = line(&run, &result);
        assert!(written.starts_with("kamailio,3,5,1,70,2,tlwl-outlier,900.0000,1.2500,"), "{written}");
        assert_eq!(written.split(',').count(), HEADER.split(',').count());
        let (again, read) = parse(&written).expect("its own line");
        assert_eq!((again, line(&run, &read)), (run, written.clone()));
        // What a killed run has left of its last line.
        assert!(parse(&written[..40]).is_err());
        assert!(parse(&written.replace("tlwl-outlier", "luck")).is_err());
    }
}
