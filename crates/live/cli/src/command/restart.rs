//! `sarabande restart`: another process takes over from the running one.

use super::text::{plural, span};
use crate::admin::Target;
use anyhow::{Result, bail};
use server::figures::{HealthView, Restarting};
use std::time::{Duration, Instant};

/// Interval at which a restart looks for the new process.
const POLL: Duration = Duration::from_millis(200);
/// A new process looks up the names of its members first, each for some seconds at most.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// Makes the server start another process that takes over, and waits for it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let target = &arguments.target;
    let before = target.health()?;
    let _: Restarting = target.post("/api/restart", b"")?;
    let since = Instant::now();
    loop {
        std::thread::sleep(POLL);
        // No answer is possible at the moment in which the listener is handed over.
        if let Ok(now) = target.health()
            && now.process != before.process
        {
            return print_line!("{}", text(&before, &now));
        }
        if since.elapsed() > PATIENCE {
            bail!(
                "no other process has taken over within {}; the old process continues. See its log for the reason",
                span(PATIENCE.as_secs_f64())
            );
        }
    }
}

fn text(before: &HealthView, now: &HealthView) -> String {
    let left = match now.predecessor_calls {
        Some(calls) if calls > 0 => {
            format!("; {} are still in the old process", plural(calls as u64, "call"))
        }
        _ => String::new(),
    };
    let version = match (&before.version, &now.version) {
        (old, new) if old == new => format!("version {new}"),
        (old, new) => format!("version {new}, previously {old}"),
    };
    format!("restarted: another process has taken over, {version}{left}")
}
