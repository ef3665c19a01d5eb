//! Figures as a page of Markdown, with the statements of their sources, and as CSV files with the data of their tables
//! and plots, except curves over time.

use crate::live::Live;
use papers::report::{Figure, Plot, ReportTable, Scale, Statement, csv_field};
use std::fmt::Write as _;

/// Names of the verdicts on the page.
const VERDICTS: [&str; 4] = ["holds", "**fails**", "open", "out of reach"];
/// Maximum number of x values for a file of data; larger plots are only shown as pictures.
const COLUMNS_MAX: usize = 12;

const HEAD: &str = "# Which statements of the papers hold?

<!-- Made by `UPDATE_FIGURES=all cargo test --release -p papers --test documents`; do not edit. -->

Each table has the statements behind one figure, with the verdict of the simulator and its numbers. The last column has
results of running programs. It is empty where nothing was measured.

- Simulator: `sarabande sim figures --quick`, seed 1. Without `--quick` the runs are longer and more.
  `sarabande sim figure NAME` makes one figure again, with its curves and its assumptions.
- *Open*: the interval contains the statement and its opposite. *Out of reach*: the model cannot show it.
  A note in italics gives the reason. [simulation.md](simulation.md#figures) has more about the differences.
- Two verdicts in one row are those of steady servers and of pausing servers.
- Statements with the source *ours* are aims of this project.
- servartuka-1, smace-7 and smace-8 are measured, not simulated.
- Running programs: [cluster.md](cluster.md), [overload.md](overload.md), [distribution.md](distribution.md) and
  [elastic.md](elastic.md) have the methods. Intervals are of 95 %, or minimum and maximum, where there are several
  rounds. A verdict after one run says so.
";

/// Start of a figure's section.
const SECTION: &str = "\n## ";
/// Header of the number of verdicts.
const COUNTS: &str = "| figure | holds | fails | open | out of reach |\n| --- | --- | --- | --- | --- |\n";
/// Header of a figure's statements.
const HEADER: &str = "| statement | simulated | measured in the simulator | on running programs |\n| --- | --- | --- | --- |\n";

/// Returns the page with these sections, and with a line about its origin.
pub(crate) fn page(sections: &[(&str, String)], digest: &str) -> String {
    let count = |(name, section): &(&str, String)| {
        let (_, rows) = section.split_once(HEADER).expect("a section has statements");
        let cells = rows.lines().filter_map(|row| row.split(" | ").nth(1));
        let verdicts: Vec<_> = cells.flat_map(|cell| cell.split("; ")).collect();
        (format!("[{name}](#{name})"), VERDICTS.map(|name| verdicts.iter().filter(|of| **of == name).count()))
    };
    let mut counts: Vec<_> = sections.iter().map(count).collect();
    let all = [0, 1, 2, 3].map(|verdict| counts.iter().map(|(_, of)| of[verdict]).sum());
    counts.push(("all".to_owned(), all));
    let rows = counts.iter().map(|(name, [holds, fails, open, out])| {
        format!("| {name} | {holds} | {fails} | {open} | {out} |\n")
    });
    let sections = sections.iter().map(|(_, section)| section.as_str());
    format!("{HEAD}\n{digest}\n\n{COUNTS}{}{}", rows.collect::<String>(), sections.collect::<String>())
}

/// Returns the section of a figure on an existing page.
pub(crate) fn kept<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let from = page.find(&format!("{SECTION}{name}\n"))?;
    let rest = &page[from + SECTION.len()..];
    Some(&page[from..rest.find(SECTION).map_or(page.len(), |next| from + SECTION.len() + next)])
}

/// Returns the section of a figure of the shortest runs with its data, and with some points of longer curves.
pub(crate) fn of_shortest(figure: &Figure) -> String {
    let mut text = section(figure);
    for Data { name, title, csv } in data(figure) {
        let _ = write!(text, "\n{name}: {title}\n{csv}");
    }
    for plot in figure.plots.iter().filter(|plot| table(plot).is_none()) {
        let _ = writeln!(text, "\n{}; {} by {}:", plot.title, plot.y.label, plot.x.label);
        for series in &plot.series {
            let step = series.points.len().div_ceil(COLUMNS_MAX).max(1);
            let points: Vec<_> = series.points.iter().step_by(step).map(|point| short(point.y)).collect();
            let _ = writeln!(text, "- {}: {}", series.name, points.join(" "));
        }
    }
    text
}

