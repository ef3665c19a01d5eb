//! The live picture of servers at work, which the demos show.

mod rate;
mod screen;

pub(crate) use rate::Rate;
pub(crate) use screen::Screen;

use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Span;
use ratatui::widgets::{Block, BorderType, LineGauge, Padding, Paragraph};

pub(crate) const ACCENT: Color = Color::Cyan;
pub(crate) const DIM: Style = Style::new().fg(Color::DarkGray);

/// Largest width. In a wider picture figures are too far apart to read.
const WIDTH_MAX: u16 = 104;

/// The area to draw in.
pub(crate) fn area(frame: &Frame<'_>) -> Rect {
    let area = frame.area();
    Rect { width: area.width.min(WIDTH_MAX), ..area }
}

pub(crate) fn block(title: &str) -> Block<'_> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(DIM)
        .title(Span::from(format!(" {title} ")).fg(ACCENT).bold())
        .padding(Padding::horizontal(1))
}

/// The line with the keys.
pub(crate) fn draw_keys(frame: &mut Frame<'_>, area: Rect, keys: &str) {
    frame.render_widget(Paragraph::new(keys).style(DIM).alignment(Alignment::Right), area);
}

/// Draws the elapsed part of a time. After this time only the last calls continue.
pub(crate) fn draw_progress(frame: &mut Frame<'_>, area: Rect, seconds: f64, total: f64) {
    let done = (seconds / total).clamp(0.0, 1.0);
    let label =
        if done < 1.0 { format!("{seconds:4.1} of {total:.1} s") } else { "the last calls end".to_owned() };
    let gauge = LineGauge::default()
        .ratio(done)
        .label(label)
        .filled_style(Style::new().fg(ACCENT))
        .unfilled_style(DIM);
    frame.render_widget(gauge, area);
}
