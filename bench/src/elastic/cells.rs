//! Conditions under which a queue in front of the servers pays. One or two of three servers lose a part of their
//! processor, database or network card for a while. All ways to distribute calls are compared, at several loads.
//!
//! Callers retransmit INVITE and BYE, answerers their 200 (RFC 3261 §13.3.1.4, §17.1).

use core::fmt;
use std::ops::Range;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use papers::report::Axis;

use super::cluster::Cluster;
use super::{CALLERS, ElasticBench};
use crate::generator::{LoadGenerator, OfferedLoad, poisson_ns};
use crate::log::{CallLog, CallRecord, percentile_ms};
use crate::report::name;
use crate::rig::{BALANCER, address, beside};
use crate::study::{
    Alternative, Bound, Cell, Figures, Measure, Over, Picture, Question, Round, Study, Values,
};

/// Number of servers.
pub(super) const COUNT: usize = 3;
/// Calls in progress while the capacity is measured: servers always have work, and no caller waits long enough to
/// retransmit.
const IN_PROGRESS: usize = 40 * COUNT;
/// Seconds of each preparation step that do not count, and those that do.
const PREPARED: [f64; 2] = [2.0, 6.0];
/// Fraction of the capacity at which the queue's threshold is set, as an operator would do on a usual day. The
/// threshold is twice the undisturbed 95th percentile there, and at least its default.
const USUAL: f64 = 0.7;
const THRESHOLD_MIN_MS: f64 = 10.0;

/// Set-up time of a refused or lost call in nanoseconds: its caller gives up after 64*T1 (RFC 3261 §17.1.1.2). So a way
/// gains nothing by failed calls.
const NEVER_NS: u64 = 32_000_000_000;
/// Seconds after the contention whose calls count.
const RELIEF: f64 = 10.0;
/// Seconds after the counted time of a run without contention.
const UNDISTURBED_AFTER: f64 = 1.0;
/// Window in seconds over which a share is taken to see when it falls and returns, and the step between windows.
const SHARE_WINDOW: f64 = 0.5;
const SHARE_STEP: f64 = 0.1;
/// Fractions of the fair share at which a share has fallen, and has returned.
const FALLEN: f64 = 0.5;
const RETURNED: f64 = 0.8;

/// Highest acceptable ratio of a percentile of set-up times to that of TLWL.
const WORSE_MAX: f64 = 1.1;
/// With at least this many busy neighbours, the 99th percentile must be at most this fraction of that of TLWL.
const MANY: u32 = 3;
const BETTER: f64 = 0.5;
/// Seconds in which a disturbed server's share must have fallen, and in which it must return.
const DOWN_S: f64 = 2.0;
const BACK_S: f64 = 10.0;

/// Program of the servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum ServerKind {
    /// Kamailio as a proxy that keeps transactions.
    Kamailio,
    /// `bench/answerer.py`, which answers calls by itself.
    Python,
    /// The same, and each looks calls up in a database of its own. The neighbours disturb the database.
    PythonDatabase,
    /// The same on a machine of its own. The neighbours share its network card.
    PythonCard,
}

/// A way to distribute calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Way {
    /// Sarabande, round robin.
    RoundRobin,
    /// Kamailio's dispatcher, by calls in progress.
    Kamailio,
    /// Sarabande, least work left.
    Tlwl,
    /// The same with outlier ejection.
    TlwlOutlier,
    /// Sarabande's queue with defaults.
    Queue,
    /// The same with capacity from response times.
    QueueResponses,
    /// Sarabande's queue with capacity from the monitors beside the servers.
    QueueMonitors,
}

/// The conditions of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Conditions {
    pub(super) server: ServerKind,
    /// Busy loops in the control group of each disturbed server, or of its database; or senders on its network card.
    pub(super) neighbours: u32,
    /// Seconds for which they are busy.
    seconds: u32,
    /// Number of disturbed servers, which are the first ones.
    pub(super) disturbed: usize,
    /// Offered load in percent of the undisturbed capacity of all servers.
    load: u32,
}

