//! Runs of cells, as tables and a picture.

use papers::report::{Axis, ClaimVerdict, Plot, PlotSeries, Point, ReportTable, Style};
use sarabande_bench::elastic::cells::{
    Cell, NEVER_MS, RunResult, Runs, ServerFigures, ServerKind, Statement, Way,
};
use sarabande_bench::report::{median, number, spread};
use sim::stats::Interval;

use crate::files::PartReport;

/// The ways about which there is something to decide.
const QUEUES: [Way; 3] = [Way::Queue, Way::QueueResponses, Way::QueueMonitors];

/// The ways that there are runs of in a cell, with their results.
fn ways(runs: &Runs, cell: &Cell) -> Vec<(Way, Vec<RunResult>)> {
    let results = |way: &Way| (*way, runs.of(cell, *way).into_iter().map(|(_, result)| result).collect());
    let all = <Way as clap::ValueEnum>::value_variants().iter().map(results);
    all.filter(|(_, results): &(Way, Vec<RunResult>)| !results.is_empty()).collect()
}

pub(super) fn part(runs: &Runs, figures: &[(ServerKind, ServerFigures)]) -> PartReport {
    let cells = runs.cells();
    let mut tables = vec![ReportTable::new([
        "cell",
        "way",
        "p50 of TLWL's",
        "p95",
        "p99",
        "p99 at most half",
        "down within 2 s",
        "back within 10 s",
    ])];
    let mut tally = [0; 3];
    for cell in &cells {
        for way in QUEUES.into_iter().filter(|way| !runs.of(cell, *way).is_empty()) {
            let statements = runs.statements(cell, way);
            for statement in &statements {
                tally[place(&statement.verdict)] += 1;
            }
            let header = tables[0].header.clone();
            tables[0].rows.push(verdicts(&header, cell, way, &statements));
        }
    }
    tables.push(times(runs, &cells));
    tables.push(counts(runs, &cells));
    let mut carried: Vec<String> = figures
        .iter()
        .map(|(server, figures)| {
            let ServerFigures { capacity, threshold_ms } = figures;
            format!("Three {server:?} carry {capacity:.0} calls/s undisturbed; the threshold is {threshold_ms} ms.")
        })
        .collect();
    let [holds, fails, open] = tally;
    carried.push(format!("Of the statements {holds} hold, {fails} fail and {open} are open."));
    let plots: Vec<Plot> = plot(runs).into_iter().collect();
    if !plots.is_empty() {
        carried.push("\n\n![Set-up time by way and neighbours](cells.svg)".to_owned());
    }
    PartReport {
        name: "cells".to_owned(),
        title: "Where a queue is worth having".to_owned(),
        head: carried.join(" ").replace(" \n", "\n"),
        tables,
        plots,
        csv: String::new(),
    }
}

fn place(verdict: &ClaimVerdict) -> usize {
    match verdict {
        ClaimVerdict::Holds => 0,
        ClaimVerdict::Fails => 1,
        ClaimVerdict::Open | ClaimVerdict::OutOfReach(_) => 2,
    }
}

fn verdicts(header: &[String], cell: &Cell, way: Way, statements: &[Statement]) -> Vec<String> {
    let of = |name: &String| {
        let said = statements.iter().find(|statement| statement.name == name);
        said.map_or_else(
            || "-".to_owned(),
            |statement| {
                let verdict = ["holds", "fails", "open"][place(&statement.verdict)];
                format!("{}: {verdict}", statement.measured)
            },
        )
    };
    let head = [cell.to_string(), way.to_string()];
    head.into_iter().chain(header.iter().skip(2).map(of)).collect()
}

/// The mean of several runs with its interval; "never" where all callers have given up.
fn milliseconds(values: &[f64]) -> String {
    if values.iter().all(|value| *value >= NEVER_MS) {
        return "never".to_owned();
    }
    let Interval { mean, half_width } = Interval::over(values.iter().copied());
    if half_width.is_finite() { format!("{mean:.1} ± {half_width:.1}") } else { number(mean, 1) }
}

/// The middle of several, least and most.
fn middle(values: &[f64], scale: f64, digits: usize) -> String {
    let values: Vec<f64> = values.iter().map(|value| value * scale).filter(|value| !value.is_nan()).collect();
    let shown = |value: f64| if value.is_infinite() { "never".to_owned() } else { number(value, digits) };
    let (least, most) = spread(values.iter().copied());
    match values.len() {
        0 => "-".to_owned(),
        1 => shown(median(&values)),
        _ => format!("{} ({} - {})", shown(median(&values)), shown(least), shown(most)),
    }
}

fn times(runs: &Runs, cells: &[Cell]) -> ReportTable {
    let mut table = ReportTable::new(["cell", "way", "runs", "p50 ms", "p95 ms", "p99 ms"]);
    for cell in cells {
        for (way, results) in ways(runs, cell) {
            let of =
                |value: fn(&RunResult) -> f64| milliseconds(&results.iter().map(value).collect::<Vec<_>>());
            table.rows.push(vec![
                cell.to_string(),
                way.to_string(),
                results.len().to_string(),
                of(|result| result.p50_ms),
                of(|result| result.p95_ms),
                of(|result| result.p99_ms),
            ]);
        }
    }
    table
}

