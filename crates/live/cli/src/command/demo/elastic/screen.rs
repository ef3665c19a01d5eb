//! Where it is shown: the terminal, or lines.

use super::scene::{Line, Scene, shown};
use super::story::{PHASES, Pace};
use super::view;
use crate::command::demo::screen::Screen;
use crate::command::load::table::milliseconds;
use anyhow::Result;
use std::time::{Duration, Instant};

const LINE_EVERY: Duration = Duration::from_secs(1);

/// Lines for where there is no terminal.
pub(super) struct Lines {
    next: Instant,
    phase: Option<usize>,
    news: usize,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), phase: None, news: 0 }
    }

    fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        if self.phase.is_none() {
            print_line!("{}", shortened(&scene.story.pace))?;
        }
        if self.phase != Some(scene.index) {
            self.phase = Some(scene.index);
            let phase = scene.phase();
            print_line!("phase {}/{} {}: {}", scene.index + 1, PHASES.len(), phase.name, phase.shows)?;
        }
        for news in &scene.news[self.news..] {
            print_line!("{news}")?;
        }
        self.news = scene.news.len();
        if scene.seconds <= 0.0 {
            // Until the first server is there nobody calls.
            self.next = Instant::now() + LINE_EVERY;
        }
        if Instant::now() < self.next {
            return Ok(());
        }
        self.next += LINE_EVERY;
        let now = scene.now();
        let servers: Vec<_> = scene.lines.iter().filter_map(server).collect();
        print_line!(
            "{:5.1} s  {:.0} calls/s for {:.0}, {} waiting, {} lost; {} servers wanted, {} ready: {}",
            scene.seconds,
            now.offered,
            now.capacity,
            scene.waiting,
            scene.calls.calls_failed(),
            scene.wanted,
            scene.ready,
            servers.join(", ")
        )
    }
}

/// What a server does, unless it is stopped.
fn server(line: &Line) -> Option<String> {
    let name = &line.name;
    if line.state == shown("off") {
        return None;
    }
    let Some(capacity) = line.capacity else { return Some(format!("{name} {}", line.state)) };
    let p95 = line.p95_us.map_or("-".to_owned(), milliseconds);
    Some(format!("{name} {:.0} of {capacity:.0}/s p95 {p95} ms", line.calls_per_second))
}

/// What is not as it is in a cloud.
pub(super) fn shortened(pace: &Pace) -> String {
    let [boot, calm, idle] = [pace.boot, pace.calm, pace.idle].map(|time| time.as_secs());
    format!("times are shortened: start {boot} s, drain after {calm} s, stop after {idle} s")
}

impl Screen<Lines> {
    pub(super) fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        match self {
            Self::Terminal(terminal) => terminal.draw(|frame| view::draw(frame, scene)),
            Self::Lines(lines) => lines.show(scene),
        }
    }
}