impl Conditions {
    /// The middle conditions, around which each factor is varied.
    const fn middle(server: ServerKind) -> Self {
        Self { server, neighbours: 3, seconds: 5, disturbed: 1, load: 70 }
    }

    /// Returns the middle for each server, and for the first server the conditions that differ from it in one factor.
    fn around_middle(servers: &[ServerKind]) -> Vec<Self> {
        let mut all: Vec<Self> = servers.iter().map(|server| Self::middle(*server)).collect();
        if let Some(middle) = all.first().copied() {
            all.extend([0, 1, 2, 6].map(|neighbours| Self { neighbours, ..middle }));
            all.extend([1, 30].map(|seconds| Self { seconds, ..middle }));
            all.push(Self { disturbed: 2, ..middle });
            all.extend([40, 90].map(|load| Self { load, ..middle }));
        }
        all
    }

    /// Returns the share of the disturbed servers if calls were distributed equally.
    fn fair_share(&self) -> f64 {
        self.disturbed as f64 / COUNT as f64
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, neighbours, seconds, disturbed, load } = self;
        let server = name(server);
        match neighbours {
            0 => write!(f, "{server}, no contention, load {load} %"),
            _ => write!(f, "{server}, {neighbours} beside {disturbed} of 3 for {seconds} s, load {load} %"),
        }
    }
}

/// Measurements of the servers before the first run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ServerFigures {
    /// Capacity of all servers in calls a second.
    pub(super) capacity: f64,
    /// The queue's threshold in milliseconds.
    pub(super) threshold_ms: f64,
}

/// Phases of a run in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Timeline {
    /// Not counted: the queue learns the servers' capacity.
    settle: f64,
    /// Undisturbed.
    before: f64,
    /// After the contention. In the last seconds only late responses arrive.
    after: f64,
}

impl Timeline {
    fn of(quick: bool) -> Self {
        if quick {
            Self { settle: 2.0, before: 1.0, after: 2.0 }
        } else {
            Self { settle: 8.0, before: 4.0, after: 11.0 }
        }
    }

    /// Returns start and end of the contention.
    fn contention(&self, cell: &Conditions) -> Range<f64> {
        let begin = self.settle + self.before;
        begin..begin + f64::from(cell.seconds)
    }

    /// Returns the length of the run. Without contention no time to recover is needed.
    fn total(&self, cell: &Conditions) -> f64 {
        let after = if cell.neighbours == 0 { UNDISTURBED_AFTER } else { self.after };
        self.contention(cell).end + after
    }
}

/// Result of a run. Counts and times are of the calls due in the contention or within ten seconds after.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct CellSample {
    calls: f64,
    /// Set-up times, milliseconds.
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    /// Share of the disturbed servers among answered calls before, during and after the contention.
    shares: [f64; 3],
    /// Seconds of contention until the share has fallen to half of the fair one; infinite if it never does.
    down_s: f64,
    /// Seconds from the end of the contention until the share is back at 80 % of the fair one; infinite likewise.
    back_s: f64,
    /// INVITEs that callers retransmitted.
    repeated: f64,
    refused: f64,
    /// Calls neither answered nor refused when the run ended.
    lost: f64,
    /// Greatest delay between the due time and the start of a call, in milliseconds: lateness of the callers
    /// themselves.
    late_ms: f64,
}

/// Returns the calls due in this time, in seconds.
fn due(log: &CallLog, seconds: Range<f64>) -> &[CallRecord] {
    let [from, to] = [seconds.start, seconds.end].map(|at| (at * 1e9).round() as u64);
    let [from, to] = [from, to].map(|at| log.calls.partition_point(|call| call.due_ns < at));
    &log.calls[from..to]
}

/// Returns the share of the first `disturbed` servers among answered calls; NaN if there are none.
fn share(calls: &[CallRecord], disturbed: usize) -> f64 {
    let answered = calls.iter().filter_map(|call| call.server);
    let (its, all) =
        answered.fold((0, 0), |(its, all), server| (its + u32::from(server < disturbed), all + 1));
    f64::from(its) / f64::from(all)
}

