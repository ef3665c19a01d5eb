//! Writes the log entries of the control plane.

use ::control::{Drainer, LISTED_MOST, LogEntry, MemberEvent, ProcessId};
use base::Peer;
use std::time::Duration;

pub(super) fn write(entry: &LogEntry) {
    match entry {
        LogEntry::NameResolved { name } => tracing::info!(member = %name, "name resolved"),
        LogEntry::NameFailed { name, error, is_known: true } => {
            tracing::warn!(member = %name, %error, "name not resolved; the addresses found before stay");
        }
        LogEntry::NameFailed { name, error, is_known: false } => {
            tracing::warn!(member = %name, %error, "name not resolved; it has no member until it is resolved");
        }
        LogEntry::NextHopNameFailed { name, error } => {
            tracing::info!(%name, error, "the name of a next hop was not resolved");
        }
        LogEntry::LeftOut { member } => {
            tracing::warn!(%member, "left out: no listener of its transport and address family");
        }
        LogEntry::Member { member, name, event } => tell(*member, name, event),
        LogEntry::NoneAlive { pool, silent: true } => tracing::error!(
            pool,
            "no member is alive: new calls go to the members that are only silent. If members do not answer OPTIONS, \
             let them, or \
             set `enabled = false` in [pool.<name>.probe]; `sarabande up MEMBER` brings one back"
        ),
        LogEntry::NoneAlive { pool, silent: false } => {
            tracing::error!(
                pool,
                "no member is alive: new calls are refused with 503, unless their route has another pool"
            );
        }
        LogEntry::NoneTook { pool, refused, members } => {
            let more = if members.len() > LISTED_MOST { ", ..." } else { "" };
            let members: Vec<_> =
                members.iter().take(LISTED_MOST).map(|(member, why)| format!("{member} {why}")).collect();
            let members = members.join(", ") + more;
            tracing::error!(pool, refused, members, "no member takes new calls: they get 503");
        }
        LogEntry::AtLimit { pool, limit, refused } => {
            tracing::warn!(
                pool,
                limit,
                refused,
                "every member that takes new calls is at its limit: new calls get 503 unless another pool takes them"
            );
        }
        LogEntry::NoRoom { refused, max_sessions } => {
            tracing::error!(refused, max_sessions, "the session table is full: new calls get 503");
        }
        LogEntry::ForeignAnswer { member, from } => {
            tracing::warn!(%member, %from, "an answer to a probe came from another host and is ignored");
        }
        LogEntry::Unreachable { member } => {
            tracing::debug!(%member, "a message was not delivered: the network reports an error, or there is no \
                connection");
        }
        LogEntry::DrainChanged { member, name, by: Drainer::Operator, draining } => {
            tracing::info!(%member, name = own(*member, name), draining, "drain changed");
        }
        // The scaler has logged the cause.
        LogEntry::DrainChanged { member, by: Drainer::Scaler, draining, .. } => {
            tracing::debug!(%member, draining, "drain changed by the scaler");
        }
        LogEntry::DrainedBefore { member } => {
            tracing::info!(%member, "drained, as in the predecessor process");
        }
        LogEntry::Stopping { wait } => {
            tracing::info!(?wait, "stopping: no new calls are taken, calls in progress may end");
        }
        LogEntry::Succeeded { wait } => {
            tracing::info!(?wait, "another process has taken over: calls of this process may end");
        }
        LogEntry::ProcessEnded(ProcessId(pid)) => tracing::info!(pid, "the predecessor process has ended"),
        LogEntry::Stopped { calls_left } => tracing::info!(calls_left, "stopped"),
    }
}

/// Returns the name of a member; `None` if it is the address.
fn own(member: Peer, name: &str) -> Option<&str> {
    Some(name).filter(|name| *name != member.to_string())
}

fn tell(member: Peer, name: &str, event: &MemberEvent) {
    let name = own(member, name);
    match event {
        MemberEvent::Joins => tracing::info!(%member, name, "member joins"),
        MemberEvent::JoinsAgain => tracing::info!(%member, name, "member joins again"),
        MemberEvent::Leaves => tracing::info!(%member, name, "member leaves: its calls continue"),
        MemberEvent::Forgotten => tracing::info!(%member, name, "former member removed"),
        MemberEvent::Pauses { length, to_probe: true } => {
            tracing::info!(%member, name, rest = ?rounded(*length), "member answered a probe with 503: no new calls during \
                its rest");
        }
        MemberEvent::Pauses { length, to_probe: false } => {
            tracing::info!(%member, name, rest = ?rounded(*length), "member answered 503: no new calls during its rest");
        }
        MemberEvent::Unreachable { length } => {
            tracing::warn!(%member, name, rest = ?rounded(*length), "member is unreachable: it is tried last");
        }
        MemberEvent::Recovered => {
            tracing::info!(%member, name, "member answers again: its rest is over");
        }
        MemberEvent::NoAnswer => tracing::debug!(%member, name, "a request got no answer"),
        MemberEvent::Lost(cause) => {
            tracing::warn!(%member, name, reason = %cause, "member is dead: new calls go elsewhere");
        }
        MemberEvent::Back(cause) => tracing::info!(%member, name, reason = %cause, "member is back"),
        MemberEvent::CallsLost => {
            tracing::info!(%member, name, "member is back without the calls it had: it answers 481");
        }
        MemberEvent::IgnoresProbes => tracing::warn!(
            %member,
            name,
            "member answers calls but not OPTIONS: from now on only unanswered calls and closed ports show that it is \
             dead. Let it answer OPTIONS, or set `enabled = false` in [pool.<name>.probe]"
        ),
        MemberEvent::Ejected { outlier, length } => tracing::warn!(
            %member,
            name,
            reason = %outlier,
            length = ?rounded(*length),
            "member is ejected: new calls go elsewhere for a while; `sarabande up MEMBER` ends the ejection"
        ),
    }
}

/// Rounds a duration to a tenth of a second for display.
fn rounded(length: Duration) -> Duration {
    Duration::from_millis((length.as_millis() as u64).saturating_add(50) / 100 * 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_for_display() {
        let shown = |length| format!("{:?}", rounded(length));
        assert_eq!(shown(Duration::from_nanos(31_999_156_736)), "32s");
        assert_eq!(shown(Duration::from_millis(2_449)), "2.4s");
        assert_eq!(shown(Duration::ZERO), "0ns");
    }
}
