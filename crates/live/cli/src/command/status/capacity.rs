//! What `status` shows of capacities that monitors announce.

use super::{plural, span};
use crate::admin::Target;
use anyhow::Result;
use server::figures::{CapacityView, MemberCapacityView};

/// What the server says of them, if it listens to monitors.
pub(super) fn ask(target: &Target) -> Result<Option<CapacityView>> {
    let reply = target.send("GET", "/api/capacity", b"")?;
    if reply.status == 404 { Ok(None) } else { reply.json(&[200]).map(Some) }
}

/// Some lines, each after a line end.
pub(super) fn text(capacity: &CapacityView) -> String {
    let CapacityView { connections, accepted_total, closed_total, members, .. } = capacity;
    let closed: u64 = closed_total.values().sum();
    let closed = match closed {
        0 => String::new(),
        all => {
            let each = closed_total.iter().filter(|(_, count)| **count > 0);
            let each = each.map(|(why, count)| format!("{why}: {count}")).collect::<Vec<_>>();
            format!("; {} closed ({})", plural(all, "connection"), each.join(", "))
        }
    };
    let head = format!(
        "\ncapacity: {}, {} accepted{closed}",
        plural(*connections, "monitor"),
        plural(*accepted_total, "update")
    );
    members.iter().fold(head, |text, each| text + "\n" + &member(each))
}

fn member(MemberCapacityView { member, capacity, capacity_now, age_seconds }: &MemberCapacityView) -> String {
    let late = if capacity_now < capacity {
        format!("; no update for {}, so it counts for {capacity_now:.1}", span(*age_seconds))
    } else {
        String::new()
    };
    format!("{member} can take {capacity:.1} calls/s{late}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_shown_with_what_is_wrong() {
        let member = |member: &str, capacity_now, age_seconds| MemberCapacityView {
            member: member.parse().unwrap(),
            capacity: 312.5,
            capacity_now,
            age_seconds,
        };
        let closed = [("malformed", 0), ("silent", 1), ("wrong_code", 7)];
        let view = CapacityView {
            connections: 1,
            connections_total: 9,
            accepted_total: 90,
            closed_total: closed.map(|(why, count)| (why.to_owned(), count)).into(),
            members: vec![member("10.0.0.1:5060", 312.5, 0.4), member("10.0.0.2:5060", 62.5, 130.0)],
        };
        assert_eq!(
            text(&view),
            "\ncapacity: 1 monitor, 90 updates accepted; 8 connections closed (silent: 1, wrong_code: 7)\n\
             10.0.0.1:5060 can take 312.5 calls/s\n\
             10.0.0.2:5060 can take 312.5 calls/s; no update for 2m 10s, so it counts for 62.5"
        );
        let nothing = CapacityView {
            connections: 0,
            accepted_total: 0,
            closed_total: [].into(),
            members: vec![],
            ..view
        };
        assert_eq!(text(&nothing), "\ncapacity: 0 monitors, 0 updates accepted");
    }
}