/// Returns a percentile of the set-up times in milliseconds.
fn percentile(calls: &[CallRecord], percent: usize) -> f64 {
    let mut took: Vec<u64> = calls.iter().map(|call| call.set_up_ns.unwrap_or(NEVER_NS)).collect();
    took.sort_unstable();
    percentile_ms(&took, percent)
}

impl CellSample {
    /// Evaluates a run with these phases.
    fn of(log: &CallLog, cell: &Conditions, times: &Timeline) -> Self {
        let Range { start: begin, end } = times.contention(cell);
        let counted = due(log, begin..end + RELIEF);
        let count = |is: fn(&&CallRecord) -> bool| counted.iter().filter(is).count() as f64;
        let of = |seconds| share(due(log, seconds), cell.disturbed);
        // Returns the end of the first window in which the share fulfils the condition.
        let until = |seconds: Range<f64>, is: &dyn Fn(f64) -> bool| {
            let steps = ((seconds.end - seconds.start - SHARE_WINDOW) / SHARE_STEP + 1e-6) as u32;
            let window = |step| seconds.start + f64::from(step) * SHARE_STEP;
            let found = (0..=steps).map(window).find(|from| is(of(*from..from + SHARE_WINDOW)));
            found.map_or(f64::INFINITY, |from| from + SHARE_WINDOW - seconds.start)
        };
        let fair = cell.fair_share();
        Self {
            calls: counted.len() as f64,
            p50_ms: percentile(counted, 50),
            p95_ms: percentile(counted, 95),
            p99_ms: percentile(counted, 99),
            shares: [of(times.settle..begin), of(begin..end), of(end..end + RELIEF)],
            down_s: until(begin..end, &|share| share <= FALLEN * fair),
            back_s: until(end..end + times.after, &|share| share >= RETURNED * fair),
            repeated: counted.iter().map(|call| f64::from(call.repeated)).sum(),
            refused: count(|call| call.set_up_ns.is_none() && call.refused_ns.is_some()),
            lost: count(|call| call.set_up_ns.is_none() && call.refused_ns.is_none()),
            late_ms: log.late_ns_max as f64 / 1e6,
        }
    }
}

/// Returns 1 if true, else 0. Its mean over rounds is the fraction of rounds in which it was true.
fn is(so: bool) -> f64 {
    f64::from(u8::from(so))
}

fn measures() -> Vec<Measure<CellSample>> {
    let measure = |column, digits, of| Measure { column, digits, of };
    vec![
        measure("calls", None, |it: &CellSample| it.calls),
        measure("p50_ms", Some(1), |it| it.p50_ms),
        measure("p95_ms", Some(1), |it| it.p95_ms),
        measure("p99_ms", Some(1), |it| it.p99_ms),
        measure("share_before", Some(2), |it| it.shares[0]),
        measure("share_during", Some(2), |it| it.shares[1]),
        measure("share_after", Some(2), |it| it.shares[2]),
        measure("down_s", None, |it| it.down_s),
        measure("back_s", None, |it| it.back_s),
        measure("down_in_time", Some(1), |it| is(it.down_s <= DOWN_S)),
        measure("back_in_time", Some(1), |it| is(it.back_s <= BACK_S)),
        measure("repeated", Some(0), |it| it.repeated),
        measure("refused", Some(0), |it| it.refused),
        measure("lost", Some(0), |it| it.lost),
        measure("late_ms", None, |it| it.late_ms),
    ]
}

/// Statements about a queue in a cell, compared with TLWL in the same rounds, which have the same arrivals.
fn questions(cell: &Conditions) -> Vec<Question> {
    let ways = [Way::Queue, Way::QueueResponses, Way::QueueMonitors];
    ways.into_iter().flat_map(|way| questions_of(cell, way)).collect()
}

