//! `sarabande load`: makes or answers calls.

mod answer;
mod call;
mod carrier;
pub(crate) mod table;
mod watch;

use crate::print;
use anyhow::{Context, Result};
use instruments::agents::Snapshot;
use load::RandomTime;
use serde_json::{Value, json};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;
use streams::StreamCounts;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    side: Side,
}

#[derive(clap::Subcommand)]
enum Side {
    /// Makes calls at fixed times, whether earlier ones succeed or not, and measures each from the time at which it
    /// should have started.
    Call(Box<call::Arguments>),
    /// Answers calls as one server or several, each with a given service time.
    Answer(Box<answer::Arguments>),
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.side {
        Side::Call(arguments) => call::run(arguments),
        Side::Answer(arguments) => answer::run(arguments),
    }
}

/// Options of both sides.
#[derive(clap::Args)]
struct Common {
    /// Seed of all random numbers. It is printed, so that a run can be repeated. Default: random.
    #[arg(long)]
    seed: Option<u64>,
    /// Write the result as JSON to this file. With `-` it goes to standard output, and all other output to standard
    /// error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Returns another number each time.
pub(super) fn random() -> u64 {
    // The keys of a hash map are the only source of randomness in the standard library.
    RandomState::new().build_hasher().finish()
}

impl Common {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| random() >> 32)
    }

    /// Prints the summary and writes the JSON.
    fn finish(&self, summary: &str, result: &Value) -> Result<()> {
        let json = || serde_json::to_string_pretty(result).context("cannot write JSON");
        match self.json.as_deref() {
            None => print::line(summary)?,
            Some(path) if path == Path::new("-") => {
                print::note(summary);
                print::line(json()?)?;
            }
            Some(path) => {
                // Both are tried: the disk may be full, or the reader of standard output may have gone away.
                let written = std::fs::write(path, json()? + "\n")
                    .with_context(|| format!("cannot write {}", path.display()));
                let printed = print::line(summary);
                return written.and(printed);
            }
        }
        Ok(())
    }
}

/// Counts of datagrams, for the JSON.
fn datagrams<R>(snapshot: &Snapshot<R>) -> Value {
    let Snapshot { received, sent, send_failed, receive_lost, unreachable, .. } = snapshot;
    json!({
        "received": received,
        "sent": sent,
        "send_failed": send_failed,
        "receive_lost": receive_lost,
        "unreachable": unreachable,
    })
}

/// Counts of connections, for the JSON.
fn connections<R>(snapshot: &Snapshot<R>) -> Value {
    let StreamCounts { accepted, opened, connect_failed, .. } = snapshot.connections;
    json!({ "accepted": accepted, "opened": opened, "failed": connect_failed })
}

/// A time such as `10s` or `1.5ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(RandomTime::Fixed(time)) if !text.contains(':') => Ok(time),
        _ => Err("write a number and us, ms, s, m or h, such as 10s".to_owned()),
    }
}
