//! `sarabande stop`: ends the server with its last call.

use super::drain::left;
use super::status::{MEMBERS, plural};
use crate::admin::{Exit, Target};
use crate::print::Progress;
use anyhow::Result;
use serde_json::Value;
use server::figures::{MembersView, ProxyView};
use std::time::{Duration, Instant};

/// How often a waiting stop looks.
const POLL: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Wait until it has ended, and show what is left. Fails with exit code 4 when the time `stop.wait` was over before
    /// the last call.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    target: Target,
}

/// What a server that stops still has to do.
struct Left {
    text: String,
    /// Calls, or requests of a proxy.
    calls: u64,
    /// When the server ends in spite of them.
    ends: Instant,
}

/// Has the server take no new calls, and end with its last one.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { wait, target } = arguments;
    let _: Value = target.post("/api/stop", b"")?;
    let mut progress = Progress::new();
    // An error once may be the end that is on its way.
    let mut failed = false;
    let mut last = None;
    loop {
        match remaining(target) {
            Ok(None) => {
                progress.show("stopped; another process takes calls now".to_owned())?;
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
            Err(error) if Exit::is_nobody(&error) => {
                progress.show("stopped".to_owned())?;
                progress.end()?;
                let cut = last.filter(|left| left.calls > 0 && Instant::now() >= left.ends);
                return cut.map_or(Ok(()), |left| {
                    Err(Exit::no(format!(
                        "[stop] wait was over, and the server has ended with {}",
                        left.text
                    )))
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

/// What the server still has to do; nothing is known of it where another one answers in its place, started anew.
fn remaining(target: &Target) -> Result<Option<Left>> {
    let health = target.health()?;
    let Some(seconds) = health.stop_seconds else { return Ok(None) };
    let ends = Instant::now() + Duration::from_secs_f64(seconds);
    if health.role == "proxy" {
        let proxy: ProxyView = target.get("/api/proxy")?;
        let answered = proxy.calls.as_ref().map_or(0, |calls| calls.answered as u64);
        let text = plural(proxy.unanswered as u64, "unanswered request");
        let text = if answered > 0 { format!("{text}, {}", plural(answered, "call")) } else { text };
        return Ok(Some(Left { text, calls: proxy.unanswered as u64 + answered, ends }));
    }
    let members: MembersView = target.get(MEMBERS)?;
    let calls = members.members.iter().map(|member| u64::from(member.calls)).sum();
    Ok(Some(Left { text: left(&members.members), calls, ends }))
}
