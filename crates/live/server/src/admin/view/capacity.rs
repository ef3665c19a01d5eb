//! What monitors have announced, as JSON.

use crate::capacity::{AnnouncedCapacity, CapacityReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// `GET /api/capacity`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Capacity"))]
pub struct CapacityView {
    /// Connections of monitors that there are.
    pub connections: u64,
    /// Connections that there have been.
    pub connections_total: u64,
    /// Updates that were accepted.
    pub accepted_total: u64,
    /// Connections that were closed by this side, by the reason: the update that was refused, or else `not_admitted`, `crowded`,
    /// `silent`.
    pub closed_total: BTreeMap<String, u64>,
    /// Of each member of which there was an update.
    pub members: Vec<MemberCapacityView>,
}

/// What a monitor has announced of a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "MemberCapacity"))]
pub struct MemberCapacityView {
    /// Where it is.
    pub member: SocketAddr,
    /// What was announced last, in calls a second.
    pub capacity: f64,
    /// What that counts for now: less once updates stay out.
    pub capacity_now: f64,
    /// Since that update.
    pub age_seconds: f64,
}

impl From<&CapacityReport> for CapacityView {
    fn from(CapacityReport { counts, announced, .. }: &CapacityReport) -> Self {
        let member = |announced: &AnnouncedCapacity| MemberCapacityView {
            member: announced.member,
            capacity: announced.capacity,
            capacity_now: announced.now,
            age_seconds: announced.age.as_secs_f64(),
        };
        Self {
            connections: counts.open,
            connections_total: counts.connections,
            accepted_total: counts.accepted,
            closed_total: counts.closed.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect(),
            members: announced.iter().map(member).collect(),
        }
    }
}
