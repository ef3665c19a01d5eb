//! The live view: what the servers do now, what the callers see, and what the policies before have come to.

use super::act::{Outcome, Plot, Scene};
use super::stage::rate;
use crate::command::load::table::{milliseconds, percentile};
use crate::picture::{Columns, DIM, Top, area, block, draw_keys, draw_members, draw_progress};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::Paragraph;

/// Most rows of the lowest part, frame included.
const BELOW_MAX: u16 = 8;

const SERVERS: Columns = Columns {
    title: "servers, as the balancer sees them",
    name: "server",
    number: Some("speed"),
    // As much as 0.2 s of a fast server.
    top: Top::Fixed(100.0),
};

pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>) {
    let area = area(frame);
    let fixed = [4, scene.lines.len() as u16 + 3, 5, 1];
    let below = area.height.saturating_sub(fixed.iter().sum()).min(BELOW_MAX);
    let rows = Constraint::from_lengths([fixed[0], fixed[1], fixed[2], below, fixed[3]]);
    let [head, servers, callers, below, foot] = Layout::vertical(rows).areas(area);
    draw_head(frame, head, scene);
    draw_members(frame, servers, &SERVERS, &scene.lines);
    draw_callers(frame, callers, scene);
    match scene.act.plot {
        Plot::Compare => draw_outcomes(frame, below, scene),
        Plot::Crash => draw_news(frame, below, scene),
    }
    draw_keys(frame, foot, " q quits ");
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let block = block("Sarabande");
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(block.inner(area));
    frame.render_widget(block, area);
    let what = match scene.act.plot {
        Plot::Compare => "the same calls with each policy",
        Plot::Crash => "while servers come and go",
    };
    let line = vec![
        Span::from(format!("act {}  ", scene.number)),
        Span::from("policy ").style(DIM),
        Span::from(scene.act.policy.as_str()).fg(Color::Yellow).bold(),
        Span::from(format!("  {:.0} calls/s  ", rate(scene.act.load))),
        Span::from(what).style(DIM),
    ];
    frame.render_widget(Text::from(line), first);
    draw_progress(frame, second, scene.seconds, scene.act.seconds);
}

fn draw_callers(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let results = &scene.results;
    let lost = results.calls_refused.values().sum::<u64>()
        + results.invite_timeouts
        + results.calls_abandoned
        + results.calls_answered_late;
    let alarm = |count: u64| {
        let style = if count == 0 { Style::new().fg(Color::Green) } else { Style::new().fg(Color::Red) };
        Span::from(count.to_string()).style(style.add_modifier(Modifier::BOLD))
    };
    let mut counts = vec![
        Span::from(results.calls_started.to_string()).bold(),
        Span::from(" calls  ").style(DIM),
        Span::from(results.calls_in_progress.to_string()).bold(),
        Span::from(" in progress  ").style(DIM),
        Span::from(results.retransmissions_sent.to_string()).bold(),
        Span::from(" repeated  ").style(DIM),
        alarm(lost),
        Span::from(" lost  ").style(DIM),
        alarm(results.wrong_server),
        Span::from(" at wrong server").style(DIM),
    ];
    let broken = results.bye_refused.values().sum::<u64>() + results.bye_timeouts;
    if broken > 0 {
        counts.push(Span::from(format!("  {broken}")).bold());
        counts.push(Span::from(" died in crash").style(DIM));
    }
    let times = |name: &'static str, times| {
        let mut line = vec![Span::from(format!("{name:<8}")).style(DIM)];
        for percent in [50.0, 95.0, 99.0] {
            line.push(Span::from(format!("p{percent:<3}")).style(DIM));
            line.push(Span::from(format!("{:>8} ms    ", percentile(times, percent))));
        }
        Text::from(line)
    };
    let text = vec![
        Text::from(counts),
        times("INVITE", &results.invite_response),
        times("BYE", &results.bye_response),
    ];
    frame.render_widget(
        Paragraph::new(text).block(block("callers, timed from when a call should start")),
        area,
    );
}

/// A bar a policy: the slowest percent of its calls.
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
    frame.render_widget(Paragraph::new(text).block(block("99 % of the calls are answered within")), area);
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

fn draw_news(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let text: Vec<_> = scene.news.iter().map(|news| Text::from(news.as_str())).collect();
    frame.render_widget(Paragraph::new(text).block(block("what happens")), area);
}
