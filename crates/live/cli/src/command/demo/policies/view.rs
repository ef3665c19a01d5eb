//! The live view: the servers, the callers, and the results of earlier policies.

use super::cast::rate;
use super::scene::{Outcome, Plot, Scene, calls_broken, calls_lost};
use crate::command::demo::view::{alarm, count, draw_head, draw_news, draw_text, times};
use crate::command::load::table::milliseconds;
use crate::picture::{DIM, area, draw_keys, draw_members};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line as Text, Span};

/// Largest height of the lowest part, with its frame.
const BELOW_MAX: u16 = 8;

pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>) {
    let area = area(frame);
    let fixed = [4, scene.lines.len() as u16 + 3, 5, 1];
    let below = area.height.saturating_sub(fixed.iter().sum()).min(BELOW_MAX);
    let rows = Constraint::from_lengths([fixed[0], fixed[1], fixed[2], below, fixed[3]]);
    let [head, servers, callers, below, foot] = Layout::vertical(rows).areas(area);
    draw_head(frame, head, now(scene), (scene.seconds, scene.act.seconds));
    draw_members(frame, servers, &scene.lines);
    draw_callers(frame, callers, scene);
    match scene.act.plot {
        Plot::Compare => draw_outcomes(frame, below, scene),
        Plot::Crash => draw_news(frame, below, scene.news),
    }
    draw_keys(frame, foot, " q quits ");
}

fn now<'a>(scene: &Scene<'a>) -> Vec<Span<'a>> {
    let what = match scene.act.plot {
        Plot::Compare => "the same calls with each policy",
        Plot::Crash => "while servers come and go",
    };
    vec![
        Span::from(format!("act {}  ", scene.number)),
        Span::from("policy ").style(DIM),
        Span::from(scene.act.policy.as_str()).fg(Color::Yellow).bold(),
        Span::from(format!("  {:.0} calls/s  ", rate(scene.act.load))),
        Span::from(what).style(DIM),
    ]
}

fn draw_callers(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let results = &scene.results;
    let mut counts = vec![
        count(&results.calls_started, " calls  "),
        count(&results.calls_in_progress, " in progress  "),
        count(&results.retransmissions_sent, " repeated  "),
        alarm(calls_lost(results), " lost  "),
        alarm(results.wrong_server, " misrouted"),
    ];
    let broken = calls_broken(results);
    if broken > 0 {
        counts.push(count(&format!("  {broken}"), " died"));
    }
    let text = vec![
        Text::from(counts.concat()),
        times("INVITE", &results.invite_response),
        times("BYE", &results.bye_response),
    ];
    draw_text(frame, area, "callers, timed from the scheduled start of a call", text);
}

/// Draws a bar for each policy: the 99th percentile of its calls.
fn draw_outcomes(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let compared: Vec<_> = scene.outcomes.iter().filter(|outcome| outcome.plot == Plot::Compare).collect();
    let p99 = |outcome: &Outcome| outcome.results.invite_response.percentile_us(99.0);
    let now = scene.results.invite_response.percentile_us(99.0);
    let longest = compared.iter().map(|outcome| p99(outcome)).chain([now]).max().unwrap_or(1).max(1);
    let mut bars: Vec<_> =
        compared.iter().map(|outcome| (&outcome.policy, p99(outcome), Color::Gray)).collect();
    bars.push((&scene.act.policy, now, Color::Yellow));
    let text: Vec<_> = bars
        .into_iter()
        .map(|(policy, micros, color)| bar(policy, micros, longest, area.width, color))
        .collect();
    draw_text(frame, area, "99 % of the calls are answered within", text);
}

fn bar(policy: &str, micros: u64, longest: u64, width: u16, color: Color) -> Text<'static> {
    // Frame, name and figure.
    const BESIDES: u16 = 4 + 14 + 10;
    let cells = u64::from(width.saturating_sub(BESIDES));
    let cells = (micros * cells).div_ceil(longest) as usize;
    Text::from(vec![
        Span::from(format!("{policy:<14}")),
        Span::from("█".repeat(cells)).fg(color),
        Span::from(format!(" {} ms", milliseconds(micros))).bold(),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::scene::Act;
    use super::*;
    use crate::command::demo::view::{assert_shown, rows};
    use load::CallResults;

    #[test]
    fn a_crash_is_shown_within_80_columns() {
        let act = Act { plot: Plot::Crash, policy: "round-robin".to_owned(), load: 0.5, seconds: 14.0 };
        let results = CallResults {
            calls_started: 12_345,
            calls_in_progress: 1_234,
            retransmissions_sent: 1_234,
            bye_timeouts: 123,
            ..CallResults::default()
        };
        let scene = Scene {
            number: "6/6",
            act: &act,
            seconds: 7.0,
            lines: Vec::new(),
            results,
            news: &[],
            outcomes: &[],
        };
        assert_shown(&rows(|frame| draw(frame, &scene)), &["12345 calls  1234 in progress", " died "]);
    }
}
