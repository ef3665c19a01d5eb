//! Where it is shown: the terminal, or lines.

use super::scene::{Scene, known_percent, percent};
use super::stage::{CAST, Part, rate};
use super::view;
use crate::command::demo::screen::Screen;
use anyhow::Result;
use std::time::{Duration, Instant};

const LINE_EVERY: Duration = Duration::from_secs(1);

/// Lines for where there is no terminal.
pub(super) struct Lines {
    next: Instant,
    phase: Option<usize>,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { next: Instant::now() + LINE_EVERY, phase: None }
    }

    fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        if self.phase != Some(scene.index) {
            self.phase = Some(scene.index);
            print_line!("{}", title(scene))?;
        }
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next += LINE_EVERY;
        let of = |(part, line): (&Part, &super::scene::Line)| {
            let throttles = if line.throttles { " throttles" } else { "" };
            format!(
                "{} busy {} keeps {}{throttles}",
                part.name,
                percent(line.busy),
                known_percent(line.keeps)
            )
        };
        let proxies = CAST.iter().zip(&scene.lines).map(of).collect::<Vec<_>>().join(", ");
        print_line!("{:5.1} s  {proxies}; {}", scene.seconds, scene.calls.progress())
    }
}

/// Which phase it is.
fn title(scene: &Scene<'_>) -> String {
    let phase = scene.phase();
    let (number, of, calls) = (scene.index + 1, scene.phases.len(), rate(phase.load));
    format!("phase {number}/{of} {}, {calls:.0} calls/s: {}", phase.name, phase.shows)
}

impl Screen<Lines> {
    pub(super) fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.draw(|frame| view::draw(frame, scene)),
            Self::Lines(lines) => lines.show(scene),
        }
    }
}
