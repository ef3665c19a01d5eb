//! `sarabande stop`: ends the server with its last call.

use super::drain::left;
use super::status::MEMBERS;
use super::text::plural;
use crate::admin::{Exit, Target};
use crate::print::Progress;
use anyhow::Result;
use serde_json::Value;
use server::figures::{MembersView, ProxyView};
use std::time::{Duration, Instant};

/// Interval at which a stop looks for the end.
const POLL: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Wait until the server has ended, and show the remaining calls. Exits with 4 if `[stop] wait` was over before the
    /// last call ended.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    target: Target,
}

/// Remaining work of a server that stops.
struct RemainingWork {
    text: String,
    /// Calls, or requests of a proxy.
    calls: u64,
    /// Time at which the server ends in any case.
    ends: Instant,
}

/// Stops the server: it takes no new calls, and ends with its last one.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { wait, target } = arguments;
    let _: Value = target.post("/api/stop", b"")?;
    let mut progress = Progress::new();
    // A single error may mean that the server ends at this moment.
    let mut failed = false;
    let mut last = None;
    loop {
        match remaining(target) {
            Ok(None) => {
                progress.show("stopped; another process now accepts calls".to_owned())?;
                return progress.end();
            }
            Ok(Some(left)) => {
                failed = false;
                progress.show(format!("stopping, no new calls are taken: {}", left.text))?;
                last = Some(left);
                if !wait {
                    return progress.end();
                }
            }
            Err(error) if Exit::is_connection_refused(&error) => {
                progress.show("stopped".to_owned())?;
                progress.end()?;
                let cut = last.filter(|left| left.calls > 0 && Instant::now() >= left.ends);
                return cut.map_or(Ok(()), |left| {
                    Err(Exit::no(format!("[stop] wait is over, and the server has ended with {}", left.text)))
                });
            }
            Err(error) if failed => {
                progress.end()?;
                return Err(error);
            }
            Err(_) => failed = true,
        }
        std::thread::sleep(POLL);
    }
}

/// Returns the remaining work of the server; `None` if a newly started server answers in its place.
fn remaining(target: &Target) -> Result<Option<RemainingWork>> {
    let health = target.health()?;
    let Some(seconds) = health.stop_seconds else { return Ok(None) };
    let ends = Instant::now() + Duration::from_secs_f64(seconds);
    if health.role == "proxy" {
        let proxy: ProxyView = target.get("/api/proxy")?;
        let answered = proxy.calls.as_ref().map_or(0, |calls| calls.answered as u64);
        let text = plural(proxy.unanswered as u64, "unanswered request");
        let text = if answered > 0 { format!("{text}, {}", plural(answered, "call")) } else { text };
        return Ok(Some(RemainingWork { text, calls: proxy.unanswered as u64 + answered, ends }));
    }
    let members: MembersView = target.get(MEMBERS)?;
    let calls = members.members.iter().map(|member| u64::from(member.calls)).sum();
    Ok(Some(RemainingWork { text: left(&members.members), calls, ends }))
}
