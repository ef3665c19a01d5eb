//! Capacities that monitors have announced, and counts of their connections.

use super::metric::figures;
use super::text::Page;
use crate::capacity::{AnnouncedCapacity, CapacityReport};
use std::collections::BTreeMap;
use std::net::SocketAddr;

figures! {
    /// `GET /api/capacity`
    CapacityView as "Capacity" from (report: &CapacityReport) {
        /// Open connections of monitors.
        connections: u64 = report.counts.open
            => [gauge "sarabande_capacity_connections" "Open connections of monitors."],
        /// Connections of monitors since the start.
        connections_total: u64 = report.counts.connections
            => [counter "sarabande_capacity_connections_total" "Connections of monitors since the start."],
        /// Capacity updates that were accepted.
        accepted_total: u64 = report.counts.accepted
            => [counter "sarabande_capacity_updates_total" "Capacity updates that were accepted."],
        /// Connections that this side closed, by reason: why an update was refused, or `not_admitted`, `crowded`,
        /// `silent`.
        closed_total: BTreeMap<String, u64> =
            report.counts.closed.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect() => [
            counter "sarabande_capacity_closed_total" (reason)
            "Connections for capacity updates that this process closed, by reason."
        ],
        /// Members with at least one update.
        members: Vec<MemberCapacityView> = report.announced.iter().map(MemberCapacityView::new).collect(),
    }
}

figures! {
    /// Capacity of a member as its monitor announced it.
    MemberCapacityView as "MemberCapacity" from (announced: &AnnouncedCapacity) {
        /// Address of the member.
        member: SocketAddr = announced.member,
        /// Last announced capacity in calls a second.
        capacity: f64 = announced.capacity => [
            gauge "sarabande_capacity_announced"
            "Last announced capacity of a member in calls a second."
        ],
        /// Capacity that is used now, which is less once updates fail to arrive.
        capacity_now: f64 = announced.now
            => [gauge "sarabande_capacity_now" "Capacity of a member that is used now. It is less than announced \
                once updates fail to arrive."],
        /// Time since the last update.
        age_seconds: f64 = announced.age.as_secs_f64()
            => [gauge "sarabande_capacity_age_seconds" "Time since the last update."],
    }
}

impl CapacityView {
    pub(super) fn put(&self, page: &mut Page) {
        page.part(self);
        let addresses: Vec<_> = self.members.iter().map(|each| each.member.to_string()).collect();
        let members =
            addresses.iter().zip(&self.members).map(|(member, each)| ([("member", &**member)], each));
        page.parts(&members.collect::<Vec<_>>());
    }
}
