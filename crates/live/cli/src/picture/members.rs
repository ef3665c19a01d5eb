//! The table of the members: what each has to do, with a curve of it.

use super::tracks::{HISTORY, Past};
use super::{DIM, block};
use crate::command::load::table::milliseconds;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Row, Table};
use server::figures::MemberView;

/// What is shown of a member.
pub(crate) struct Line {
    pub(crate) name: String,
    /// Its pools, where there are several; then there is a column of them.
    pub(crate) pools: String,
    /// A number of which [`Columns::number`] says what it is.
    pub(crate) number: f64,
    /// As the API has it.
    pub(crate) state: String,
    /// The same for people.
    pub(crate) shown_state: String,
    pub(crate) calls: u32,
    pub(crate) transactions: u32,
    /// Work left, in BYEs, now and before.
    pub(crate) work: f64,
    pub(crate) past: Past,
    pub(crate) invite_p50_ms: Option<f64>,
    pub(crate) invite_p99_ms: Option<f64>,
}

impl Line {
    pub(crate) fn new(
        name: String,
        number: f64,
        shown_state: String,
        member: &MemberView,
        past: Past,
    ) -> Self {
        Self {
            name,
            pools: String::new(),
            number,
            state: member.state.clone(),
            shown_state,
            calls: member.calls,
            transactions: member.transactions,
            work: member.work,
            past,
            invite_p50_ms: member.invite_ms.p50,
            invite_p99_ms: member.invite_ms.p99,
        }
    }
}

/// What the columns are called.
pub(crate) struct Columns {
    pub(crate) title: &'static str,
    pub(crate) name: &'static str,
    /// Of the column with [`Line::number`], if it is shown.
    pub(crate) number: Option<&'static str>,
    pub(crate) top: Top,
}

/// The work left at which a curve is at its top.
#[derive(Clone, Copy)]
pub(crate) enum Top {
    /// So much, in BYEs; what comes near is coloured as an alarm.
    Fixed(f64),
    /// The most that is shown, and at least this.
    AtLeast(f64),
}

/// Longest name that the others make room for.
const NAME_MAX: usize = 30;
/// Longest names of pools that the others make room for.
const POOLS_MAX: usize = 12;
/// As the column is called.
const POOLS_MIN: usize = "pool".len();
/// Which column is the curve.
const CURVE: usize = 6;
/// Least width of a curve.
const CURVE_MIN: u16 = 4;

/// Draws as many of the `lines` as there is room for.
pub(crate) fn draw_members(frame: &mut Frame<'_>, area: Rect, columns: &Columns, lines: &[Line]) {
    let longest = |of: fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or(0);
    let state = (longest(|line| line.shown_state.chars().count()) + 2).clamp(12, 18) as u16;
    let number = if columns.number.is_some() { 5 } else { 0 };
    let pools = match longest(|line| line.pools.chars().count()) {
        0 => 0,
        some => some.clamp(POOLS_MIN, POOLS_MAX) as u16,
    };
    // Where there is not room for both, the name comes first.
    let mut widths = [0, pools.min(POOLS_MIN as u16), number, state, 5, 4, 0, 5, 7, 6, 6];
    // Frame and padding are 4 cells, and one is between any two columns.
    let others = |widths: &[u16]| widths.iter().sum::<u16>() + widths.len() as u16 - 1 + 4;
    let left = area.width.saturating_sub(others(&widths) + CURVE_MIN);
    widths[0] = (longest(|line| line.name.chars().count()).clamp(8, NAME_MAX) as u16).min(left.max(8));
    widths[1] = pools.min(widths[1] + left.saturating_sub(widths[0]));
    // The curve takes what is left.
    widths[CURVE] = area.width.saturating_sub(others(&widths)).min(HISTORY as u16);
    let samples = widths[CURVE] as usize;
    let work = if samples < "work left".len() { "work" } else { "work left" };
    let number = columns.number.unwrap_or_default();
    let pool = if pools > 0 { "pool" } else { "" };
    let names =
        [columns.name, pool, number, "state", "calls", "open", work, "", "calls/s", "p50 ms", "p99 ms"];
    let header = names.iter().enumerate().map(|(index, name)| {
        let text = Text::from(*name);
        Cell::from(if matches!(index, 0 | 1 | 3 | CURVE) { text } else { text.alignment(Alignment::Right) })
    });
    let scale = Scale::of(columns.top, lines, samples);
    let rows = lines.iter().map(|line| row(line, columns, [widths[0], widths[1]], scale));
    let table = Table::new(rows, Constraint::from_lengths(widths))
        .header(Row::new(header).style(DIM))
        .column_spacing(1);
    frame.render_widget(table.block(block(columns.title)), area);
}

