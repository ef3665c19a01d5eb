//! How fast a server answers while many requests are open.

use base::Instant;
use core::time::Duration;

/// Fewer requests than this are no crowd: any server bears them.
const CROWD: u32 = 16;
/// Length of the two windows in which answers are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// A pace is known from this time on.
const LEAST: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    answers: u32,
}

/// The answers of a server since many requests were open.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    /// This window and the one before; none while fewer are open.
    windows: Option<(Window, Option<Window>)>,
}

impl Pace {
    /// So many are open now.
    pub(super) fn note_open(&mut self, now: Instant, open: u32) {
        if open < CROWD {
            self.windows = None;
            return;
        }
        let new = Window { since: now, answers: 0 };
        match &mut self.windows {
            None => self.windows = Some((new, None)),
            Some((current, before)) if now.saturating_since(current.since) >= WINDOW => {
                *before = Some(core::mem::replace(current, new));
            }
            Some(_) => {}
        }
    }

    pub(super) fn answer(&mut self) {
        if let Some((current, _)) = &mut self.windows {
            current.answers += 1;
        }
    }

    /// Answers a second, once it is known; half an answer where there was none.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let (current, before) = self.windows?;
        let since = before.map_or(current.since, |before| before.since);
        let answers = current.answers + before.map_or(0, |before| before.answers);
        let length = now.saturating_since(since);
        (length >= LEAST).then(|| f64::from(answers).max(0.5) / length.as_secs_f64())
    }
}
