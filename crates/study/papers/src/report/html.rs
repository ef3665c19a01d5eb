//! The page: contents with verdicts, then each figure with its plots beside the paper's statements.

use super::{Figure, ReportTable, Statement, StatementVerdict};
use std::borrow::Cow;
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

/// Introduction of a page of figures with statements.
const STATED: &str = "Each plot stands beside what its source states, and each statement is checked on the data. Bars and \
                      bands are 95 % confidence intervals.";
/// Introduction of a page without statements.
const UNSTATED: &str = "What was assumed, and what a point of the plots is, stands below them.";

/// Returns the page of these figures; `pictures` contains the SVG of every plot of every figure.
pub(super) fn page(figures: &[Figure], pictures: &[Vec<String>]) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    let states = figures.iter().any(|figure| !figure.claims.is_empty());
    let title = if states { "Simulated figures" } else { "Simulated scenario" };
    let _ = writeln!(out, "<title>Sarabande: {}</title>\n<style>", title.to_lowercase());
    out += STYLE;
    out += "</style>\n</head>\n<body>\n<main>\n";
    if states {
        header(&mut out, title, figures);
        contents(&mut out, figures);
    } else {
        let _ = writeln!(out, "<header>\n<h1>{title}</h1>\n<p>{UNSTATED}</p>\n</header>");
    }
    for (figure, drawn) in figures.iter().zip(pictures) {
        section(&mut out, figure, drawn);
    }
    out += "</main>\n</body>\n</html>\n";
    out
}

fn header(out: &mut String, title: &str, figures: &[Figure]) {
    let _ = write!(out, "<header>\n<h1>{title}</h1>\n<p>{STATED}</p>\n<p>");
    badges(out, Figure::tally(figures));
    *out += "</p>\n</header>\n";
}

fn contents(out: &mut String, figures: &[Figure]) {
    *out +=
        "<nav>\n<table>\n<thead><tr><th>figure</th><th>what</th><th>statements</th></tr></thead>\n<tbody>\n";
    for figure in figures {
        let (name, title) = (escape(&figure.name), escape(&figure.title));
        let _ = write!(out, "<tr><td><a href=\"#{name}\">{name}</a></td><td>{title}</td><td>");
        badges(out, Figure::tally([figure]));
        *out += "</td></tr>\n";
    }
    *out += "</tbody>\n</table>\n</nav>\n";
}

/// CSS classes of the verdicts, in the order of their names.
const CLASSES: [&str; 4] = ["holds", "fails", "open", "reach"];

fn badges(out: &mut String, tally: [usize; 4]) {
    let of_many = ["hold", "fail", "open", "out of reach"];
    for (place, count) in tally.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let words = if count == 1 { StatementVerdict::NAMES } else { of_many };
        let _ = write!(out, "<span class=\"badge {}\">{count} {}</span> ", CLASSES[place], words[place]);
    }
    if tally == [0; 4] {
        *out += "<span class=\"quiet\">none</span>";
    }
}

fn section(out: &mut String, figure: &Figure, drawn: &[String]) {
    let (name, title, source) = (escape(&figure.name), escape(&figure.title), escape(&figure.source));
    let _ = writeln!(out, "<section id=\"{name}\">\n<h2>{title}</h2>");
    let _ = writeln!(
        out,
        "<p class=\"quiet\">{source}. Seed {}{}. Made by <code>{}</code></p>",
        figure.seed,
        if figure.quick { ", short runs" } else { "" },
        escape(&figure.command)
    );
    for table in &figure.tables {
        numbers(out, table);
    }
    // A figure may have statements and no plot. Statements about a missing plot are shown beside the last plot.
    for index in 0..drawn.len().max(1) {
        *out += "<div class=\"row\">\n";
        if let Some(svg) = drawn.get(index) {
            picture(out, figure, index, svg);
        }
        *out += "<div class=\"claims\">\n";
        let last = drawn.len().saturating_sub(1);
        for claim in figure.claims.iter().filter(|claim| claim.plot.min(last) == index) {
            statement(out, claim);
        }
        *out += "</div>\n</div>\n";
    }
    if !figure.assumptions.is_empty() || !figure.notes.is_empty() {
        *out += "<div class=\"row\">\n";
        list(out, "Assumptions", &figure.assumptions);
        list(out, "Notes", &figure.notes);
        *out += "</div>\n";
    }
    *out += "</section>\n";
}

fn numbers(out: &mut String, ReportTable { header, rows }: &ReportTable) {
    *out += "<div class=\"numbers\">\n<table>\n";
    let mut line = |cells: &[String], tag: &str| {
        *out += "<tr>";
        for cell in cells {
            let _ = write!(out, "<{tag}>{}</{tag}>", escape(cell));
        }
        *out += "</tr>\n";
    };
    line(header, "th");
    for row in rows {
        line(row, "td");
    }
    *out += "</table>\n</div>\n";
}

fn picture(out: &mut String, figure: &Figure, index: usize, svg: &str) {
    let (stem, title) = (figure.stem(index), escape(&figure.plots[index].title));
    let stem = escape(&stem);
    let _ = writeln!(out, "<figure>\n<div class=\"plot\" role=\"img\" aria-label=\"{title}\">{svg}</div>");
    let _ = writeln!(
        out,
        "<figcaption><a href=\"{stem}.csv\">{stem}.csv</a> <a href=\"{stem}.svg\">svg</a></figcaption>\n</figure>"
    );
}

fn statement(out: &mut String, claim: &Statement) {
    let place = claim.verdict.place();
    let (class, words) = (CLASSES[place], StatementVerdict::NAMES[place]);
    let (source, text) = (escape(&claim.source), escape(&claim.statement));
    let _ =
        writeln!(out, "<article class=\"{class}\">\n<p><span class=\"badge {class}\">{words}</span> {text}");
    let _ = writeln!(out, "<span class=\"quiet\">({source})</span></p>");
    let _ = writeln!(out, "<p class=\"measured\">{}</p>", escape(&claim.measured));
    if let Some(why) = claim.why() {
        let _ = writeln!(out, "<p class=\"quiet\">{}</p>", escape(why));
    }
    *out += "</article>\n";
}

fn list(out: &mut String, heading: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(out, "<div>\n<h3>{heading}</h3>\n<ul>");
    for item in items {
        let _ = writeln!(out, "<li>{}</li>", escape(item));
    }
    *out += "</ul>\n</div>\n";
}

/// Escapes text for HTML, also within attributes.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}
