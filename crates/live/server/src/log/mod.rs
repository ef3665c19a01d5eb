//! The log on standard error. It never stops the process: a disk that is full and a reader that is gone or stands
//! still cost lines, which are counted, and said in a line when writing works again.
//!
//! - `queue`: lines go through a bounded queue to a thread that writes them,
//! - `limit`: at most so many lines a second of one kind.

mod limit;
mod queue;

use config::{Level, Log, LogFormat};
use limit::Limit;
use queue::Queue;
use std::backtrace::Backtrace;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Set by [`start`].
static QUEUE: OnceLock<Queue> = OnceLock::new();
static LIMIT: OnceLock<Limit> = OnceLock::new();

/// Lines that were not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unwritten {
    /// They could not be: writing failed, or too many were waiting for it.
    pub lost: u64,
    /// They were too many of one kind.
    pub suppressed: u64,
}

/// Starts the log of this process; to be called once. `RUST_LOG` overrides the configured level.
///
/// # Errors
/// When there is no standard error to write to, or no thread to write it.
pub fn start(settings: &Log) -> io::Result<()> {
    let limit = LIMIT.get_or_init(Limit::default);
    let queue = queue::start(queue::standard_error()?, limit.clone())?;
    let queue = QUEUE.get_or_init(|| queue);
    let level = settings.level.as_str();
    // What the libraries have to say beyond warnings is for their authors.
    let others = if matches!(settings.level, Level::Off | Level::Error) { level } else { "warn" };
    let ours = || EnvFilter::new(format!("{others},server={level},shards={level},sarabande={level}"));
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| ours());
    // The library reports its own errors where it can panic (`eprintln!`); the queue has none.
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(queue.clone());
    let log = tracing_subscriber::registry();
    match settings.format {
        LogFormat::Text => log.with(lines).with(filter).with(limit.clone()).init(),
        LogFormat::Json => log.with(lines.json()).with(filter).with(limit.clone()).init(),
    }
    // The usual hook waits for standard error, perhaps for ever, and a thread that waits there is never reported
    // dead.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}\n{}", Backtrace::capture())));
    Ok(())
}

/// Waits until all lines logged so far are written, but no longer than `patience`.
pub fn flush(patience: Duration) {
    if let Some(queue) = QUEUE.get() {
        queue.flush(patience);
    }
}

/// Lines that were not written since the start.
pub fn unwritten() -> Unwritten {
    Unwritten {
        lost: QUEUE.get().map_or(0, Queue::lost),
        suppressed: LIMIT.get().map_or(0, Limit::suppressed),
    }
}
