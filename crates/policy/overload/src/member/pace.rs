//! Pace of a server's responses while many requests are open.

use base::Instant;
use core::time::Duration;

/// Least number of open requests that counts as many. Any server can handle fewer.
const CROWD: u32 = 16;
/// Length of the two windows in which responses are counted.
const WINDOW: Duration = Duration::from_millis(100);
/// Time after which a pace is known.
const LEAST: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    answers: u32,
}

/// Responses of a server since many requests were open.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    /// Present and previous window; `None` while few requests are open.
    windows: Option<(Window, Option<Window>)>,
}

impl Pace {
    /// Updates the number of open requests.
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

    /// Responses per second; `None` until it is known. If there was no response, half a response is assumed.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let (current, before) = self.windows?;
        let since = before.map_or(current.since, |before| before.since);
        let answers = current.answers + before.map_or(0, |before| before.answers);
        let length = now.saturating_since(since);
        (length >= LEAST).then(|| f64::from(answers).max(0.5) / length.as_secs_f64())
    }
}
