//! A scenario surveyed at several values of one key: where does it break, how many hosts does it take?

use super::page::sentence;
use super::{HostSurvey, Mean, Shares, StreamSurvey, Survey, assumptions, surveys};
use crate::report::{self, Axis, Figure, Plot, PlotSeries, Point as Mark, Style};
use config::scenario::{Scenario, Value};
use core::time::Duration;
use serde::Serialize;
use sim::stats::sweep;
use std::fmt::Write as _;

/// Least share of the calls that ended, of every stream, that must have been completed: below it the load counts as
/// not carried. A network that is not full completes all but a few; one that is full soon loses many.
pub const CARRIED: f64 = 0.99;

/// A key, and what came of each of its values.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The key, such as `calls.main.rate`.
    pub key: String,
    /// Never empty; in the order that was asked for.
    pub points: Vec<SweepPoint>,
}

/// One value of the key.
#[derive(Clone, Debug, Serialize)]
pub struct SweepPoint {
    /// What the key was.
    pub value: Value,
    /// The scenario with this value.
    #[serde(skip)]
    pub scenario: Scenario,
    /// What all of its runs show.
    pub survey: Survey,
}

/// Runs a scenario at each value, with all replications, on all cores; `passed` hears, on any thread, of the time
/// that has passed in one of the runs. The same replication has the same seed at every value. There is one value at
/// least.
pub fn vary(key: &str, varied: Vec<(Value, Scenario)>, passed: impl Fn(Duration) + Sync) -> Sweep {
    let (values, scenarios): (Vec<_>, Vec<_>) = varied.into_iter().unzip();
    // A run's results are large: only those of as many values as there are cores are kept at a time.
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

    /// The host of the highest utilisation, the first of several; a scenario has one host at least.
    pub fn busiest(&self) -> &HostSurvey {
        let more = |most: &HostSurvey, host: &HostSurvey| host.utilisation.mean > most.utilisation.mean;
        let busiest = self.hosts.iter().reduce(|most, host| if more(most, host) { host } else { most });
        busiest.expect("a scenario has hosts")
    }
}

/// Where the load begins or ends to be carried.
struct Edge<'s> {
    last: &'s SweepPoint,
    next: &'s SweepPoint,
}

impl Sweep {
    /// Where the load is carried and where not, as a sentence without its full stop.
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

    /// The one place where that changes as the key grows, if there is one.
    fn edge(&self) -> Option<Edge<'_>> {
        let (numbers, _) = self.quantities()?;
        let mut points: Vec<_> = numbers.into_iter().zip(&self.points).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let pairs = points.windows(2).map(|pair| Edge { last: pair[0].1, next: pair[1].1 });
        let mut edges = pairs.filter(|edge| edge.last.survey.carries() != edge.next.survey.carries());
        edges.next().filter(|_| edges.next().is_none())
    }

    /// The values as numbers of one unit, if they are.
    fn quantities(&self) -> Option<(Vec<f64>, &str)> {
        let all: Option<Vec<_>> = self.points.iter().map(|point| point.value.quantity()).collect();
        let all = all?;
        let unit = all.first()?.1;
        all.iter().all(|quantity| quantity.1 == unit).then(|| (all.iter().map(|all| all.0).collect(), unit))
    }

    /// The printed table as CSV (RFC 4180), with as many digits as there are: a row for each value and stream. Fields
    /// are named as in the JSON and empty where that has `null`; `host` is the busiest one.
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

    /// Calls, setup times and utilisation against the value; bars where values are no numbers. `name` is that of the
    /// files, `file` the scenario's own, `values` what the key was asked to be.
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

    /// Calls that last long for a run are told by those that are set up: too few have ended to be held against those
    /// offered.
    fn calls(&self) -> Plot {
        let unfinished = self.points.iter().any(|point| !point.survey.unfinished.is_empty());
        let (done, of): (_, fn(&StreamSurvey) -> Mean) = if unfinished {
            ("set up", |stream| stream.set_up)
        } else {
            ("completed", |stream| stream.goodput)
        };
        let mut plot = self.plot(&format!("Calls offered and {done}"), Axis::linear("calls/s"));
        // A curve of a stream's offered calls is told from that of its completed ones by its dashes; bars are all
        // alike.
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
        // Bars have no zero to stand on where the axis is logarithmic.
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
            // Hosts are called `core`, or `core.1` and so on; a group's name has no dot.
            let is_of = |host: &&HostSurvey| host.name.split('.').next() == Some(&group.name);
            let busiest = |survey: &Survey| {
                let hosts = survey.hosts.iter().filter(is_of).map(|host| host.utilisation);
                hosts.max_by(|a, b| a.mean.total_cmp(&b.mean)).expect("a group has hosts")
            };
            plot.series(self.series(group.name.clone(), Style::Line, busiest));
        }
        plot
    }

    /// A plot against the value without data, with a mark where the load begins or ends to be carried.
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

    /// A curve, or bars, over the values.
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

    /// Sentences about all points; those that change with the value are given for the first one.
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

/// Not a number, which is not drawn, where there is none.
fn in_ms(seconds: Option<Mean>) -> Mean {
    seconds.map_or(Mean { mean: f64::NAN, half_width: None }, |Mean { mean, half_width }| Mean {
        mean: 1e3 * mean,
        half_width: half_width.map(|half| 1e3 * half),
    })
}

/// How a point was made, as a sentence.
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
