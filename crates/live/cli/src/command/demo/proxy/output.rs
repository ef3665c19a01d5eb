//! Shows a moment of the demo: as a picture, or as lines where there is no terminal.

use super::chain::{CAST, Part, rate};
use super::scene::{Line, Scene, known_percent, percent};
use super::view;
use crate::command::demo::stage::{self, LineClock};
use anyhow::Result;
use ratatui::Frame;

impl stage::Scene for Scene<'_> {
    /// The phase that lines are of.
    type Told = Option<usize>;

    fn draw(&self, frame: &mut Frame<'_>) {
        view::draw(frame, self);
    }

    fn print(&self, told: &mut Option<usize>, clock: &mut LineClock) -> Result<()> {
        if told.replace(self.index) != Some(self.index) {
            let (phase, number, of) = (self.phase(), self.index + 1, self.phases.len());
            let calls = rate(phase.load);
            print_line!("phase {number}/{of} {}, {calls:.0} calls/s: {}", phase.name, phase.shows)?;
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