fn questions_of(cell: &Conditions, way: Way) -> Vec<Question> {
    let values = |way: Way, column| Values::new(cell.to_string(), name(&way), None, column);
    let question = |claim: &str, left, right, bound| Question {
        statement: format!("{cell}: {claim} {}.", name(&way)),
        source: "the queue",
        left,
        right,
        bound,
    };
    let beside = |claim: &str, column, most| {
        question(claim, values(way, column), Some(values(Way::Tlwl, column)), Bound::Below(most))
    };
    let mut questions = vec![
        beside("the median of tlwl is not exceeded by a tenth by", "p50_ms", WORSE_MAX),
        beside("the 95th percentile of tlwl is not exceeded by a tenth by", "p95_ms", WORSE_MAX),
        beside("the 99th percentile of tlwl is not exceeded by a tenth by", "p99_ms", WORSE_MAX),
    ];
    if cell.neighbours >= MANY {
        questions.push(beside("the 99th percentile of tlwl is halved by", "p99_ms", BETTER));
    }
    let in_time = |claim, column| question(claim, values(way, column), None, Bound::Above(0.5));
    // A contention shorter than the limit for the share to fall says nothing.
    if cell.neighbours > 0 && f64::from(cell.seconds) >= DOWN_S {
        questions.push(in_time("the share of the disturbed servers is halved within 2 s by", "down_in_time"));
    }
    if cell.neighbours > 0 {
        questions.push(in_time(
            "the share of the disturbed servers is back 10 s after the contention by",
            "back_in_time",
        ));
    }
    questions
}

/// Results of the calls of a second.
pub(super) struct Second {
    calls: f64,
    lost: f64,
    p50_ms: f64,
    p95_ms: f64,
    /// Share of the first server.
    share: f64,
    /// Running servers.
    servers: f64,
}

impl Second {
    /// Returns all seconds of a run, each with its middle. `servers` returns the number of running servers in each.
    pub(super) fn all(log: &CallLog, seconds: usize, servers: impl Fn(usize) -> f64) -> Vec<(f64, Self)> {
        let second = |second: usize| {
            let calls = due(log, second as f64..second as f64 + 1.0);
            let sample = Self {
                calls: calls.len() as f64,
                lost: calls.iter().filter(|call| call.set_up_ns.is_none()).count() as f64,
                p50_ms: percentile(calls, 50),
                p95_ms: percentile(calls, 95),
                share: share(calls, 1),
                servers: servers(second),
            };
            (second as f64 + 0.5, sample)
        };
        (0..seconds).map(second).collect()
    }

    pub(super) fn measures() -> Vec<Measure<Self>> {
        let measure = |column, digits, of| Measure { column, digits: Some(digits), of };
        vec![
            measure("calls", 0, |it: &Self| it.calls),
            measure("lost", 1, |it| it.lost),
            measure("p50_ms", 1, |it| it.p50_ms),
            measure("p95_ms", 1, |it| it.p95_ms),
            measure("share", 2, |it| it.share),
            measure("servers", 1, |it| it.servers),
        ]
    }
}

impl ElasticBench {
    /// Measures once the capacity of three of these servers, and the 95th percentile at a usual load.
    fn figures(&self, server: ServerKind, figures: &mut Figures) -> Result<ServerFigures> {
        let names = ["calls/s that three carry", "threshold in ms before"];
        let [capacity, threshold] = names.map(|claim| format!("{claim}: {}", name(&server)));
        if figures.get(&threshold).is_none() {
            let found = self.prepare(server)?;
            figures.once(&capacity, || Ok(found.capacity))?;
            figures.once(&threshold, || Ok(found.threshold_ms))?;
        }
        let known = |name| figures.get(name).unwrap_or(f64::NAN);
        Ok(ServerFigures { capacity: known(&capacity), threshold_ms: known(&threshold) })
    }

    fn prepare(&self, server: ServerKind) -> Result<ServerFigures> {
        let mut generator = LoadGenerator::repeating(CALLERS, COUNT)?;
        let nothing = ServerFigures { capacity: f64::NAN, threshold_ms: f64::NAN };
        let cell = Conditions { neighbours: 0, seconds: 0, ..Conditions::middle(server) };
        let _cluster = Cluster::start(self, &cell, Way::Tlwl, &nothing, &mut generator)?;
        let [settle, counted] = PREPARED;
        let seconds = settle + counted;
        let closed = OfferedLoad::Closed { calls: IN_PROGRESS, seconds };
        let capacity = generator.play(&[address(BALANCER)], closed)?.window(settle..seconds).goodput;
        ensure!(capacity > 10.0, "the servers take {capacity} calls/s, which is too little to measure");
        let usual = OfferedLoad::Given(poisson_ns(USUAL * capacity, seconds, 1).into());
        let log = generator.play(&[address(BALANCER)], usual)?;
        let p95_ms = percentile(due(&log, settle..seconds), 95);
        Ok(ServerFigures { capacity, threshold_ms: (2.0 * p95_ms).ceil().max(THRESHOLD_MIN_MS) })
    }

