//! Rate limit of log lines of one kind. A peer that can cause a line must not be able to fill the disk.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Lines of one kind at once: that many members may die at the same time.
const BURST: u32 = 50;
/// Interval at which one more line of a kind is allowed: ten a second.
const EACH: Duration = Duration::from_millis(100);
/// Interval of the lines that report how many lines of a kind were suppressed.
const TELL: Duration = Duration::from_secs(1);
/// Target of these reports, which are not limited themselves.
const TARGET: &str = "server::log::limit";

/// Limit of kinds. The text of a line may contain words of a peer.
const KINDS_MOST: usize = 1_024;

/// Admits lines and counts the suppressed ones. The kind of a line is its place in the program and its text, since one
/// place may report many causes.
#[derive(Clone, Default)]
pub(super) struct Limit {
    kinds: Arc<Mutex<HashMap<(Identifier, String), Kind>>>,
    suppressed: Arc<AtomicU64>,
}

struct Kind {
    level: Level,
    pace: Pace,
    /// Suppressed lines that were not reported yet.
    unreported: u64,
    reported: Instant,
}

/// The generic cell rate algorithm (ITU-T I.371): theoretical time at which all admitted lines are due.
struct Pace(Instant);

impl Pace {
    fn admits(&mut self, now: Instant) -> bool {
        let due = self.0.max(now);
        let within = due.saturating_duration_since(now) <= EACH * (BURST - 1);
        if within {
            self.0 = due + EACH;
        }
        within
    }
}

impl Limit {
    pub(super) fn suppressed(&self) -> u64 {
        self.suppressed.load(Ordering::Relaxed)
    }

    fn admits(&self, now: Instant, event: &Event<'_>) -> bool {
        let meta = event.metadata();
        let mut text = String::new();
        event.record(&mut Text(&mut text));
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kind = (meta.callsite(), text);
        if kinds.len() >= KINDS_MOST && !kinds.contains_key(&kind) {
            // All further texts of this place are one kind.
            kind.1.clear();
        }
        let kind = kinds.entry(kind).or_insert_with(|| Kind {
            level: *meta.level(),
            pace: Pace(now),
            unreported: 0,
            reported: now,
        });
        if kind.pace.admits(now) {
            return true;
        }
        kind.unreported += 1;
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Logs how many lines of each kind were suppressed.
    pub(super) fn tell(&self, now: Instant) {
        // The lock must not be held while a line is logged.
        let due: Vec<_> = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = |kind: &Kind| kind.unreported > 0 && now.duration_since(kind.reported) >= TELL;
            let due = kinds.iter_mut().filter(|(_, kind)| is_due(kind));
            due.map(|((_, text), kind)| {
                kind.reported = now;
                (kind.level, std::mem::take(&mut kind.unreported), text.clone())
            })
            .collect()
        };
        for (level, lines, text) in due {
            const MORE: &str = "more lines of this kind were suppressed";
            match level {
                Level::ERROR => tracing::error!(target: TARGET, lines, kind = text, "{MORE}"),
                Level::WARN => tracing::warn!(target: TARGET, lines, kind = text, "{MORE}"),
                Level::INFO => tracing::info!(target: TARGET, lines, kind = text, "{MORE}"),
                Level::DEBUG => tracing::debug!(target: TARGET, lines, kind = text, "{MORE}"),
                Level::TRACE => tracing::trace!(target: TARGET, lines, kind = text, "{MORE}"),
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        event.metadata().target() == TARGET || self.admits(Instant::now(), event)
    }
}

/// The message of a line without its fields.
struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::queue;
    use std::io::{self, Write};
    use tracing_subscriber::layer::SubscriberExt as _;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn further_lines_of_a_kind_are_reported_in_one_line() {
        let (limit, lines) = (Limit::default(), Lines::default());
        let queue = queue::start(lines.clone(), Limit::default()).unwrap();
        let fmt = tracing_subscriber::fmt::layer().with_writer(queue.clone());
        let log = tracing_subscriber::registry().with(fmt).with(limit.clone());
        let start = Instant::now();
        let many = u64::from(BURST) + 500;
        tracing::subscriber::with_default(log, || {
            for number in 0..many {
                tracing::warn!(number, "a repeated line");
                if number == 7 {
                    tracing::info!("another kind");
                }
            }
            for cause in ["one cause", "another cause"] {
                for _ in 0..BURST {
                    tracing::debug!("{cause}");
                }
            }
            limit.tell(start);
            limit.tell(start + TELL + Duration::from_mins(1));
            limit.tell(start + TELL * 2 + Duration::from_mins(2));
        });
        queue.flush(Duration::from_secs(30));
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let suppressed = limit.suppressed();
        let count = |part: &str| text.lines().filter(|line| line.contains(part)).count() as u64;
        assert_eq!(count("a repeated line number="), many - suppressed, "{text}");
        // Some lines become due while the loop runs; on a slow machine, all of them.
        assert!(suppressed <= 500, "{suppressed}");
        assert_eq!(count("another kind"), 1);
        assert_eq!(
            count("one cause") + count("another cause"),
            2 * u64::from(BURST),
            "each kind has its own limit"
        );
        let reported = format!("lines={suppressed} kind=\"a repeated line\"");
        assert_eq!(count(&reported), u64::from(suppressed > 0), "{text}");
    }

    #[test]
    fn the_pace_allows_a_burst_and_then_ten_a_second() {
        let start = Instant::now();
        let mut pace = Pace(start);
        let mut admitted =
            |at: Duration, tries: usize| (0..tries).filter(|_| pace.admits(start + at)).count();
        assert_eq!(admitted(Duration::ZERO, 1_000), BURST as usize);
        assert_eq!(admitted(Duration::from_secs(1), 1_000), 10);
        assert_eq!(admitted(Duration::from_mins(1), 1_000), BURST as usize);
    }
}
