//! `sarabande drain` and `undrain`: takes a member out of service, and back.

use super::status::{MEMBERS, label};
use super::text::{plural, span};
use crate::admin::{Target, escape};
use crate::print::Progress;
use anyhow::{Result, bail};
use server::figures::{MemberView, MembersView};
use std::time::Duration;

/// Interval at which a drain looks for the end.
const POLL: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Address of the member, or its name in the configuration.
    member: String,
    /// Let the member get new calls again.
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until its last call has ended, and show the remaining calls.
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
        print_line!("{}: {}, {}", label(member), member.state, left(std::slice::from_ref(member)))?;
    }
    if arguments.undo { is_back(&meant.members) } else { Ok(()) }
}

/// Fails if the scaler drains one of these members, too.
fn is_back(members: &[MemberView]) -> Result<()> {
    let names =
        members.iter().filter(|member| member.drained_by_scaler).map(|member| member.address.to_string());
    let names: Vec<_> = names.collect();
    if !names.is_empty() {
        bail!(
            "the scaler of the pool drains {}, and ends the drain only if the server runs and is needed; see \
             /api/scale, or raise `least` of [pool.<name>.scale] to keep the server in use",
            names.join(", ")
        );
    }
    Ok(())
}

/// Shows the remaining calls until there are none.
fn wait(target: &Target, mut members: Vec<MemberView>) -> Result<()> {
    let mut progress = Progress::new();
    loop {
        let names: Vec<_> = members.iter().map(|member| member.address.to_string()).collect();
        progress.show(format!("{}: {}", names.join(", "), left(&members)))?;
        if let Some(member) = members.iter().find(|member| !member.draining) {
            progress.end()?;
            bail!("{} is no longer draining: the drain was undone", member.address);
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

/// Remaining work of members, as text.
pub(super) fn left(members: &[MemberView]) -> String {
    let calls: u64 = members.iter().map(|member| u64::from(member.calls)).sum();
    let transactions: u64 = members.iter().map(|member| u64::from(member.transactions)).sum();
    let oldest = members.iter().filter_map(|member| member.oldest_call_seconds).reduce(f64::max);
    let age = oldest.map(|oldest| format!("; oldest call {}", span(oldest)));
    let (calls, transactions) = (plural(calls, "call"), plural(transactions, "transaction"));
    format!("{calls}, {transactions}{}", age.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::status::tests::member;
    use serde_json::json;

    #[test]
    fn an_undrain_fails_if_the_scaler_drains_the_member() {
        let drained = json!({ "draining": true, "drained_by_scaler": true });
        let members =
            [member("10.0.0.1:5060", "up", &json!({})), member("10.0.0.2:5060", "draining", &drained)];
        assert!(is_back(&members[..1]).is_ok());
        let error = is_back(&members).expect_err("the undrain has no effect").to_string();
        assert!(error.starts_with("the scaler of the pool drains 10.0.0.2:5060, and ends"), "{error}");
    }
}
