//! Shows a moment of the demo: as a picture, or as lines without a terminal.

use super::scene::{Line, STOPPED, Scene, shortened};
use super::story::PHASES;
use super::view;
use crate::command::demo::stage::{self, LineClock};
use crate::command::load::table::milliseconds;
use anyhow::Result;
use ratatui::Frame;

/// Progress of the plain output.
#[derive(Default)]
pub(super) struct Printed {
    phase: Option<usize>,
    news: usize,
}

impl stage::Scene for Scene<'_> {
    type Printed = Printed;

    fn draw(&self, frame: &mut Frame<'_>) {
        view::draw(frame, self);
    }

    fn print(&self, printed: &mut Printed, clock: &mut LineClock) -> Result<()> {
        let before = printed.phase.replace(self.index);
        if before.is_none() {
            print_line!("{}", shortened(&self.story.pace))?;
        }
        if before != printed.phase {
            let phase = self.phase();
            print_line!("phase {}/{} {}: {}", self.index + 1, PHASES.len(), phase.name, phase.shows)?;
        }
        for news in &self.news[printed.news..] {
            print_line!("{news}")?;
        }
        printed.news = self.news.len();
        if self.seconds <= 0.0 {
            // There are no calls until the first server runs.
            clock.restart();
        }
        if !clock.is_due() {
            return Ok(());
        }
        let now = self.now();
        let servers: Vec<_> = self.lines.iter().filter_map(Line::text).collect();
        print_line!(
            "{:5.1} s  {:.0} calls/s for {:.0}, {} waiting, {} lost; {} servers wanted, {} ready: {}",
            self.seconds,
            now.offered,
            now.capacity,
            self.waiting,
            self.calls.calls_failed(),
            self.wanted,
            self.ready,
            servers.join(", ")
        )
    }
}

impl Line {
    /// Text about a server; `None` if it is stopped.
    fn text(&self) -> Option<String> {
        let Self { name, state, calls_per_second, .. } = self;
        if state == STOPPED {
            return None;
        }
        let Some(capacity) = self.capacity else { return Some(format!("{name} {state}")) };
        let p95 = self.p95_us.map_or("-".to_owned(), milliseconds);
        Some(format!("{name} {calls_per_second:.0} of {capacity:.0}/s p95 {p95} ms"))
    }
}
