//! `sarabande drain` and `undrain`: takes a member out of service, and back.

use super::status::{MEMBERS, plural, span};
use crate::admin::{Target, escape};
use crate::print::Progress;
use anyhow::{Result, bail};
use server::admin::view::{MemberView, MembersView};
use std::time::Duration;

/// How often a waiting drain looks.
const POLL: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Address of the member, or its name in the configuration.
    member: String,
    /// Let it take new calls again.
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until its last call has ended, and show what is left.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    target: Target,
}

/// Starts or ends the draining of a member.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { member, target, .. } = arguments;
    let verb = if arguments.undo { "undrain" } else { "drain" };
    let meant: MembersView = target.post(&format!("/api/{verb}?member={}", escape(member)), b"")?;
    if arguments.wait {
        return wait(target, meant.members);
    }
    for member in &meant.members {
        print_line!("{}: {}, {}", member.address, member.state, left(std::slice::from_ref(member)))?;
    }
    Ok(())
}

/// Shows what is left until nothing is.
fn wait(target: &Target, mut members: Vec<MemberView>) -> Result<()> {
    let mut progress = Progress::new();
    loop {
        let names: Vec<_> = members.iter().map(|member| member.address.to_string()).collect();
        progress.show(format!("{}: {}", names.join(", "), left(&members)))?;
        if let Some(member) = members.iter().find(|member| !member.draining) {
            progress.end()?;
            bail!("{} does not drain any more: somebody has undone it", member.address);
        }
        if members.iter().all(|member| member.calls == 0 && member.transactions == 0) {
            return progress.end();
        }
        std::thread::sleep(POLL);
        let all: MembersView = target.get(MEMBERS)?;
        let meant = |member: &MemberView| members.iter().any(|meant| meant.address == member.address);
        members = all.members.into_iter().filter(meant).collect();
    }
}

/// What members still have to do.
pub(super) fn left(members: &[MemberView]) -> String {
    let calls: u64 = members.iter().map(|member| u64::from(member.calls)).sum();
    let transactions: u64 = members.iter().map(|member| u64::from(member.transactions)).sum();
    let oldest = members.iter().filter_map(|member| member.oldest_call_seconds).reduce(f64::max);
    let age = oldest.map(|oldest| format!("; oldest call {}", span(oldest)));
    let (calls, transactions) = (plural(calls, "call"), plural(transactions, "transaction"));
    format!("{calls}, {transactions}{}", age.unwrap_or_default())
}
