//! The part of `status` about capacities that monitors announce.

use crate::command::text::{plural, span};
use server::figures::{CapacityView, MemberCapacityView, PoolHealth};

/// Returns some lines, each after a line end.
pub(super) fn text(capacity: &CapacityView, pools: &[PoolHealth]) -> String {
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
    members.iter().fold(head, |text, each| text + "\n" + &member(each) + &used(each, pools))
}

fn member(MemberCapacityView { member, capacity, capacity_now, age_seconds }: &MemberCapacityView) -> String {
    let late = if capacity_now < capacity {
        format!("; no update for {}, so {capacity_now:.1} is used", span(*age_seconds))
    } else {
        String::new()
    };
    format!("{member} can take {capacity:.1} calls/s{late}")
}

/// Text about queues that use another capacity of a member than the announced one. The queue of a member that takes no
/// calls has none, and the capacity of a silent monitor changes between two requests.
fn used(announced: &MemberCapacityView, pools: &[PoolHealth]) -> String {
    let address = announced.member.to_string();
    let used = pools.iter().filter_map(|pool| {
        let member = pool.queue.as_ref()?.members.iter().find(|member| member.address == address)?;
        let differs =
            (member.calls_per_second - announced.capacity_now).abs() > 0.02 * announced.capacity_now;
        let differs = differs && member.calls_per_second > 0.0;
        let (name, most, by) = (&pool.name, member.calls_per_second, &member.by);
        differs.then(|| format!("; the queue of {name} uses {most:.1} ({by})"))
    });
    used.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::status::tests::several_pools;
    use serde_json::json;

    #[test]
    fn capacities_are_shown_with_missing_updates() {
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
            text(&view, &[]),
            "\ncapacity: 1 monitor, 90 updates accepted; 8 connections closed (silent: 1, wrong_code: 7)\n\
             10.0.0.1:5060 can take 312.5 calls/s\n\
             10.0.0.2:5060 can take 312.5 calls/s; no update for 2m 10s, so 62.5 is used"
        );
        let member = |address: &str, calls_per_second: f64| {
            json!({
                "address": address, "calls_per_second": calls_per_second, "silent": false, "by": "responses", "unanswered": 0,
                "unanswered_most": 2.0
            })
        };
        let queue = json!({
            "waiting": 0, "offered": 0, "delivered": 0, "refused": 0, "expired": 0, "cancelled": 0, "copies": 0,
            "mean_wait_ms": null, "members": [member("10.0.0.1:5060", 0.0), member("10.0.0.2:5060", 150.0)],
        });
        let mut pools = several_pools();
        pools[0].queue = Some(serde_json::from_value(queue).expect("a queue"));
        let text = text(&view, &pools);
        assert!(text.ends_with("so 62.5 is used; the queue of core uses 150.0 (responses)"), "{text}");
        assert_eq!(text.matches("the queue of").count(), 1, "{text}");
        let nothing = CapacityView {
            connections: 0,
            accepted_total: 0,
            closed_total: [].into(),
            members: vec![],
            ..view
        };
        assert_eq!(super::text(&nothing, &[]), "\ncapacity: 0 monitors, 0 updates accepted");
    }
}
