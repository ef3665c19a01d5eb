//! The live view: the proxies in a row, the phones, and what the phases before have come to.

use super::scene::{Ended, Line, Scene, known_percent, percent};
use super::stage::{CAST, HIGH, Part, rate};
use crate::command::load::table::percentile;
use crate::picture::{ACCENT, DIM, area, block, draw_keys, draw_progress};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use std::fmt::Display;

/// Cells of a bar.
const BAR: u16 = 14;

pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>) {
    let area = area(frame);
    let below = scene.phases.len() as u16 + 3;
    let rows = Constraint::from_lengths([4, CAST.len() as u16 + 3, 5, below, 1]);
    let [head, proxies, phones, below, foot] = Layout::vertical(rows).areas(area);
    draw_head(frame, head, scene);
    draw_proxies(frame, proxies, scene);
    draw_phones(frame, phones, scene);
    draw_phases(frame, below, scene);
    draw_keys(frame, foot, " q quits ");
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let block = block("Sarabande");
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(block.inner(area));
    frame.render_widget(block, area);
    let phase = scene.phase();
    let line = vec![
        Span::from(format!("phase {}/{}  ", scene.index + 1, scene.phases.len())),
        Span::from(phase.name).fg(Color::Yellow).bold(),
        Span::from(format!("  {:.0} calls/s  ", rate(phase.load))),
        Span::from(phase.shows).style(DIM),
    ];
    frame.render_widget(Text::from(line), first);
    draw_progress(frame, second, scene.seconds, scene.total);
}

fn draw_proxies(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let right = |text: &str| Cell::from(Text::from(text.to_owned()).alignment(Alignment::Right));
    let header = ["proxy", "busy", "", "keeps state of", "", "open", "calls/s", "says"];
    let header = header.iter().enumerate().map(|(index, name)| match index {
        5 | 6 => right(name),
        _ => Cell::from(*name),
    });
    let row = |(part, line): (&Part, &Line)| {
        let busy = if line.busy >= HIGH { Color::Red } else { Color::Green };
        let says =
            if line.throttles { Span::from("throttle").fg(Color::Red) } else { Span::from("-").style(DIM) };
        Row::new([
            Cell::from(part.name).bold(),
            Cell::from(bar(line.busy, busy)),
            right(&percent(line.busy)),
            Cell::from(bar(line.keeps.unwrap_or(0.0), ACCENT)),
            right(&known_percent(line.keeps)),
            right(&line.transactions.to_string()),
            right(&format!("{:.0}", line.calls_per_second)),
            Cell::from(says),
        ])
    };
    let rows = CAST.iter().zip(&scene.lines).map(row);
    let widths = [6, BAR, 5, BAR, 5, 6, 7, 10];
    let table = Table::new(rows, Constraint::from_lengths(widths)).header(Row::new(header).style(DIM));
    frame.render_widget(
        table.column_spacing(1).block(block("proxies in a row, as the calls come to them")),
        area,
    );
}

/// A part of a whole.
fn bar(part: f64, color: Color) -> Text<'static> {
    let full = (part.clamp(0.0, 1.0) * f64::from(BAR)).round() as usize;
    Text::from(vec![
        Span::from("█".repeat(full)).fg(color),
        Span::from("░".repeat(usize::from(BAR) - full)).style(DIM),
    ])
}

fn draw_phones(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let count = |number: &dyn Display, what: &'static str| {
        [Span::from(number.to_string()).bold(), Span::from(what).style(DIM)]
    };
    let alarm = |number: u64, what: &'static str| {
        let color = if number == 0 { Color::Green } else { Color::Red };
        [Span::from(number.to_string()).fg(color).bold(), Span::from(what).style(DIM)]
    };
    let (calls, registered) = (&scene.calls, &scene.registered);
    let registrations = [
        count(&registered.phones, " phones registered, with passwords  "),
        count(&registered.granted, " times in all  "),
        alarm(registered.failed, " times in vain"),
    ];
    let made = [
        count(&calls.calls_started, " calls  "),
        count(&calls.calls_in_progress, " in progress  "),
        count(&calls.retransmissions_sent, " repeated  "),
        alarm(calls.calls_failed(), " lost  "),
        alarm(calls.wrong_server, " at wrong phone"),
    ];
    let mut times = vec![Span::from("INVITE  ").style(DIM)];
    for percent in [50.0, 95.0, 99.0] {
        times.push(Span::from(format!("p{percent:<3}")).style(DIM));
        times.push(Span::from(format!("{:>8} ms    ", percentile(&calls.invite_response, percent))));
    }
    let text = vec![Text::from(registrations.concat()), Text::from(made.concat()), Text::from(times)];
    let block = block("alice and bob, who call each other");
    frame.render_widget(Paragraph::new(text).block(block), area);
}

fn draw_phases(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let names = CAST.map(|part| format!("{:>6} busy  keeps", part.name)).concat();
    let mut text = vec![Text::from(format!("{:<12}{:>8}{names}", "phase", "calls/s")).style(DIM)];
    text.extend(scene.ended.iter().map(|ended| Text::from(figures(ended))));
    frame.render_widget(Paragraph::new(text).block(block("phases before, at their end")), area);
}

fn figures(ended: &Ended) -> String {
    let of = |line: &Line| format!("{:>11}{:>7}", percent(line.busy), known_percent(line.keeps));
    let lines = ended.lines.iter().map(of).collect::<Vec<_>>().concat();
    format!("{:<12}{:>8.0}{lines}", ended.phase.name, ended.rate())
}

#[cfg(test)]
mod tests {
    use super::super::PHASES;
    use super::super::phones::Registered;
    use super::*;
    use load::CallResults;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn all_of_it_fits_in_80_columns_and_24_rows() {
        let line = |busy, keeps, throttles| Line {
            busy,
            keeps,
            calls_per_second: 112.6,
            transactions: 12_345,
            throttles,
        };
        let lines =
            vec![line(1.0, Some(0.617), true), line(0.81, Some(0.383), false), line(0.02, None, false)];
        let ended: Vec<_> =
            PHASES.iter().map(|phase| Ended { phase: *phase, lines: lines.clone() }).collect();
        let scene = Scene {
            phases: &PHASES,
            index: 3,
            seconds: 41.0,
            total: 50.0,
            lines,
            registered: Registered { phones: 2, granted: 40, failed: 0 },
            calls: CallResults::default(),
            ended: &ended,
        };
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &scene)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let rows: Vec<_> = (0..24).map(row).collect();
        let find = |what: &str| assert!(rows.iter().any(|row| row.contains(what)), "{what:?} in {rows:#?}");
        for what in [
            "phase 4/5  too much  128 calls/s  all are full, and say so: throttle",
            "██████████████ 100 % █████████░░░░░  62 %  12345     113 throttle",
            "░░░░░░░░░░░░░░     -  12345",
            "2 phones registered, with passwords  40 times in all  0 times in vain",
            "quiet again",
            " q quits ",
        ] {
            find(what);
        }
        // What a phase shows is not cut off, either.
        for phase in PHASES {
            let before = format!("phase 1/5  {}  {:.0} calls/s  ", phase.name, rate(phase.load));
            assert!(before.len() + phase.shows.len() <= 76, "{}", phase.shows);
        }
        for row in &rows[..23] {
            assert!(row.ends_with(['╮', '│', '╯']), "{row:?}");
        }
    }
}
