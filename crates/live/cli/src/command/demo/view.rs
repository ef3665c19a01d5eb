//! Parts of the live views of all demos.

use crate::command::load::table::percentile;
use crate::picture::{DIM, block, draw_progress};
use load::Times;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use std::ops::RangeInclusive;

/// Draws the present phase and its progress.
pub(super) fn draw_head(frame: &mut Frame<'_>, area: Rect, now: Vec<Span<'_>>, (seconds, total): (f64, f64)) {
    let block = block("Sarabande");
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(block.inner(area));
    frame.render_widget(block, area);
    frame.render_widget(Text::from(now), first);
    draw_progress(frame, second, seconds, total);
}

/// Draws a row for each element, with the columns `rights` aligned to the right.
pub(super) fn draw_rows<'a, const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    (header, rights, widths): ([&'a str; N], RangeInclusive<usize>, [u16; N]),
    rows: impl Iterator<Item = Row<'a>>,
) {
    let header = header.into_iter().enumerate();
    let header = header.map(|(at, name)| if rights.contains(&at) { right(&name) } else { Cell::from(name) });
    let table = Table::new(rows, Constraint::from_lengths(widths)).header(Row::new(header).style(DIM));
    frame.render_widget(table.column_spacing(1).block(block(title)), area);
}

pub(super) fn draw_text(frame: &mut Frame<'_>, area: Rect, title: &str, text: Vec<Text<'_>>) {
    frame.render_widget(Paragraph::new(text).block(block(title)), area);
}

/// Draws the latest news that fit.
pub(super) fn draw_news(frame: &mut Frame<'_>, area: Rect, news: &[String]) {
    let room = usize::from(area.height.saturating_sub(2));
    let shown = &news[news.len().saturating_sub(room)..];
    draw_text(frame, area, "events", shown.iter().map(|news| Text::from(news.as_str())).collect());
}

pub(super) fn right(text: &impl ToString) -> Cell<'static> {
    Cell::from(Text::from(text.to_string()).alignment(Alignment::Right))
}

/// A bar of `full` cells, and `left` empty ones.
pub(super) fn bar(full: usize, left: usize, color: Color) -> Text<'static> {
    Text::from(vec![Span::from("█".repeat(full)).fg(color), Span::from("░".repeat(left)).style(DIM)])
}

pub(super) fn count(number: &impl ToString, text: &'static str) -> [Span<'static>; 2] {
    [Span::from(number.to_string()).bold(), Span::from(text).style(DIM)]
}

/// A number that should be zero; red otherwise.
pub(super) fn alarm(number: u64, text: &'static str) -> [Span<'static>; 2] {
    let color = if number == 0 { Color::Green } else { Color::Red };
    [Span::from(number.to_string()).fg(color).bold(), Span::from(text).style(DIM)]
}

/// Response times of a method.
pub(super) fn times(method: &'static str, times: &Times) -> Text<'static> {
    let each = [50.0, 95.0, 99.0].map(|percent| {
        let value = format!("{:>8} ms    ", percentile(times, percent));
        [Span::from(format!("p{percent:<3}")).style(DIM), Span::from(value)]
    });
    let name = Span::from(format!("{method:<8}")).style(DIM);
    [name].into_iter().chain(each.into_iter().flatten()).collect()
}

/// Returns the rows of a terminal of 80 columns and 24 rows. All rows above the last one with text must be framed.
#[cfg(test)]
pub(super) fn rows(draw: impl FnOnce(&mut Frame<'_>)) -> Vec<String> {
    let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(80, 24)).unwrap();
    terminal.draw(draw).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    let rows: Vec<String> = (0..24).map(row).collect();
    let last = rows.iter().rposition(|row| !row.trim().is_empty()).expect("the drawing has text");
    for row in &rows[..last] {
        assert!(row.ends_with(['╮', '│', '╯']), "{row:?}");
    }
    rows
}

#[cfg(test)]
pub(super) fn assert_shown(rows: &[String], texts: &[&str]) {
    for text in texts {
        assert!(rows.iter().any(|row| row.contains(text)), "{text:?} in {rows:#?}");
    }
}
