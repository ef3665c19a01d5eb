//! Figure 2: utilisation of one server against the offered load, with state and without.

use super::super::{FigureOptions, FigureRun};
use super::network::{Mode, Network, STATEFUL, STATELESS};
use super::stairs::{Stairs, Step, capacity};
use super::{assumptions, claims};
use crate::report::{Axis, Figure, Plot, PlotSeries};

fn stairs(options: &FigureOptions) -> Stairs {
    let full = Stairs { from: 500.0, to: 6000.0, step: 100.0, rise: 10, hold: 20, count: 10, scale: 1.0 };
    let quick = Stairs { hold: 10, count: 6, scale: 6.0, ..full };
    options.scale(full, quick, Stairs { step: 600.0, rise: 2, hold: 2, count: 1, scale: 20.0, ..full })
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let stairs = stairs(work);
    let server = Network::series(1);
    let modes = [("with state", Mode::Stateful), ("without state", Mode::Stateless)];
    let one = |index: usize| stairs.climb(&server, modes[index].1, false, None, work.seed);
    let climbed = work.sweep("modes", modes.len(), one);
    let line = |((name, _), steps): (&(&str, Mode), &Vec<Step>)| {
        PlotSeries::line(*name, steps.iter().map(|step| (step.load, step.utilisation)))
    };
    let (x, y) = (Axis::linear("offered load (calls/s)"), Axis::linear("utilisation").from_to(0.0, 1.05));
    let mut plot = Plot::of("Utilisation of one server", x, y, modes.iter().zip(&climbed).map(line));
    plot.mark("T_SF", STATEFUL);
    plot.mark("T_SL", STATELESS);
    let mut figure = work.figure(vec![plot]);
    figure.claims = claims::of_utilisation(&climbed, [0, 1].map(|mode| capacity(&climbed[mode])));
    figure.notes = vec![
        "The capacities are input: what a call costs is set by them. What can fail is the shape: lines, and what comes \
         beyond them."
            .to_owned(),
    ];
    figure.assumptions = assumptions(stairs.scale);
    figure
}
