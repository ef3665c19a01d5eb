//! The live view: the proxies in a row, the phones, and the results of earlier phases.

use super::chain::{CAST, HIGH, Part};
use super::phases::PHASES;
use super::scene::{Ended, Line, Scene, known_percent, percent, refused};
use crate::command::demo::view::{alarm, bar, count, draw_head, draw_rows, draw_text, right, times};
use crate::picture::{ACCENT, DIM, area, draw_keys};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Row};

/// Cells of a bar.
const BAR: u16 = 14;

pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>) {
    let area = area(frame);
    let below = PHASES.len() as u16 + 3;
    let rows = Constraint::from_lengths([4, CAST.len() as u16 + 3, 5, below, 1]);
    let [head, proxies, phones, below, foot] = Layout::vertical(rows).areas(area);
    draw_head(frame, head, now(scene), (scene.seconds, scene.total));
    draw_proxies(frame, proxies, scene);
    draw_phones(frame, phones, scene);
    draw_phases(frame, below, scene);
    draw_keys(frame, foot, " q quits ");
}

fn now(scene: &Scene<'_>) -> Vec<Span<'static>> {
    vec![
        Span::from(scene.place()),
        Span::from(scene.phase.name).fg(Color::Yellow).bold(),
        Span::from(format!("  {:.0} calls/s  ", scene.rate)),
        Span::from(scene.phase.shows).style(DIM),
    ]
}

fn draw_proxies(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let part_of = |part: f64, color| {
        let full = (part.clamp(0.0, 1.0) * f64::from(BAR)).round() as usize;
        Cell::from(bar(full, usize::from(BAR) - full, color))
    };
    let row = |(part, line): (&Part, &Line)| {
        let busy = if line.busy >= HIGH { Color::Red } else { Color::Green };
        let says =
            if line.throttles { Span::from("throttle").fg(Color::Red) } else { Span::from("-").style(DIM) };
        Row::new([
            Cell::from(part.name).bold(),
            part_of(line.busy, busy),
            right(&percent(line.busy)),
            part_of(line.keeps.unwrap_or(0.0), ACCENT),
            right(&known_percent(line.keeps)),
            right(&line.transactions),
            right(&format!("{:.0}", line.calls_per_second)),
            Cell::from(says),
        ])
    };
    let header = ["proxy", "busy", "", "keeps state of", "", "open", "calls/s", "says"];
    let columns = (header, 5..=6, [6, BAR, 5, BAR, 5, 6, 7, 10]);
    let rows = CAST.iter().zip(&scene.lines).map(row);
    draw_rows(frame, area, "chain of proxies, with modelled processors", columns, rows);
}

fn draw_phones(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let (calls, registered) = (&scene.calls, &scene.registered);
    let registrations = [
        count(&registered.phones, " phones registered, with passwords  "),
        count(&registered.granted, " times in all  "),
        alarm(registered.failed, " failures"),
    ];
    let made = [
        count(&calls.calls_started, " calls  "),
        count(&calls.calls_in_progress, " open  "),
        count(&calls.retransmissions_sent, " repeated  "),
        alarm(calls.calls_failed() - refused(calls), " lost  "),
        count(&refused(calls), " refused  "),
        alarm(calls.wrong_server, " at wrong phone"),
    ];
    let mut times = times("INVITE", &calls.invite_response);
    times.push_span(Span::from("this phase").style(DIM));
    let text = vec![Text::from(registrations.concat()), Text::from(made.concat()), times];
    draw_text(frame, area, "alice and bob call each other", text);
}

fn draw_phases(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let names = CAST.map(|part| format!("{:>6} busy  keeps", part.name)).concat();
    let mut text = vec![Text::from(format!("{:<12}{:>8}{names}", "phase", "calls/s")).style(DIM)];
    text.extend(scene.ended.iter().map(|ended| Text::from(figures(ended))));
    draw_text(frame, area, "earlier phases, at their end", text);
}

fn figures(ended: &Ended) -> String {
    let of = |line: &Line| format!("{:>11}{:>7}", percent(line.busy), known_percent(line.keeps));
    let lines = ended.lines.iter().map(of).collect::<Vec<_>>().concat();
    format!("{:<12}{:>8.0}{lines}", ended.phase.name, ended.rate)
}

#[cfg(test)]
mod tests {
    use super::super::phones::Registered;
    use super::*;
    use crate::command::demo::view::{assert_shown, rows};
    use load::{CallResults, Times};

    #[test]
    fn the_picture_fits_in_80_columns_and_24_rows() {
        let line = |busy, keeps, throttles| Line {
            busy,
            keeps,
            calls_per_second: 112.6,
            transactions: 12_345,
            throttles,
        };
        let lines =
            vec![line(1.0, Some(0.617), true), line(0.81, Some(0.383), false), line(0.02, None, false)];
        let ended =
            PHASES.map(|phase| Ended { phase, rate: 1_281.4, lines: lines.clone(), times: Times::default() });
        let scene = Scene {
            phase: PHASES[3],
            number: (4, 5),
            rate: 1_281.4,
            seconds: 41.0,
            total: 50.0,
            lines,
            registered: Registered { phones: 2, granted: 40, failed: 0 },
            calls: CallResults::default(),
            ended: &ended,
        };
        let shown = [
            "phase 4/5 too much  1281 calls/s  both are full, and refuse the rest",
            "██████████████ 100 % █████████░░░░░  62 %  12345     113 throttle",
            "░░░░░░░░░░░░░░     -  12345",
            "2 phones registered, with passwords  40 times in all  0 failures",
            "quiet again",
            " q quits ",
        ];
        assert_shown(&rows(|frame| draw(frame, &scene)), &shown);
        // The text of a phase must not be cut off either.
        for phase in PHASES {
            let before = format!("phase 1/5 {}  12345 calls/s  ", phase.name);
            assert!(before.len() + phase.shows.len() <= 76, "{}", phase.shows);
        }
    }
}
