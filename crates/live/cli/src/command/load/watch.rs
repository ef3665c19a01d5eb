//! Waits for the end of a run of load agents, and shows its progress.

use anyhow::{Context, Result};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

/// Interval at which the end is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LINE_EVERY: Duration = Duration::from_secs(1);

/// How a run ended.
pub(super) struct Ended {
    /// Time since the start.
    pub(super) elapsed: Duration,
    /// Whether SIGINT, SIGTERM or SIGHUP ended it.
    pub(super) interrupted: bool,
}

/// Prints `line` to standard error each second in which it changes, until a signal, or until `done` returns `true` for
/// the time since the start.
pub(super) fn watch(mut line: impl FnMut() -> String, done: impl Fn(Duration) -> bool) -> Result<Ended> {
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let (mut interrupt, mut terminate, mut hangup) = (
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        );
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut next_line = LINE_EVERY;
        let mut last = String::new();
        loop {
            let interrupted = tokio::select! {
                _ = look.tick() => false,
                _ = interrupt.recv() => true,
                _ = terminate.recv() => true,
                _ = hangup.recv() => true,
            };
            let elapsed = start.elapsed();
            if interrupted || done(elapsed) {
                return Ok(Ended { elapsed, interrupted });
            }
            if elapsed >= next_line {
                let line = line();
                if line != last {
                    print_note!("{:4.0} s  {line}", elapsed.as_secs_f64());
                    last = line;
                }
                next_line += LINE_EVERY;
            }
        }
    })
}