fn counts(runs: &Runs, cells: &[Cell]) -> ReportTable {
    let mut table = ReportTable::new([
        "cell",
        "way",
        "share of the disturbed before, %",
        "in contention",
        "10 s after",
        "s until half",
        "s until back",
        "INVITEs repeated, % of calls",
        "refused, %",
        "lost, %",
        "callers late, ms",
        "processors of others",
    ]);
    for cell in cells {
        for (way, results) in ways(runs, cell) {
            let of = |scale, digits, value: fn(&RunResult) -> f64| {
                middle(&results.iter().map(value).collect::<Vec<_>>(), scale, digits)
            };
            table.rows.push(vec![
                cell.to_string(),
                way.to_string(),
                of(100.0, 0, |result| result.shares[0]),
                of(100.0, 0, |result| result.shares[1]),
                of(100.0, 0, |result| result.shares[2]),
                if cell.neighbours > 0 { of(1.0, 1, |result| result.down_s) } else { "-".to_owned() },
                if cell.neighbours > 0 { of(1.0, 1, |result| result.back_s) } else { "-".to_owned() },
                of(100.0, 2, |result| result.repeated / result.calls),
                of(100.0, 2, |result| result.refused / result.calls),
                of(100.0, 2, |result| result.lost / result.calls),
                of(1.0, 0, |result| result.late_ms),
                of(1.0, 2, |result| result.others),
            ]);
        }
    }
    table
}

/// The 99th percentile by way and number of neighbours, all else as in the middle cell.
fn plot(runs: &Runs) -> Option<Plot> {
    let server = runs.cells().first()?.server;
    let middle = Cell::middle(server);
    let mut cells = runs.cells();
    cells.retain(|cell| Cell { neighbours: middle.neighbours, ..*cell } == middle);
    cells.sort_by_key(|cell| cell.neighbours);
    let title = format!("Set-up time beside busy neighbours for {} s, {server:?}", middle.seconds);
    let x = Axis::linear("busy neighbours of one of three servers");
    let mut plot = Plot::new(title, x, Axis::log("99th percentile (ms)"));
    for way in <Way as clap::ValueEnum>::value_variants() {
        let point = |cell: &Cell| {
            let values: Vec<f64> = runs.of(cell, *way).iter().map(|(_, result)| result.p99_ms).collect();
            let Interval { mean, half_width } = Interval::over(values.iter().copied());
            let point = Point { x: f64::from(cell.neighbours), y: mean, half_width: Some(half_width) };
            (!values.is_empty()).then_some(point)
        };
        let points: Vec<Point> = cells.iter().filter_map(point).collect();
        if !points.is_empty() {
            plot.series(PlotSeries { points, ..PlotSeries::new(way.to_string(), Style::Line, []) });
        }
    }
    (!plot.series.is_empty()).then_some(plot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sarabande_bench::elastic::cells::Run;

    fn runs() -> Runs {
        let cell = Cell::middle(ServerKind::Kamailio);
        let mut runs = Runs::default();
        for round in 0..3 {
            for (way, p99_ms) in [(Way::Tlwl, 40.0), (Way::Queue, 60.0), (Way::QueueMonitors, NEVER_MS)] {
                let p99_ms = p99_ms + f64::from(round) / 10.0;
                let result = RunResult {
                    calls: 200.0,
                    refused: 1.0,
                    p50_ms: 2.0,
                    p95_ms: 3.0,
                    p99_ms,
                    down_s: 1.5,
                    back_s: f64::INFINITY,
                    ..RunResult::default()
                };
                runs.0.push((Run { cell, round, way }, result));
            }
        }
        runs
    }

    #[test]
    fn tables_say_what_holds_fails_and_never_came() {
        let figures = ServerFigures { capacity: 900.0, threshold_ms: 12.0 };
        let part = part(&runs(), &[(ServerKind::Kamailio, figures)]);
        assert!(part.head.starts_with(
            "Three Kamailio carry 900 calls/s undisturbed; the threshold is 12 ms. Of the statements 6 hold, 6 fail and 0 are open."
        ), "{}", part.head);
        let [verdicts, times, counts] = &part.tables[..] else { panic!("three tables") };
        assert!(part.tables.iter().all(|table| table.rows.iter().all(|row| row.len() == table.header.len())));
        assert_eq!(
            verdicts.rows[0][..4],
            [
                "kamailio, 3 beside 1 of 3 for 5 s, load 70 %",
                "queue",
                "1.00 (1.00 - 1.00): holds",
                "1.00 (1.00 - 1.00): holds"
            ]
        );
        assert!(verdicts.rows[0][4].starts_with("1.50 (") && verdicts.rows[0][4].ends_with(": fails"));
        assert_eq!(verdicts.rows[0][6..], ["3 of 3: holds", "0 of 3: fails"]);
        let p99: Vec<&str> = times.rows.iter().map(|row| row[5].as_str()).collect();
        assert_eq!(p99, ["40.1 ± 0.2", "60.1 ± 0.2", "never"]);
        assert_eq!(
            counts.rows[0][5..9],
            ["1.5 (1.5 - 1.5)", "never (never - never)", "0.00 (0.00 - 0.00)", "0.50 (0.50 - 0.50)"]
        );
    }

    #[test]
    fn the_picture_has_the_cells_that_differ_in_neighbours_alone() {
        let mut runs = runs();
        let [first, ..] = runs.0[..] else { panic!("runs") };
        for cell in [Cell { neighbours: 6, ..first.0.cell }, Cell { neighbours: 1, load: 40, ..first.0.cell }]
        {
            runs.0.push((Run { cell, ..first.0 }, first.1));
        }
        let plot = plot(&runs).expect("a picture");
        let of: Vec<_> =
            plot.series.iter().map(|series| (series.name.as_str(), series.points.len())).collect();
        assert_eq!(of, [("tlwl", 2), ("queue", 1), ("queue-monitors", 1)]);
        assert_eq!(plot.series[0].points.iter().map(|point| point.x as u32).collect::<Vec<_>>(), [3, 6]);
        assert!(plot.series[0].points[1].half_width.is_some_and(f64::is_infinite));
    }
}