/// Returns the section of a figure, without results of running programs. A statement that is checked on several results
/// has one row.
pub(crate) fn section(figure: &Figure) -> String {
    let Figure { name, title, source, claims, .. } = figure;
    let statement = |claim: &Statement| format!("{} ({})", claim.statement, claim.source);
    let mut section = format!("{SECTION}{name}\n\n{title}. Source: {source}.");
    for (index, Data { name, title, .. }) in data(figure).iter().enumerate() {
        let _ = write!(section, "{} [{title}](figures/{name})", if index == 0 { " Data:" } else { "," });
    }
    let _ = write!(section, "\n\n{HEADER}");
    let (mut statements, mut above) = (claims.iter().map(statement).collect::<Vec<_>>(), String::new());
    while let Some(first) = statements.first().cloned() {
        let (mut verdicts, mut measured) = (Vec::new(), Vec::new());
        for claim in claims.iter().filter(|claim| statement(claim) == first) {
            verdicts.push(VERDICTS[claim.verdict.place()]);
            // A reason that several results share stands after the last of them.
            let why = claim.why().map(|why| format!("*{why}*"));
            measured.retain(|text| Some(text) != why.as_ref());
            measured.extend([claim.measured.clone()].into_iter().chain(why));
        }
        let measured = measured.join(" ");
        let shown = if measured == above { "As in the row above." } else { &measured };
        let _ = writeln!(section, "| {first} | {} | {shown} |  |", verdicts.join("; "));
        above = measured;
        statements.retain(|other| *other != first);
    }
    section
}

/// Returns the section with the results of running programs in the last column.
///
/// # Panics
/// When a result belongs to no statement.
pub(crate) fn with_live(section: &str, name: &str, live: &[Live]) -> String {
    let (head, rows) = section.split_once(HEADER).expect("a section has statements");
    let live: Vec<_> = live.iter().filter(|live| live.figure == name).collect();
    for Live { begins, .. } in &live {
        assert!(rows.contains(begins), "{name} has no statement that starts with \"{begins}\"");
    }
    let filled = rows.lines().map(|row| {
        let found = live.iter().find(|live| row.starts_with(&live.begins)).map_or("", |live| &live.found);
        format!("{} | {found} |\n", row.rsplit_once(" | ").expect("a row has four cells").0)
    });
    format!("{head}{HEADER}{}", filled.collect::<String>())
}

/// A file of data.
pub(crate) struct Data {
    pub(crate) name: String,
    title: String,
    pub(crate) csv: String,
}

/// Returns the tables of a figure and its plots with few values of x.
pub(crate) fn data(figure: &Figure) -> Vec<Data> {
    let tables = figure.tables.iter().map(|table| (table.header[0].clone(), table.clone()));
    let plots = figure.plots.iter().filter_map(|plot| Some((plot.title.clone(), table(plot)?)));
    let file = |(index, (title, table)): (usize, (String, ReportTable))| {
        let number = if index == 0 { String::new() } else { format!("-{}", index + 1) };
        let line = |cells: &Vec<String>| {
            cells.iter().map(|cell| csv_field(cell)).collect::<Vec<_>>().join(",") + "\n"
        };
        let csv = [&table.header].into_iter().chain(&table.rows).map(line).collect();
        Data { name: format!("{}{number}.csv", figure.name), title, csv }
    };
    tables.chain(plots).enumerate().map(file).collect()
}

/// Returns a table with a row for each series and a column for each value of x; `None` if there are too many.
fn table(plot: &Plot) -> Option<ReportTable> {
    let mut xs: Vec<f64> =
        plot.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    if xs.len() > COLUMNS_MAX {
        return None;
    }
    let name = |x: f64| match &plot.x.scale {
        Scale::Names(names) => names.get(x as usize).cloned().unwrap_or_default(),
        _ => x.to_string(),
    };
    let mut table = ReportTable::new([format!("{} by {}", plot.y.label, plot.x.label).as_str()]);
    table.header.extend(xs.iter().map(|&x| name(x)));
    for series in &plot.series {
        let at = |x: f64| series.points.iter().find(|point| point.x.total_cmp(&x).is_eq());
        let shown = xs.iter().map(|&x| at(x).map_or_else(String::new, |point| short(point.y)));
        table.rows.push([series.name.clone()].into_iter().chain(shown).collect());
    }
    Some(table)
}

/// Formats a number with three digits.
fn short(y: f64) -> String {
    match y.abs() {
        _ if !y.is_finite() => "-".to_owned(),
        100.0.. => format!("{y:.0}"),
        10.0.. => format!("{y:.1}"),
        0.01.. => format!("{y:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{y:.1e}"),
    }
}
