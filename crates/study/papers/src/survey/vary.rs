//! Surveys a scenario at several values of one key, to find its limits or the necessary number of hosts.

use super::page::sentence;
use super::{HostSurvey, Mean, Shares, StreamSurvey, Survey, assumptions, surveys};
use crate::report::{self, Axis, Figure, Plot, PlotSeries, Point as Mark, Style};
use config::scenario::{Scenario, Value};
use core::time::Duration;
use serde::Serialize;
use sim::stats::sweep;
use std::fmt::Write as _;

/// Minimum share of completed calls among the ended ones, for every stream. Below it the load counts as not carried. A
/// network with spare capacity completes almost all calls, an overloaded one soon loses many.
pub const CARRIED: f64 = 0.99;

/// A key, and the results of each of its values.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The key, such as `calls.main.rate`.
    pub key: String,
    /// Never empty; in the requested order.
    pub points: Vec<SweepPoint>,
}

/// One value of the key.
#[derive(Clone, Debug, Serialize)]
pub struct SweepPoint {
    /// The value.
    pub value: Value,
    /// The scenario with this value.
    #[serde(skip)]
    pub scenario: Scenario,
    /// Summary of all its runs.
    pub survey: Survey,
}

/// Runs a scenario at each value, with all replications, on all cores. `passed` gets the simulated time that has passed
/// in one of the runs, on any thread. The same replication has the same seed at every value. `varied` must not be
/// empty.
pub fn vary(key: &str, varied: Vec<(Value, Scenario)>, passed: impl Fn(Duration) + Sync) -> Sweep {
    let (values, scenarios): (Vec<_>, Vec<_>) = varied.into_iter().unzip();
    // Results of a run are large: at most as many values as there are cores are kept at the same time.
    let mut all = Vec::new();
    for some in scenarios.chunks(sweep::all_cores().get()) {
        all.extend(surveys(some, &passed).into_iter().map(|(survey, _)| survey));
    }
    let points = values.into_iter().zip(scenarios).zip(all);
    let points = points.map(|((value, scenario), survey)| SweepPoint { value, scenario, survey });
    Sweep { key: key.to_owned(), points: points.collect() }
}

impl Survey {
    /// Whether every stream completed at least the share [`CARRIED`].
    pub fn carries(&self) -> bool {
        let carried = |ended: &Shares| ended.completed.mean >= CARRIED;
        self.streams.iter().all(|stream| stream.ended.as_ref().is_some_and(carried))
    }

    /// Returns the host with the highest utilisation, the first if several are equal. A scenario has at least one host.
    pub fn busiest(&self) -> &HostSurvey {
        let more = |most: &HostSurvey, host: &HostSurvey| host.utilisation.mean > most.utilisation.mean;
        let busiest = self.hosts.iter().reduce(|most, host| if more(most, host) { host } else { most });
        busiest.expect("a scenario has hosts")
    }
}

/// Two neighbouring values, of which only one carries the load.
struct Edge<'s> {
    last: &'s SweepPoint,
    next: &'s SweepPoint,
}

impl Sweep {
    /// Describes the values at which the load is carried and not carried, as a sentence without its full stop.
    pub fn verdict(&self) -> String {
        let key = &self.key;
        let values = |carried: bool| {
            let held = self.points.iter().filter(|point| point.survey.carries() == carried);
            held.map(|point| point.value.to_string()).collect::<Vec<_>>().join(", ")
        };
        let (held, broken) = (values(true), values(false));
        let found = match self.edge() {
            _ if broken.is_empty() => "at every value".to_owned(),
            _ if held.is_empty() => "at none of these values".to_owned(),
            Some(Edge { last, next }) if last.survey.carries() => {
                format!("up to {key} = {}, and no longer at {}", last.value, next.value)
            }
            Some(Edge { last, next }) => {
                format!("from {key} = {} on, and not yet at {}", next.value, last.value)
            }
            None => format!("at {key} = {held}; not at {broken}"),
        };
        let share = 100.0 * CARRIED;
        let each = if self.points[0].survey.streams.len() > 1 { ", of each stream" } else { "" };
        format!(
            "The load is carried {found} (carried: at least {share} % of the calls that ended were completed{each})"
        )
    }

