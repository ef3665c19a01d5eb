//! Shows a moment of the demo: as a picture, or as lines without a terminal.

use super::chain::{CAST, Part};
use super::phases::Phase;
use super::scene::{Line, Scene, known_percent, percent};
use super::view;
use crate::command::demo::stage::{self, LineClock};
use anyhow::Result;
use ratatui::Frame;

impl stage::Scene for Scene<'_> {
    /// Name of the phase that was printed last.
    type Printed = Option<&'static str>;

    fn draw(&self, frame: &mut Frame<'_>) {
        view::draw(frame, self);
    }

    fn print(&self, printed: &mut Self::Printed, clock: &mut LineClock) -> Result<()> {
        let Phase { name, shows, .. } = self.phase;
        if printed.replace(name) != Some(name) {
            print_line!("{}{name}, {:.0} calls/s: {shows}", self.place(), self.rate)?;
        }
        if !clock.is_due() {
            return Ok(());
        }
        let of = |(part, line): (&Part, &Line)| {
            let throttles = if line.throttles { " throttles" } else { "" };
            let (busy, keeps) = (percent(line.busy), known_percent(line.keeps));
            format!("{} busy {busy} keeps {keeps}{throttles}", part.name)
        };
        let proxies = CAST.iter().zip(&self.lines).map(of).collect::<Vec<_>>().join(", ");
        print_line!("{:5.1} s  {proxies}; {}", self.seconds, self.calls.progress())
    }
}
