//! The live view of an act.

use super::act::{Act, Event};
use super::cast::rate;
use super::measured::{Figures, IN_TIME, refused};
use crate::command::demo::view::{bar, draw_head, draw_text};
use crate::command::load::table::{milliseconds, percentile};
use crate::picture::{ACCENT, DIM, area, block, draw_keys};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Paragraph, Wrap};

/// A moment to show.
pub(super) struct Scene<'a> {
    pub(super) acts: &'a [Act],
    /// Number of the act.
    pub(super) number: usize,
    /// Whether the event has happened.
    pub(super) is_disturbed: bool,
    /// Seconds since the start.
    pub(super) seconds: f64,
    pub(super) sides: Vec<Figures>,
    /// Verdicts of earlier acts.
    pub(super) verdicts: &'a [(usize, String)],
}

impl<'a> Scene<'a> {
    pub(super) fn act(&self) -> &'a Act {
        &self.acts[self.number - 1]
    }

    /// Number of the act and of all acts.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.number, self.acts.len())
    }

    /// Text about the event, or before it about the act.
    pub(super) fn now(&self) -> &'static str {
        if self.is_disturbed { self.act().news } else { self.act().title }
    }
}

/// Cells of a server's bar: the calls of a fast server at its limit.
const BAR: usize = 15;

pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>) {
    let area = area(frame);
    let rows = [Constraint::Length(4), Constraint::Length(10), Constraint::Max(10)];
    let [head, sides, below] = Layout::vertical(rows).areas(area);
    let rate = scene.act().rates()[usize::from(scene.is_disturbed)];
    let now = vec![
        Span::from(format!("act {}  ", scene.place())),
        Span::from(scene.now()).fg(Color::Yellow).bold(),
        Span::from(format!("  the same {rate:.0} calls/s on each side")),
    ];
    draw_head(frame, head, now, (scene.seconds, scene.act().seconds));
    if scene.act().event == Event::None {
        draw_times(frame, sides, scene);
    } else {
        let areas = Layout::horizontal([Constraint::Fill(1); 2]).areas::<2>(sides);
        areas.into_iter().enumerate().for_each(|(index, area)| draw_side(frame, area, scene, index));
    }
    draw_verdicts(frame, below, scene);
    // A row of its own for the keys would cost a line of the verdicts.
    let foot = Rect {
        x: below.x + 2,
        y: below.bottom().saturating_sub(1),
        width: below.width.saturating_sub(4),
        height: 1,
    };
    draw_keys(frame, foot, " q quits ");
}

/// Draws a bar for each side: the 99th percentile of its calls.
fn draw_times(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let p99 = |side: &Figures| side.results.invite_response.percentile_us(99.0);
    let longest = scene.sides.iter().map(p99).max().unwrap_or(1).max(1);
    // Frame, name and figure.
    let cells = u64::from(area.width.saturating_sub(4 + 14 + 10));
    let bars = scene.act().sides.iter().zip(&scene.sides).map(|((name, _), side)| {
        let full = (p99(side) * cells).div_ceil(longest) as usize;
        Text::from(vec![
            Span::from(format!("{name:<14}")),
            Span::from("█".repeat(full)).fg(ACCENT),
            Span::from(format!(" {} ms", milliseconds(p99(side)))).bold(),
        ])
    });
    draw_text(frame, area, "policies: 99 % of the calls are answered within", bars.collect());
}

/// Draws the servers of a side, and the figures of its callers.
fn draw_side(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, index: usize) {
    let (act, Figures { servers, served, results }) = (scene.act(), &scene.sides[index]);
    let most = rate(1.0, &act.servers[..1], act.service);
    let color = if index == 0 { Color::Gray } else { ACCENT };
    let mut text = Vec::new();
    for (part, &calls) in act.servers.iter().zip(servers) {
        let full = ((calls / most * BAR as f64).round() as usize).min(BAR);
        let mut line = Text::from(format!("{:<7}", part.name));
        line.extend(bar(full, BAR - full, color));
        line.push_span(format!(" {calls:>4.0} calls/s"));
        text.push(line);
    }
    let refused = refused(results);
    for (name, value) in [
        (format!("answered within {} s", IN_TIME.as_secs()), format!("{served:.0} calls/s")),
        (
            "waiting for an answer".to_owned(),
            (results.calls_started - results.calls_answered - refused).to_string(),
        ),
        ("refused".to_owned(), refused.to_string()),
        ("p99 of all answers".to_owned(), format!("{} ms", percentile(&results.invite_response, 99.0))),
    ] {
        text.push(Text::from(vec![Span::from(format!("{name:<23}")).style(DIM), Span::from(value).bold()]));
    }
    draw_text(frame, area, &act.sides[index].0, text);
}

/// Draws the verdicts of earlier acts, and the titles of the others.
fn draw_verdicts(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let line =
        |(index, act): (usize, &Act)| match scene.verdicts.iter().find(|(number, _)| *number == index + 1) {
            Some((number, verdict)) => Text::from(format!("{number} {verdict}")),
            None => Text::from(format!("{} {}", index + 1, act.title)).style(DIM),
        };
    let text = Paragraph::new(scene.acts.iter().enumerate().map(line).collect::<Vec<_>>());
    frame.render_widget(text.wrap(Wrap { trim: true }).block(block("measured in this run")), area);
}

#[cfg(test)]
mod tests {
    use super::super::act::acts;
    use super::super::measured::Track;
    use super::*;
    use crate::command::demo::view::{assert_shown, rows};
    use load::CallResults;

    #[test]
    fn each_act_and_all_verdicts_are_shown_in_80_columns_and_24_rows() {
        let acts = acts(&super::super::POLICIES, 1.0);
        let verdicts: Vec<_> = (1..5).map(|act| (act, format!("{} end", "nine words".repeat(14)))).collect();
        for number in 1..=acts.len() {
            let results = |refused| CallResults {
                calls_started: 12_345,
                calls_answered: 345,
                calls_refused: [(503, refused)].into(),
                ..CallResults::default()
            };
            let sides = (0..5).map(|side| Track::default().sample(1.0, results(side * 1_000))).collect();
            let scene =
                Scene { acts: &acts, number, is_disturbed: true, seconds: 3.0, sides, verdicts: &verdicts };
            let rows = rows(|frame| draw(frame, &scene));
            assert_shown(&rows, &[acts[number - 1].news, "calls/s on each side", " q quits "]);
            acts[number - 1].sides.iter().for_each(|(name, _)| assert_shown(&rows, &[name]));
            if number > 1 {
                let figures = "waiting for an answer  12000         ││ waiting for an answer  11000 ";
                assert_shown(&rows, &[figures, "refused                1000"]);
            }
            assert_eq!(
                rows.iter().filter(|row| row.contains("words end ")).count(),
                verdicts.len(),
                "{rows:#?}"
            );
        }
    }
}