    /// Starts all programs, and plays the calls with the contention.
    fn play(&self, cell: &Conditions, way: Way, round: &mut Round<'_>) -> Result<CallLog> {
        let figures = self.figures(cell.server, round.figures)?;
        let mut generator = LoadGenerator::repeating(CALLERS, COUNT)?;
        let cluster = Cluster::start(self, cell, way, &figures, &mut generator)?;
        let times = Timeline::of(self.quick);
        let rate = f64::from(cell.load) / 100.0 * figures.capacity;
        let load = OfferedLoad::Given(poisson_ns(rate, times.total(cell), round.seed).into());
        let contention = times.contention(cell);
        let disturb = |number| cluster.disturb(number == 0);
        let (log, _) = beside(&[contention.start, contention.end], disturb, || {
            generator.play(&[address(BALANCER)], load)
        })?;
        Ok(log)
    }

    /// Each factor around the middle, by every way.
    pub(super) fn cells(&self, servers: &[ServerKind]) -> Study<'_, CellSample> {
        let mut all = Conditions::around_middle(servers);
        if self.quick {
            all.truncate(1);
        }
        let cell = |conditions: &Conditions| {
            let conditions = *conditions;
            let alternative = |way: &Way| {
                let way = *way;
                Alternative::new(name(&way), move |round| {
                    let log = self.play(&conditions, way, round)?;
                    Ok(vec![(0.0, CellSample::of(&log, &conditions, &Timeline::of(self.quick)))])
                })
            };
            // Only cells that differ from the middle in the number of neighbours are drawn.
            let is_drawn = Conditions { neighbours: 3, ..conditions }
                == Conditions::middle(conditions.server)
                && servers.first() == Some(&conditions.server);
            Cell {
                name: conditions.to_string(),
                x: if is_drawn { f64::from(conditions.neighbours) } else { f64::NAN },
                alternatives: Way::value_variants().iter().map(alternative).collect(),
            }
        };
        Study {
            cells: all.iter().map(cell).collect(),
            measures: measures(),
            questions: all.iter().flat_map(questions).collect(),
            pictures: vec![Picture {
                title: "Set-up time by way and neighbours",
                column: "p99_ms",
                over: Over::Cells("busy neighbours of one of three servers"),
                y: Axis::log("99th percentile (ms)"),
            }],
            ..Study::new(
                "cells",
                "Conditions in which a queue helps",
                "Calls that were due in the contention or within ten seconds after.",
            )
        }
    }

    /// One of three servers shares its processor for 15 s.
    pub(super) fn contention(&self) -> Study<'_, Second> {
        let middle = Conditions::middle(ServerKind::Kamailio);
        let cell = Conditions { neighbours: 1, seconds: if self.quick { 2 } else { 15 }, ..middle };
        let times = Timeline::of(self.quick);
        let alternative = |way: Way| {
            Alternative::new(name(&way), move |round| {
                let log = self.play(&cell, way, round)?;
                Ok(Second::all(&log, times.total(&cell) as usize, |_| COUNT as f64))
            })
        };
        let ways = [Way::RoundRobin, Way::Tlwl, Way::Queue, Way::QueueMonitors];
        let contention = times.contention(&cell);
        let picture =
            |title, column, y| Picture { title, column, over: Over::Places(Axis::linear("time (s)")), y };
        Study {
            at: "time",
            marks: vec![
                ("busy loop beside a server".to_owned(), contention.start),
                ("busy loop ends".to_owned(), contention.end),
            ],
            cells: vec![Cell::new(cell.to_string(), ways.map(alternative).into())],
            measures: Second::measures(),
            pictures: vec![
                picture("Time to be set up", "p95_ms", Axis::log("95th percentile (ms)")),
                picture(
                    "Calls of the disturbed server",
                    "share",
                    Axis::linear("part of the calls").from_to(0.0, 0.5),
                ),
            ],
            ..Study::new("contention", "A busy neighbour", format!("Second by second: {cell}."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_factor_is_varied_by_itself_around_the_middle() {
        let cells = Conditions::around_middle(&[ServerKind::Kamailio, ServerKind::Python]);
        let middle = cells[0];
        for cell in &cells {
            let differs = [
                cell.server != middle.server,
                cell.neighbours != middle.neighbours,
                cell.seconds != middle.seconds,
                cell.disturbed != middle.disturbed,
                cell.load != middle.load,
            ];
            assert!(differs.iter().filter(|differs| **differs).count() <= 1, "{cell}");
        }
        let mut names: Vec<String> = cells.iter().map(Conditions::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 11);
    }

    #[test]
    fn questions_match_the_conditions_of_the_cell() {
        let middle = Conditions::middle(ServerKind::Kamailio);
        let cells = [
            middle,
            Conditions { neighbours: 2, ..middle },
            Conditions { neighbours: 0, ..middle },
            Conditions { seconds: 1, ..middle },
        ];
        assert_eq!(cells.map(|cell| questions_of(&cell, Way::Queue).len()), [6, 5, 3, 5]);
    }

    const TIMES: Timeline = Timeline { settle: 1.0, before: 2.0, after: 12.0 };

    /// Makes 100 calls a second. `of` decides server and set-up time of each.
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
        let cell = Conditions::middle(ServerKind::Kamailio);
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
        let result = CellSample::of(&calls, &cell, &TIMES);
        let times = [result.calls, result.p50_ms, result.p95_ms, result.p99_ms];
        assert_eq!(tenths(times), [15_000, 70, 500, 500]);
    }

    #[test]
    fn refused_and_lost_calls_count_as_the_longest() {
        let cell = Conditions::middle(ServerKind::Kamailio);
        let mut calls = log(20.0, |number, _| (0, (number % 50 != 1).then_some(7)));
        calls.calls[401].refused_ns = Some(1_000_000);
        calls.calls[402].repeated = 3;
        let result = CellSample::of(&calls, &cell, &TIMES);
        assert_eq!(tenths([result.p95_ms, result.p99_ms]), [70, 320_000]);
        assert_eq!(tenths([result.refused, result.lost, result.repeated]), [10, 290, 30]);
    }

    #[test]
    fn a_share_falls_in_the_contention_and_returns_after_it() {
        let cell = Conditions::middle(ServerKind::Kamailio);
        // The first server gets no call from 4.25 s, 1.25 s after the start of the contention, to 9.05 s.
        let calls = log(20.0, |number, at| {
            let server = (number % 3) as usize;
            (if (4.25..9.05).contains(&at) { server.max(1) } else { server }, Some(7))
        });
        let result = CellSample::of(&calls, &cell, &TIMES);
        let rounded = |value: f64| (value * 100.0).round() as i64;
        assert_eq!(result.shares.map(rounded), [33, 8, 30]);
        // The half second in which a sixth is left, and the one in which a good quarter is back.
        assert!((1.45..=1.65).contains(&result.down_s), "{}", result.down_s);
        assert!((1.4..=1.6).contains(&result.back_s), "{}", result.back_s);

        let steady = CellSample::of(&log(20.0, |number, _| ((number % 3) as usize, Some(7))), &cell, &TIMES);
        assert_eq!([rounded(steady.down_s), rounded(steady.back_s)], [i64::MAX, 50]);
        // Two disturbed servers get no calls: half of two thirds.
        let two = Conditions { disturbed: 2, ..cell };
        let result =
            CellSample::of(&log(20.0, |_, at| (if at < 3.0 { 0 } else { 2 }, Some(7))), &two, &TIMES);
        assert_eq!(tenths([result.shares[0], result.shares[1], result.down_s]), [10, 0, 5]);
        assert!(result.back_s.is_infinite());
    }
}
