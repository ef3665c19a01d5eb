//! Figures as a page of Markdown: the statements of their sources, and the data of plots except curves over time.

use papers::report::{Figure, Plot, ReportTable, Scale};
use std::fmt::Write as _;

/// Names of the verdicts on the page.
const VERDICTS: [&str; 4] = ["holds", "**fails**", "open", "out of reach"];

/// Maximum number of x values for a table; larger plots are only shown as pictures.
const COLUMNS_MAX: usize = 12;

const HEAD: &str = "# The figures, made by this simulator

<!-- Made by `UPDATE_FIGURES=all cargo test --release -p papers --test documents`; do not edit. -->

What each statement of the papers comes to, and the numbers behind it: `sarabande sim figures --quick`, seed 1. What holds
here holds for short runs; without `--quick` they are longer, and more. What the figures assume stands in the report that
the command writes; what makes the model differ stands in [simulation.md](simulation.md#figures) too.
";

/// Start of a figure's section.
const SECTION: &str = "\n## ";

/// Returns the page with these sections, and with a line about its origin.
pub(crate) fn page(sections: &[(&str, String)], digest: &str) -> String {
    let mut sums = [0; 4];
    let mut counts = ReportTable::new(["figure", "holds", "fails", "open", "out of reach"]);
    let row = |name: String, counts: [usize; 4]| {
        [name].into_iter().chain(counts.map(|count| count.to_string())).collect::<Vec<_>>()
    };
    for (name, section) in sections {
        let of = VERDICTS.map(|verdict| section.matches(&format!("\n| {verdict} |")).count());
        sums.iter_mut().zip(of).for_each(|(sum, count)| *sum += count);
        counts.rows.push(row(format!("[{name}](#{name})"), of));
    }
    counts.rows.push(row("all".to_owned(), sums));
    let mut page = format!("{HEAD}\n{digest}\n\n{}", markdown(&counts));
    for (_, section) in sections {
        page.push_str(section);
    }
    page
}

/// Returns the section of a figure on an existing page.
pub(crate) fn kept<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let from = page.find(&format!("{SECTION}{name}\n"))?;
    let rest = &page[from + SECTION.len()..];
    Some(&page[from..rest.find(SECTION).map_or(page.len(), |next| from + SECTION.len() + next)])
}

/// Returns the section of a figure of the shortest runs, with some points of the curves that the page does not show.
pub(crate) fn of_shortest(figure: &Figure) -> String {
    let mut text = section(figure);
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

/// Returns the section of a figure.
pub(crate) fn section(figure: &Figure) -> String {
    let Figure { name, title, source, tables, plots, claims, .. } = figure;
    let mut page = format!("{SECTION}{name}\n\n{title}. Source: {source}.\n\n");
    let mut statements = ReportTable::new(["verdict", "statement", "measured"]);
    for claim in claims {
        let verdict = VERDICTS[claim.verdict.place()];
        let why = claim.why().map_or_else(String::new, |why| format!(" *{why}*"));
        let statement = format!("{} ({})", claim.statement, claim.source);
        statements.rows.push(vec![verdict.to_owned(), statement, format!("{}{why}", claim.measured)]);
    }
    page.push_str(&markdown(&statements));
    for table in tables {
        let _ = write!(page, "\n{}", markdown(table));
    }
    for (plot, table) in plots.iter().filter_map(|plot| Some((plot, table(plot)?))) {
        let _ =
            write!(page, "\n{}; {} by {}:\n\n{}", plot.title, plot.y.label, plot.x.label, markdown(&table));
    }
    page
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
    let mut table = ReportTable::new([""]);
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

fn markdown(table: &ReportTable) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", " --- |".repeat(table.header.len()));
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    line(&table.header) + &rule + &rows
}
