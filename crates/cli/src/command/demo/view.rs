//! The live view: what the servers do now, what the callers see, and what the policies before have come to.

use super::act::{Outcome, Plot, Scene};
use super::stage::rate;
use super::tracks::{HISTORY, Line};
use crate::command::load::table::{milliseconds, percentile};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, BorderType, Cell, LineGauge, Padding, Paragraph, Row, Table};

/// Wider than that, and the figures lie too far apart to be read.
const WIDTH_MAX: u16 = 104;
/// Work left, in BYEs, at which a curve is at its top: as much as 0.2 s of a fast server.
const WORK_TOP: f64 = 100.0;
/// Most rows of the lowest part, frame included.
const BELOW_MAX: u16 = 8;
const ACCENT: Color = Color::Cyan;
const DIM: Style = Style::new().fg(Color::DarkGray);

pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>) {
    let area = frame.area();
    let area = Rect { width: area.width.min(WIDTH_MAX), ..area };
    let fixed = [4, scene.lines.len() as u16 + 3, 5, 1];
    let below = area.height.saturating_sub(fixed.iter().sum()).min(BELOW_MAX);
    let rows = Constraint::from_lengths([fixed[0], fixed[1], fixed[2], below, fixed[3]]);
    let [head, servers, callers, below, foot] = Layout::vertical(rows).areas(area);
    draw_head(frame, head, scene);
    draw_servers(frame, servers, scene);
    draw_callers(frame, callers, scene);
    match scene.act.plot {
        Plot::Compare => draw_outcomes(frame, below, scene),
        Plot::Crash => draw_news(frame, below, scene),
    }
    frame.render_widget(Paragraph::new(" q quits ").style(DIM).alignment(Alignment::Right), foot);
}

fn block(title: &str) -> Block<'_> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(DIM)
        .title(Span::from(format!(" {title} ")).fg(ACCENT).bold())
        .padding(Padding::horizontal(1))
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
    let done = (scene.seconds / scene.act.seconds).clamp(0.0, 1.0);
    let label = if done < 1.0 {
        format!("{:4.1} of {:.1} s", scene.seconds, scene.act.seconds)
    } else {
        "the last calls end".to_owned()
    };
    let gauge = LineGauge::default()
        .ratio(done)
        .label(label)
        .filled_style(Style::new().fg(ACCENT))
        .unfilled_style(DIM);
    frame.render_widget(gauge, second);
}

fn draw_servers(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
    let mut widths = [8, 5, 12, 5, 4, 0, 5, 7, 6, 6];
    // The curve takes what is left; frame and padding are 4 cells, and one is between any two columns.
    let others = widths.iter().sum::<u16>() + widths.len() as u16 - 1 + 4;
    widths[5] = area.width.saturating_sub(others).min(HISTORY as u16);
    let samples = widths[5] as usize;
    let work = if samples < "work left".len() { "work" } else { "work left" };
    let names = ["server", "speed", "state", "calls", "open", work, "", "calls/s", "p50 ms", "p99 ms"];
    let header = names.iter().enumerate().map(|(index, name)| {
        let text = Text::from(*name);
        Cell::from(if matches!(index, 0 | 2 | 5) { text } else { text.alignment(Alignment::Right) })
    });
    let rows = scene.lines.iter().map(|line| server_row(line, samples));
    let table = Table::new(rows, Constraint::from_lengths(widths))
        .header(Row::new(header).style(DIM))
        .column_spacing(1);
    frame.render_widget(table.block(block("servers, as the balancer sees them")), area);
}

fn server_row(line: &Line, samples: usize) -> Row<'_> {
    let state = match line.state.as_str() {
        "up" => Color::Green,
        "slow-start" | "ejected" | "paused" | "full" => Color::Yellow,
        "draining" => Color::Blue,
        _ => Color::Red,
    };
    let right = |text: String| Cell::from(Text::from(text).alignment(Alignment::Right));
    Row::new([
        Cell::from(line.name).bold(),
        right(format!("{:.2}", 1.0 / line.slowdown)),
        Cell::from(Span::from(format!("● {}", line.state)).fg(state)),
        right(line.calls.to_string()),
        right(line.transactions.to_string()),
        Cell::from(curve(line, samples)),
        right(format!("{:.1}", line.work)),
        right(format!("{:.0}", line.calls_per_second)),
        right(milliseconds(line.invite_p50_us)),
        right(milliseconds(line.invite_p99_us)),
    ])
}

/// The work left at the last `samples`, the newest to the right.
fn curve(line: &Line, samples: usize) -> Text<'static> {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = line.history.len().min(samples);
    let mut spans = vec![Span::from(" ".repeat(samples - shown))];
    for &work in line.history.range(line.history.len() - shown..) {
        // The square root shows a few requests and a hundred in one cell.
        let height = (work / WORK_TOP).clamp(0.0, 1.0).sqrt();
        let step = STEPS[(height * (STEPS.len() - 1) as f64).round() as usize];
        let color = match work {
            ..10.0 => Color::Green,
            10.0..40.0 => Color::Yellow,
            _ => Color::Red,
        };
        spans.push(Span::from(step.to_string()).fg(color));
    }
    Text::from(spans)
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
