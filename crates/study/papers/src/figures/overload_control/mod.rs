//! Compares all controllers beyond the Overload paper: at steady overload, on a step, and after the load has fallen.

mod claims;
mod network;

use self::network::{ALL, CARRIED, LOADS, Law, MANY, MANY_TIMES, NEIGHBOURS, Shown, Times, Trial, show};
use super::{FigureRun, series};
use crate::report::{Axis, Figure, Plot, PlotSeries, Style};
use core::time::Duration;
use sim::stats::sweep;

/// Measurements of one law.
struct Row {
    law: &'static Law,
    /// Goodput in percent of the capacity by load, with ACKs to rejections priced and free.
    steady: [Vec<(f64, f64)>; 2],
    /// Goodput with many neighbours, in the same unit.
    many: f64,
    /// Longest 99th percentile of the answered calls' waits, over all runs.
    worst: Duration,
    step: Shown,
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let times = Times::of(work);
    let rows = rows(work, times);
    let mut figure = work.figure(plots(&rows, times));
    figure.tables = vec![claims::table(&rows)];
    figure.claims = claims::claims(&rows);
    figure.assumptions = assumptions();
    let Times { before, settle, count, up, down, .. } = times;
    figure.notes = vec![
        format!(
            "One run a point. At steady overload the load steps up from 140 calls/s at {before} s; {settle} s later \
             {count} s count. In percent of {CARRIED:.1} calls/s, which are six messages of 1 ms each. \
             Runs with the ACK priced and with it free draw different calls."
        ),
        format!(
            "The step goes from 140 to 400 calls/s at {up} s and back at {down} s. A law has settled after the last \
             second of the step in which the mean time from INVITE to 200 was above T1/2 = 250 ms or nobody was \
             answered. It has recovered after the last second of the rest in which fewer than nine in ten calls were \
             answered."
        ),
    ];
    figure
}

fn rows(work: &FigureRun<'_>, times: Times) -> Vec<Row> {
    let mut trials = Vec::new();
    for law in &ALL {
        for ack_priced in [true, false] {
            let steady = |times| (law, Trial::Steady { times, ack_priced, neighbours: NEIGHBOURS });
            trials.extend(LOADS.map(steady));
        }
        trials.push((law, Trial::Steady { times: MANY_TIMES, ack_priced: true, neighbours: MANY }));
        trials.push((law, Trial::Step));
    }
    let of = trials.len();
    // Two random samples of every law: the price of an ACK hardly affects laws that rarely reject at the server.
    let seeds = [0, 1].map(|run| sweep::replication_seed(work.seed, run));
    let one = |index: usize| {
        let (law, trial) = trials[index];
        let is_free = matches!(trial, Trial::Steady { ack_priced: false, .. });
        show(times, law, trial, seeds[usize::from(is_free)])
    };
    let mut shown = work.sweep("controllers", of, one).into_iter();
    let row = |law| {
        let mut worst = Duration::ZERO;
        let steady = [(); 2].map(|()| {
            let mut points = Vec::new();
            for (times, shown) in LOADS.into_iter().zip(shown.by_ref()) {
                worst = worst.max(shown.worst);
                points.push((times, shown.percent));
            }
            points
        });
        let many = shown.next().expect("every law is tried with many neighbours").percent;
        let step = shown.next().expect("every law has a step");
        Row { law, steady, many, worst: worst.max(step.worst), step }
    };
    ALL.iter().map(row).collect()
}

fn assumptions() -> Vec<String> {
    vec![
        "Four neighbours, whose own work costs no time, send to one base server of 1 ms a message, 0.5 ms a timer and \
         a buffer of 1000, behind which the callees are: six messages a call. Where there is feedback the neighbours \
         reject; a rejection that never reaches the server costs it nothing."
            .into(),
        format!("Once the neighbours are {MANY}, which offer {MANY_TIMES} times the capacity: a window is never below one."),
        "An early rejection, without state, takes the server 0.16666 ms. The ACK to it takes 1 ms where it is priced."
            .into(),
        "Calls last 5 s in the mean. Callers give up after 10 s; who is refused does not try again.".into(),
        "hop-by-hop and end-to-end feedback, which need a probability, use the occupancy algorithm.".into(),
    ]
}

fn plots(rows: &[Row], times: Times) -> Vec<Plot> {
    let (local, told): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| !row.law.is_told());
    let mut plots = Vec::new();
    for (ack, price) in [(0, "ACK to a rejection 1 ms"), (1, "ACK to a rejection free")] {
        for (rows, who) in [(&local, "Decided at the server"), (&told, "Decided by its neighbours")] {
            let (x, y) = (Axis::log("offered load / capacity"), Axis::linear("goodput (% of capacity)"));
            let line = |row: &&Row| PlotSeries::line(row.law.name, row.steady[ack].iter().copied());
            plots.push(Plot::of(format!("{who}, {price}"), x, y.from_to(0.0, 105.0), rows.iter().map(line)));
        }
    }
    for (rows, who) in [(&local, "at the server"), (&told, "by its neighbours")] {
        let labels = [(times.up, "to 400 calls/s"), (times.down, "to 140")];
        let mut answered = series::plot(&format!("Step, decided {who}"), "calls answered a second", &labels);
        let mut delay = series::plot(&format!("Step, decided {who}"), "", &labels);
        delay.y = Axis::log("mean time from INVITE to 200 (ms)");
        for row in rows {
            let seconds = &row.step.seconds;
            let line = |value: &dyn Fn(&network::Second) -> f64| -> Vec<(f64, f64)> {
                (0..).map(f64::from).zip(seconds).map(|(second, shown)| (second, value(shown))).collect()
            };
            answered.series(PlotSeries::new(row.law.name, Style::Step, line(&|second| second.answered)));
            delay.series(PlotSeries::new(row.law.name, Style::Step, line(&|second| second.delay_ms)));
        }
        plots.extend([answered, delay]);
    }
    plots
}
