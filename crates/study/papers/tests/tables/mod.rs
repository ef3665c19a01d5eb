//! Figures as text, to be compared with what the repository has.

use core::num::NonZero;
use papers::figures::{Effort, Options, find};
use papers::report::{At, ClaimVerdict, Figure, Plot};
use std::fmt::Write;

/// The tables of figures of the shortest runs.
pub(crate) fn tables(figures: &[&str]) -> String {
    let options =
        Options { seed: 1, effort: Effort::Least, threads: NonZero::new(2).expect("two is not zero") };
    let figure = |name: &&str| table(&find(name).expect("it is listed").make(&options, &|_| {}));
    figures.iter().map(figure).collect::<Vec<_>>().join("\n")
}

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
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "fails",
            ClaimVerdict::Open => "open",
            ClaimVerdict::OutOfReach(_) => "out of reach",
        };
        let begin: String = claim.statement.chars().take(60).collect();
        let _ = writeln!(table, "  {verdict:12} {}: {begin}", claim.plot);
    }
    table
}