/// `widths` of the name and of its pools.
fn row<'a>(line: &Line, columns: &Columns, widths: [u16; 2], scale: Scale) -> Row<'a> {
    let state = match line.state.as_str() {
        "up" => Color::Green,
        "slow-start" | "ejected" | "paused" | "full" => Color::Yellow,
        "draining" | "off" => Color::Blue,
        _ => Color::Red,
    };
    let right = |text: String| Cell::from(Text::from(text).alignment(Alignment::Right));
    let time = |ms: Option<f64>| right(ms.map_or("-".to_owned(), |ms| milliseconds((ms * 1e3) as u64)));
    let number = columns.number.map(|_| format!("{:.2}", line.number)).unwrap_or_default();
    Row::new([
        Cell::from(shortened(&line.name, widths[0].into())).bold(),
        Cell::from(begun(&line.pools, widths[1].into())),
        right(number),
        Cell::from(Span::from(format!("● {}", line.shown_state)).fg(state)),
        right(line.calls.to_string()),
        right(line.transactions.to_string()),
        Cell::from(curve(line, scale)),
        right(format!("{:.1}", line.work)),
        right(format!("{:.0}", line.past.calls_per_second)),
        time(line.invite_p50_ms),
        time(line.invite_p99_ms),
    ])
}

/// The end of a name tells more than its beginning: it has the address.
fn shortened(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    std::iter::once('…').chain(name.chars().skip(length + 1 - width)).collect()
}

/// Names of pools are told apart by how they begin.
fn begun(names: &str, width: usize) -> String {
    if names.chars().count() <= width {
        return names.to_owned();
    }
    names.chars().take(width.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// How curves are drawn.
#[derive(Clone, Copy)]
struct Scale {
    samples: usize,
    top: f64,
    alarms: bool,
}

impl Scale {
    fn of(top: Top, lines: &[Line], samples: usize) -> Self {
        let (top, alarms) = match top {
            Top::Fixed(top) => (top, true),
            Top::AtLeast(least) => {
                let shown = lines.iter().flat_map(|line| line.past.work.iter().rev().take(samples));
                (shown.copied().fold(least, f64::max), false)
            }
        };
        Self { samples, top, alarms }
    }

    fn color(self, work: f64) -> Color {
        match work / self.top {
            _ if !self.alarms => Color::Green,
            ..0.1 => Color::Green,
            0.1..0.4 => Color::Yellow,
            _ => Color::Red,
        }
    }
}

/// The work left at the last samples, the newest to the right.
fn curve(line: &Line, scale: Scale) -> Text<'static> {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let history = &line.past.work;
    let shown = history.len().min(scale.samples);
    let mut spans = vec![Span::from(" ".repeat(scale.samples - shown))];
    for &work in history.range(history.len() - shown..) {
        // The square root shows a few requests and a hundred in one cell.
        let height = (work / scale.top).clamp(0.0, 1.0).sqrt();
        let step = STEPS[(height * (STEPS.len() - 1) as f64).round() as usize];
        spans.push(Span::from(step.to_string()).fg(scale.color(work)));
    }
    Text::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(shortened("10.0.0.1:5060", 13), "10.0.0.1:5060");
        assert_eq!(shortened("sip.example.com 10.0.0.1:5060", 14), "…10.0.0.1:5060");
    }
}
