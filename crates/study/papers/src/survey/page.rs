//! A run of a scenario as a figure of the report.

use super::{Survey, assumptions, events, rates};
use crate::report::{Axis, Figure, Plot, PlotSeries, Style};
use base::Instant;
use config::scenario::Scenario;
use sim::model::RunResults;

/// Plots the first run: calls offered and completed, utilisation and queues of the hosts. Adds marks for changes and
/// faults, and the scenario's assumptions.
///
/// `survey` is the summary of all runs, `name` the name of the report's files, `file` the scenario's file.
pub fn figure(scenario: &Scenario, survey: &Survey, run: &RunResults, name: &str, file: &str) -> Figure {
    let seconds = |at: Instant| (at - Instant::ZERO).as_secs_f64();
    let end = Instant::ZERO + scenario.run.duration;
    let mut calls = over_time(scenario, "Calls offered and completed", Axis::linear("calls/s"));
    for stream in &run.streams {
        // Most runs have none.
        let late = (stream.outcomes.answered_late > 0).then_some(("answered late", &stream.late));
        let always = [("offered", &stream.offered), ("completed", &stream.completed)];
        for (what, series) in always.into_iter().chain(late) {
            let points = rates(series, end).map(|(at, rate)| (seconds(at), rate));
            calls.series(PlotSeries::new(format!("{} {what}", stream.name), Style::Step, points));
        }
    }
    let busy_axis = Axis::linear("utilisation").from_to(0.0, 1.0);
    let mut busy = over_time(scenario, "Utilisation of the hosts", busy_axis);
    let mut queues = over_time(scenario, "Messages that wait", Axis::linear("messages"));
    for host in &run.hosts {
        let points = |bins: &[(Instant, f64)]| -> Vec<_> {
            bins.iter().map(|&(at, value)| (seconds(at), value)).collect()
        };
        busy.series(PlotSeries::new(&host.name, Style::Line, points(&host.utilisation)));
        queues.series(PlotSeries::new(&host.name, Style::Line, points(&host.queue)));
    }
    Figure {
        name: name.to_owned(),
        title: scenario.title.clone(),
        source: format!("Scenario {file}"),
        tables: survey.tables(),
        plots: vec![calls, busy, queues],
        claims: Vec::new(),
        assumptions: assumptions::assumptions(scenario),
        notes: notes(scenario).into_iter().chain(survey.remarks().iter().map(sentence)).collect(),
        command: format!("sarabande sim run {file} --out DIR"),
        seed: scenario.run.seed,
        quick: false,
    }
}

/// Returns a remark with a full stop.
pub(super) fn sentence(remark: &String) -> String {
    format!("{remark}.")
}

/// Returns a plot over time without data, with a mark at each change. Marks look alike, so each label states its time.
fn over_time(scenario: &Scenario, title: &str, axis: Axis) -> Plot {
    let mut plot = Plot::new(title, Axis::linear("time (s)"), axis);
    let mut marks = events::events(scenario);
    if !scenario.run.warm_up.is_zero() {
        marks.insert(0, (scenario.run.warm_up, "warm-up ends".to_owned()));
        marks.sort_by_key(|(at, _)| *at);
    }
    for (at, what) in marks {
        plot.mark(format!("{} s: {what}", at.as_secs_f64()), at.as_secs_f64());
    }
    plot
}

fn notes(scenario: &Scenario) -> Vec<String> {
    let run = &scenario.run;
    let (duration, warm_up) = (run.duration, run.warm_up);
    let mut notes = vec![match run.replications {
        0 | 1 => format!("One run of {duration:?} with seed {}.", run.seed),
        many => {
            format!(
                "Run 1 of {many} is drawn; each is {duration:?} long, with a seed derived from {}.",
                run.seed
            )
        }
    }];
    notes.push(if warm_up.is_zero() {
        "There is no warm-up: the means in the tables are over all of a run.".to_owned()
    } else {
        format!("The first {warm_up:?} are warm-up: drawn, but left out of the means in the tables.")
    });
    notes.push(format!(
        "Curves are over time, without intervals; a point is about {:?}. Dashed vertical lines are where something \
         changes or fails.",
        run.bin
    ));
    notes
}
