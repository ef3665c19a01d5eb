//! The demo in lines, where there is no terminal.

use super::act::Scene;
use anyhow::Result;
use std::time::{Duration, Instant};

const LINE_EVERY: Duration = Duration::from_secs(1);

/// Lines for where there is no terminal.
pub(super) struct Lines {
    next: Instant,
    act: String,
    news: usize,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), act: String::new(), news: 0 }
    }

    pub(super) fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        let policy = &scene.act.policy;
        if self.act != scene.number {
            scene.number.clone_into(&mut self.act);
            self.news = 0;
            self.next = Instant::now() + LINE_EVERY;
        }
        for news in &scene.news[self.news..] {
            print_line!("{} {policy:<12} {news}", scene.number)?;
        }
        self.news = scene.news.len();
        if Instant::now() >= self.next {
            self.next += LINE_EVERY;
            print_line!(
                "{} {policy:<12} {:4.1} s  {}",
                scene.number,
                scene.seconds,
                scene.results.progress()
            )?;
        }
        Ok(())
    }
}
