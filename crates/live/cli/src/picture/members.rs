//! The table of the servers, with a curve of their load.

use super::tracks::{HISTORY, Past};
use super::{DIM, block};
use crate::command::load::table::milliseconds;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Row, Table};
use server::figures::MemberView;

/// A row of the table.
pub(crate) struct Line {
    pub(crate) name: String,
    /// Speed, relative to a server of speed 1.
    pub(crate) speed: f64,
    /// State, as in the API.
    pub(crate) state: String,
    pub(crate) calls: u32,
    pub(crate) transactions: u32,
    /// Work left, in BYEs, now and before.
    pub(crate) work: f64,
    pub(crate) past: Past,
    pub(crate) invite_p50_ms: Option<f64>,
    pub(crate) invite_p99_ms: Option<f64>,
}

impl Line {
    pub(crate) fn new(name: String, speed: f64, member: &MemberView, past: Past) -> Self {
        Self {
            name,
            speed,
            state: member.state.clone(),
            calls: member.calls,
            transactions: member.transactions,
            work: member.work,
            past,
            invite_p50_ms: member.invite_ms.p50,
            invite_p99_ms: member.invite_ms.p99,
        }
    }
}

/// Work left at the top of a curve, in BYEs: 0.2 s of a fast server.
const TOP: f64 = 100.0;

/// Index of the column with the curve.
const CURVE: usize = 5;

/// Draws as many of the `lines` as fit.
pub(crate) fn draw_members(frame: &mut Frame<'_>, area: Rect, lines: &[Line]) {
    let mut widths = [8, 5, 12, 5, 4, 0, 5, 7, 6, 6];
    // The curve gets the remaining width: frame and padding are 4 cells, and one cell separates columns.
    let others = widths.iter().sum::<u16>() + widths.len() as u16 - 1 + 4;
    widths[CURVE] = area.width.saturating_sub(others).min(HISTORY as u16);
    let samples = widths[CURVE] as usize;
    let work = if samples < "work left".len() { "work" } else { "work left" };
    let names = ["server", "speed", "state", "calls", "open", work, "", "calls/s", "p50 ms", "p99 ms"];
    let header = names.iter().enumerate().map(|(index, name)| {
        let text = Text::from(*name);
        Cell::from(if matches!(index, 0 | 2 | CURVE) { text } else { text.alignment(Alignment::Right) })
    });
    let rows = lines.iter().map(|line| row(line, samples));
    let table = Table::new(rows, Constraint::from_lengths(widths))
        .header(Row::new(header).style(DIM))
        .column_spacing(1);
    frame.render_widget(table.block(block("servers, as the balancer sees them")), area);
}

fn row(line: &Line, samples: usize) -> Row<'_> {
    let state = match line.state.as_str() {
        "up" => Color::Green,
        "slow-start" | "ejected" | "paused" | "full" => Color::Yellow,
        "draining" | "off" => Color::Blue,
        _ => Color::Red,
    };
    let right = |text: String| Cell::from(Text::from(text).alignment(Alignment::Right));
    let time = |ms: Option<f64>| right(ms.map_or("-".to_owned(), |ms| milliseconds((ms * 1e3) as u64)));
    Row::new([
        Cell::from(line.name.as_str()).bold(),
        right(format!("{:.2}", line.speed)),
        Cell::from(Span::from(format!("● {}", line.state)).fg(state)),
        right(line.calls.to_string()),
        right(line.transactions.to_string()),
        Cell::from(curve(line, samples)),
        right(format!("{:.1}", line.work)),
        right(format!("{:.0}", line.past.calls_per_second)),
        time(line.invite_p50_ms),
        time(line.invite_p99_ms),
    ])
}

/// The work left at the last samples, the newest on the right.
fn curve(line: &Line, samples: usize) -> Text<'static> {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let history = &line.past.work;
    let shown = history.len().min(samples);
    let mut spans = vec![Span::from(" ".repeat(samples - shown))];
    for &work in history.range(history.len() - shown..) {
        let color = match work / TOP {
            ..0.1 => Color::Green,
            0.1..0.4 => Color::Yellow,
            _ => Color::Red,
        };
        // The square root makes a few requests visible beside a hundred.
        let height = (work / TOP).clamp(0.0, 1.0).sqrt();
        let step = STEPS[(height * (STEPS.len() - 1) as f64).round() as usize];
        spans.push(Span::from(step.to_string()).fg(color));
    }
    Text::from(spans)
}