    /// Returns the only edge as the key grows, if there is exactly one.
    fn edge(&self) -> Option<Edge<'_>> {
        let (numbers, _) = self.quantities()?;
        let mut points: Vec<_> = numbers.into_iter().zip(&self.points).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let pairs = points.windows(2).map(|pair| Edge { last: pair[0].1, next: pair[1].1 });
        let mut edges = pairs.filter(|edge| edge.last.survey.carries() != edge.next.survey.carries());
        edges.next().filter(|_| edges.next().is_none())
    }

    /// Returns the values as numbers of one unit, if possible.
    fn quantities(&self) -> Option<(Vec<f64>, &str)> {
        let all: Option<Vec<_>> = self.points.iter().map(|point| point.value.quantity()).collect();
        let all = all?;
        let unit = all.first()?.1;
        all.iter().all(|quantity| quantity.1 == unit).then(|| (all.iter().map(|all| all.0).collect(), unit))
    }

    /// Returns the printed table as CSV (RFC 4180) with all digits: a row for each value and stream. Fields have the
    /// names of the JSON and are empty for `null`; `host` is the busiest host.
    pub fn csv(&self) -> String {
        let mut out = "value,calls,offered,set_up,goodput,goodput_half_width,completed,response_seconds,\
                       response_p99_seconds,setup_seconds,setup_p99_seconds,host,utilisation\n"
            .to_owned();
        for SweepPoint { value, survey, .. } in &self.points {
            let (value, busiest) = (report::csv_field(&value.to_string()), survey.busiest());
            for stream in &survey.streams {
                let known = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
                let mean = |mean: Option<Mean>| known(mean.map(|mean| mean.mean));
                let _ = writeln!(
                    out,
                    "{value},{},{},{},{},{},{},{},{},{},{},{},{}",
                    stream.name,
                    stream.offered.mean,
                    stream.set_up.mean,
                    stream.goodput.mean,
                    known(stream.goodput.half_width),
                    mean(stream.ended.map(|ended| ended.completed)),
                    mean(stream.response_seconds),
                    mean(stream.response_p99_seconds),
                    mean(stream.setup_seconds),
                    mean(stream.setup_p99_seconds),
                    busiest.name,
                    busiest.utilisation.mean
                );
            }
        }
        out
    }

    /// Plots calls, setup times and utilisation against the value, as bars if values are no numbers. `name` is the name
    /// of the report's files, `file` the scenario's file, `values` the requested values.
    pub fn figure(&self, name: &str, file: &str, values: &str) -> Figure {
        let first = &self.points[0].scenario;
        let mut notes = vec![format!("{name}.csv has the table.")];
        notes.extend(self.merged(|scenario| vec![runs(scenario)]));
        notes.extend(self.remarks().iter().map(sentence));
        Figure {
            name: name.to_owned(),
            title: format!("{}, by {}", first.title, self.key),
            source: format!("{}. Scenario {file}", self.verdict()),
            tables: vec![self.table()],
            plots: vec![self.calls(), self.setup(), self.busy()],
            claims: Vec::new(),
            assumptions: self.merged(assumptions::assumptions),
            notes,
            command: format!("sarabande sim run {file} --vary '{}={values}' --out DIR", self.key),
            seed: first.run.seed,
            quick: false,
        }
    }

    /// Plots offered calls with completed ones. If calls are long relative to the run, it plots calls that were set up
    /// instead, because too few have ended.
    fn calls(&self) -> Plot {
        let unfinished = self.points.iter().any(|point| !point.survey.unfinished.is_empty());
        let (done, of): (_, fn(&StreamSurvey) -> Mean) = if unfinished {
            ("set up", |stream| stream.set_up)
        } else {
            ("completed", |stream| stream.goodput)
        };
        let mut plot = self.plot(&format!("Calls offered and {done}"), Axis::linear("calls/s"));
        // In curves, a stream's offered and completed calls share a colour and differ in their dashes; bars have no
        // dashes.
        let paired =
            |series: PlotSeries, at| if self.quantities().is_some() { series.colour(at) } else { series };
        for (at, stream) in self.points[0].survey.streams.iter().enumerate() {
            let offered = format!("{} offered", stream.name);
            let offered = self.series(offered, Style::Law, |survey| survey.streams[at].offered);
            let done = format!("{} {done}", stream.name);
            let done = self.series(done, Style::Line, |survey| of(&survey.streams[at]));
            plot.series(paired(offered, at));
            plot.series(paired(done, at));
        }
        plot
    }

    fn setup(&self) -> Plot {
        // On a logarithmic axis, bars have no base line at zero.
        let axis = if self.quantities().is_some() { Axis::log } else { Axis::linear };
        let mut plot = self.plot("Time to set a call up", axis("ms"));
        for (at, stream) in self.points[0].survey.streams.iter().enumerate() {
            let mean = |survey: &Survey| in_ms(survey.streams[at].setup_seconds);
            plot.series(self.series(format!("{} mean", stream.name), Style::Line, mean));
            let p99 = |survey: &Survey| in_ms(survey.streams[at].setup_p99_seconds);
            plot.series(self.series(format!("{} p99", stream.name), Style::Line, p99));
        }
        plot
    }

    fn busy(&self) -> Plot {
        let axis = Axis::linear("utilisation").from_to(0.0, 1.0);
        let mut plot = self.plot("Utilisation of the busiest host of each group", axis);
        for group in &self.points[0].scenario.groups {
            // Hosts are named `core`, or `core.1` and so on; a group's name has no dot.
            let is_of = |host: &&HostSurvey| host.name.split('.').next() == Some(&group.name);
            let busiest = |survey: &Survey| {
                let hosts = survey.hosts.iter().filter(is_of).map(|host| host.utilisation);
                hosts.max_by(|a, b| a.mean.total_cmp(&b.mean)).expect("a group has hosts")
            };
            plot.series(self.series(group.name.clone(), Style::Line, busiest));
        }
        plot
    }

    /// Returns a plot against the value without data, with a mark at the edge of the carried load.
    fn plot(&self, title: &str, y: Axis) -> Plot {
        let Some((_, unit)) = self.quantities() else {
            let names = self.points.iter().map(|point| point.value.to_string());
            return Plot::new(title, Axis::names(&self.key, names), y);
        };
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        let mut plot = Plot::new(title, Axis::linear(format!("{}{unit}", self.key)), y);
        if let Some(Edge { last, next }) = self.edge() {
            let (word, point) = if last.survey.carries() { ("up to", last) } else { ("from", next) };
            if let Some((x, _)) = point.value.quantity() {
                plot.mark(format!("carried {word} {}", point.value), x);
            }
        }
        plot
    }

    /// Returns a curve, or bars, over the values.
    fn series(&self, name: String, style: Style, of: impl Fn(&Survey) -> Mean) -> PlotSeries {
        let numbers = self.quantities().map(|(numbers, _)| numbers);
        let points = self.points.iter().enumerate().map(|(at, point)| {
            let Mean { mean, half_width } = of(&point.survey);
            Mark { x: numbers.as_ref().map_or(at as f64, |numbers| numbers[at]), y: mean, half_width }
        });
        let mut points: Vec<_> = points.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        PlotSeries { points, ..PlotSeries::new(name, style, []) }
    }

    /// Merges sentences about all points. Sentences that change with the value are given for the first point.
    fn merged(&self, of: impl Fn(&Scenario) -> Vec<String>) -> Vec<String> {
        let all: Vec<_> = self.points.iter().map(|point| of(&point.scenario)).collect();
        let first = all[0].iter().map(|sentence| {
            if all.iter().all(|sentences| sentences.contains(sentence)) {
                sentence.clone()
            } else {
                format!("With {} = {}: {sentence}", self.key, self.points[0].value)
            }
        });
        first.collect()
    }
}

/// Converts to milliseconds; NaN, which is not drawn, for `None`.
fn in_ms(seconds: Option<Mean>) -> Mean {
    seconds.map_or(Mean { mean: f64::NAN, half_width: None }, |Mean { mean, half_width }| Mean {
        mean: 1e3 * mean,
        half_width: half_width.map(|half| 1e3 * half),
    })
}

/// Describes the runs of a point, as a sentence.
fn runs(scenario: &Scenario) -> String {
    let run = &scenario.run;
    let (duration, warm_up) = (run.duration, run.warm_up);
    match run.replications {
        0 | 1 => format!(
            "A point is one run of {duration:?}, without its first {warm_up:?}; all have the same seed."
        ),
        many => format!(
            "A point is the mean of {many} runs of {duration:?}, without their first {warm_up:?}, with its 95 % interval; \
             all points have the same seeds."
        ),
    }
}
