//! The TLWL figures of runs of seconds, compared with those in the repository: a change of behaviour is a diff to read.

use core::num::NonZero;
use sim::figures::{Effort, Options, find};
use sim::report::{At, Figure, Plot, Verdict};
use std::fmt::Write;

const FIGURES: [&str; 6] = ["tlwl-2", "tlwl-3", "tlwl-4", "tlwl-5", "tlwl-occupancy", "tlwl-unequal"];

/// A number with few digits; `-` where there is none.
fn short(y: f64) -> String {
    match y {
        _ if !y.is_finite() => "-".to_owned(),
        100.0.. => format!("{y:.0}"),
        0.1.. => format!("{y:.2}"),
        _ => format!("{y:.1e}"),
    }
}

/// A line a series.
fn plot(table: &mut String, plot: &Plot) {
    let _ = writeln!(table, "  {} [{} by {}]", plot.title, plot.y.label, plot.x.label);
    for series in &plot.series {
        let points: Vec<String> = series.points.iter().map(|point| short(point.y)).collect();
        // Of a long curve, some.
        let step = points.len().div_ceil(10).max(1);
        let shown: Vec<&str> = points.iter().step_by(step).map(String::as_str).collect();
        let _ = writeln!(table, "    {:38} {}", series.name, shown.join(" "));
    }
    for reference in &plot.references {
        let (At::X(at) | At::Y(at)) = reference.at;
        let _ = writeln!(table, "    {:38} {}", reference.label, short(at));
    }
}

fn table(figure: &Figure) -> String {
    let mut table = format!("{}\n", figure.name);
    figure.plots.iter().for_each(|of| plot(&mut table, of));
    for claim in &figure.claims {
        let verdict = match &claim.verdict {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::OutOfReach(_) => "out of reach",
        };
        let begin: String = claim.statement.chars().take(60).collect();
        let _ = writeln!(table, "  {verdict:12} {}: {begin}", claim.plot);
    }
    table
}

/// Verdicts of runs as short as these mean nothing; that they are what they were does.
#[test]
fn the_figures_of_short_runs_are_those_in_the_repository() {
    let options = Options { seed: 1, effort: Effort::Least, threads: NonZero::new(2).unwrap() };
    let figure = |name: &str| (find(name).expect("it is listed").run)(&options, &|_| {});
    let tables: Vec<String> = FIGURES.iter().map(|name| table(&figure(name))).collect();
    insta::assert_snapshot!(tables.join("\n"));
}
