//! `sarabande stop`: ends the server with its last call.

use super::drain::left;
use super::status::{MEMBERS, plural};
use crate::admin::{Exit, Target};
use crate::print::Progress;
use anyhow::Result;
use serde_json::Value;
use server::figures::{HealthView, MembersView, ProxyView};
use std::time::Duration;

/// How often a waiting stop looks.
const POLL: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Wait until it has ended, and show what is left.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    target: Target,
}

/// Has the server take no new calls, and end with its last one.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { wait, target } = arguments;
    let _: Value = target.post("/api/stop", b"")?;
    let mut progress = Progress::new();
    // An error once may be the end that is on its way.
    let mut failed = false;
    loop {
        match remaining(target) {
            Ok(None) => {
                progress.show("stopped; another process takes calls now".to_owned())?;
                return progress.end();
            }
            Ok(Some(text)) => {
                failed = false;
                progress.show(format!("stopping, no new calls are taken: {text}"))?;
                if !wait {
                    return progress.end();
                }
            }
            Err(error) if Exit::is_nobody(&error) => {
                progress.show("stopped".to_owned())?;
                return progress.end();
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
fn remaining(target: &Target) -> Result<Option<String>> {
    let health: HealthView = target.send("GET", "/api/health", b"")?.json(&[200, 503])?;
    if !health.stopping {
        return Ok(None);
    }
    if health.role == "proxy" {
        let proxy: ProxyView = target.get("/api/proxy")?;
        return Ok(Some(plural(proxy.unanswered as u64, "unanswered request")));
    }
    let members: MembersView = target.get(MEMBERS)?;
    Ok(Some(left(&members.members)))
}
