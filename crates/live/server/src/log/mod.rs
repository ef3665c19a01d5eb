//! The log on standard error. It never blocks the process. If the disk is full, or the reader is gone or stopped, lines
//! are lost. They are counted and reported when writing works again.
//!
//! - `queue`: lines go through a bounded queue to a thread that writes them,
//! - `limit`: rate limit of the lines of one kind.

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

/// Numbers of lines that were not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unwritten {
    /// Lines lost because writing failed or the queue was full.
    pub lost: u64,
    /// Lines suppressed because there were too many of their kind.
    pub suppressed: u64,
}

/// Starts the log of this process; called once. `RUST_LOG` overrides the configured level.
///
/// # Errors
/// If there is no standard error to write to, or no thread can be started.
pub fn start(settings: &Log) -> io::Result<()> {
    let limit = LIMIT.get_or_init(Limit::default);
    let queue = queue::start(queue::standard_error()?, limit.clone())?;
    let queue = QUEUE.get_or_init(|| queue);
    let level = settings.level.as_str();
    // Libraries log only warnings and errors; more is of use only to their authors.
    let others = if matches!(settings.level, Level::Off | Level::Error) { level } else { "warn" };
    let ours = ["server", "shards", "streams", "sarabande"].map(|name| format!("{name}={level}")).join(",");
    let ours = || EnvFilter::new(format!("{others},{ours}"));
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| ours());
    // The library would report its own errors with `eprintln!`, which can panic. The queue causes no errors.
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(queue.clone());
    let log = tracing_subscriber::registry();
    match settings.format {
        LogFormat::Text => log.with(lines).with(filter).with(limit.clone()).init(),
        LogFormat::Json => log.with(lines.json()).with(filter).with(limit.clone()).init(),
    }
    // The default panic hook writes to standard error and may block forever. A thread that blocks there is never
    // reported as dead.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}\n{}", Backtrace::capture())));
    Ok(())
}

/// Waits until all lines logged so far are written, at most for `patience`.
pub fn flush(patience: Duration) {
    if let Some(queue) = QUEUE.get() {
        queue.flush(patience);
    }
}

/// Returns the number of lines that were not written since the start.
pub fn unwritten() -> Unwritten {
    Unwritten {
        lost: QUEUE.get().map_or(0, Queue::lost),
        suppressed: LIMIT.get().map_or(0, Limit::suppressed),
    }
}
