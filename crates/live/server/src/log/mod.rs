//! The log on standard error. It never blocks the process. If the disk is full, or the reader is gone or stopped, lines
//! are lost. They are counted and reported when writing works again.
//!
//! - `queue`: lines go through a bounded queue to a thread that writes them,
//! - `limit`: rate limit of the lines of one kind,
//! - `refusals`: a line each minute about the requests that were refused.

mod limit;
pub(crate) mod limits;
mod queue;
pub(crate) mod refusals;

use config::{Level, Log, LogFormat};
use limit::Limit;
use queue::Queue;
use std::backtrace::Backtrace;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// Set by [`start`].
static QUEUE: OnceLock<Queue> = OnceLock::new();
static LIMIT: OnceLock<Limit> = OnceLock::new();
/// Filter of the level; not set if the level is fixed.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Numbers of lines that were not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unwritten {
    /// Lines lost because writing failed or the queue was full.
    pub lost: u64,
    /// Lines suppressed because there were too many of their kind.
    pub suppressed: u64,
}

/// Starts the log of this process; called once. `RUST_LOG` overrides the level; without it, `level` overrides the
/// configured level.
///
/// # Errors
/// If there is no standard error to write to, or no thread can be started.
pub fn start(settings: &Log, level: Option<Level>) -> io::Result<()> {
    let limit = LIMIT.get_or_init(Limit::default);
    let queue = queue::start(queue::standard_error()?, limit.clone())?;
    let queue = QUEUE.get_or_init(|| queue);
    let of_environment = EnvFilter::try_from_default_env().ok();
    let is_fixed = of_environment.is_some() || level.is_some();
    let filter = of_environment.unwrap_or_else(|| filter(level.unwrap_or(settings.level)));
    let (filter, handle) = reload::Layer::new(filter);
    if !is_fixed {
        let _ = FILTER.set(handle);
    }
    // The library would report its own errors with `eprintln!`, which can panic. The queue causes no errors.
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(queue.clone());
    let log = tracing_subscriber::registry().with(filter);
    match settings.format {
        LogFormat::Text => log.with(lines).with(limit.clone()).init(),
        LogFormat::Json => log.with(lines.json()).with(limit.clone()).init(),
    }
    // The default panic hook writes to standard error and may block forever. A thread that blocks there is never
    // reported as dead.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}\n{}", Backtrace::capture())));
    Ok(())
}

/// Changes the level. Returns whether it has changed: it has not if `RUST_LOG` or the command line sets it.
pub(crate) fn set_level(level: Level) -> bool {
    FILTER.get().is_some_and(|handle| handle.reload(filter(level)).is_ok())
}

fn filter(level: Level) -> EnvFilter {
    let name = level.as_str();
    // Libraries log only warnings and errors; more is of use only to their authors.
    let others = if matches!(level, Level::Off | Level::Error) { name } else { "warn" };
    let ours = ["server", "shards", "streams", "sarabande"].map(|part| format!("{part}={name}")).join(",");
    EnvFilter::new(format!("{others},{ours}"))
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
