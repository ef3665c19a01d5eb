//! Figure 4: goodput of two servers in series against the offered load.

use super::super::{FigureOptions, FigureRun};
use super::network::{Mode, Network};
use super::stairs::{Stairs, Step};
use super::{assumptions, claims};
use crate::report::{Axis, Figure, Plot, PlotSeries};
use distribute::ShareLaw;

/// Range of the loads, in calls per second.
const FROM: f64 = 3000.0;
const TO: f64 = 6000.0;

/// Lines of both plots, in this order.
const MODES: [(&str, Mode); 6] = [
    ("both stateful", Mode::Stateful),
    ("first one stateful", Mode::Share(1.0)),
    ("halves", Mode::Share(0.5)),
    ("law paper", Mode::Law(ShareLaw::Paper)),
    ("law level", Mode::Law(ShareLaw::Level)),
    ("Cortes et al.", Mode::Cortes),
];
/// Indexes in [`MODES`].
pub(super) const BOTH: usize = 0;
pub(super) const FIRST: usize = 1;
pub(super) const HALVES: usize = 2;
pub(super) const PAPER: usize = 3;
pub(super) const LEVEL: usize = 4;
pub(super) const CORTES: usize = 5;

fn stairs(options: &FigureOptions) -> Stairs {
    let full = Stairs { from: FROM, to: TO, step: 50.0, rise: 20, hold: 12, count: 6, scale: 2.0 };
    let quick = Stairs { step: 100.0, scale: 12.0, ..full };
    options.scale(full, quick, Stairs { step: 600.0, rise: 2, hold: 2, count: 1, scale: 20.0, ..full })
}

pub(in crate::figures) fn run(work: &FigureRun<'_>) -> Figure {
    let stairs = stairs(work);
    let two = Network::series(2);
    let of = 2 * MODES.len();
    let one = |index: usize| {
        let (trying, mode) = (index >= MODES.len(), MODES[index % MODES.len()].1);
        stairs.climb(&two, mode, trying, None, work.seed)
    };
    let climbed = work.sweep("lines", of, one);
    let (without, with) = climbed.split_at(MODES.len());
    let optimum = two.optimum();
    let plots = vec![
        plot("Without 100 Trying, as the linear program has it", without, Some(optimum)),
        plot("With the 100 that a server with state sends", with, None),
    ];
    let mut figure = work.figure(plots);
    figure.claims = claims::of_goodput(without, with, optimum);
    figure.assumptions = assumptions(stairs.scale);
    figure.assumptions.push(
        "The 100 of the second server is a message like any other for the first one; a server without state forwards it."
            .to_owned(),
    );
    figure.notes = vec![format!(
        "One run a line. The load goes up in steps of {} calls/s and {} s, of which the last {} count.",
        stairs.step, stairs.hold, stairs.count
    )];
    figure
}

fn plot(title: &str, climbed: &[Vec<Step>], optimum: Option<f64>) -> Plot {
    let line = |((name, _), steps): (&(&str, Mode), &Vec<Step>)| {
        PlotSeries::line(*name, steps.iter().map(|step| (step.load, step.goodput)))
    };
    let with_state =
        climbed[CORTES].iter().map(|step| (step.load, step.goodput * (1.0 - step.share_without_state())));
    let with_state = PlotSeries::line("Cortes et al., with state", with_state);
    let x = Axis::linear("offered load (calls/s)").from_to(FROM, TO);
    let (title, y) = (format!("Goodput of two in series. {title}"), Axis::linear("goodput (calls/s)"));
    let mut plot = Plot::of(title, x, y, MODES.iter().zip(climbed).map(line).chain([with_state]));
    if let Some(optimum) = optimum {
        plot.level("optimum", optimum);
    }
    plot
}
