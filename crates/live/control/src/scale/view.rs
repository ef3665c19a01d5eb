//! State of a pool for its scaler.

use crate::control::ListedMember;
use crate::membership::Drains;
use crate::probe::ProbeResult;
use balance::{Load, PoolId};
use base::Instant;
use node::QueueReport;
use std::net::SocketAddr;

/// State of a pool at one moment.
#[derive(Clone, Debug, Default)]
pub struct PoolView {
    /// Time of the view.
    pub now: Instant,
    /// New requests so far: sent to members, refused because no member took them, or refused or expired in the queue.
    pub arrivals: u64,
    /// Members of the pool, without former members.
    pub members: Vec<MemberLoad>,
}

/// A member and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberLoad {
    /// Name of the member in the configuration.
    pub name: String,
    /// Address of the member.
    pub address: SocketAddr,
    /// Whether the member counts as alive.
    pub is_up: bool,
    /// When the member joined, or was last found dead or alive.
    pub since: Instant,
    /// Whether the member has answered its last probe.
    pub has_answered: bool,
    /// Sources of its drain.
    pub drains: Drains,
    /// Calls and transactions of the member.
    pub work: u64,
    /// Capacity relative to the other members, from the configuration.
    pub weight: f64,
    /// New calls a second that the member can take, as the pool's queue knows from announcements or from its calls.
    pub capacity: Option<f64>,
}

/// Load of a member over all shards.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemberWork {
    /// Open leases of the member.
    pub load: Load,
    /// New requests sent to the member so far, except those that another member of the pool got too.
    pub assigned: u64,
}

impl PoolView {
    /// Returns the members that take calls.
    pub(super) fn taking(&self) -> impl Iterator<Item = &MemberLoad> {
        self.members.iter().filter(|member| member.is_up && !member.drains.is_any())
    }

    /// Returns the state of a pool, whose members are among `members`. `work` returns the work of a member over all
    /// shards. `queue` is the pool's queue, if it has one.
    pub fn of(
        now: Instant,
        pool: PoolId,
        members: &[ListedMember],
        work: impl Fn(&ListedMember) -> MemberWork,
        queue: Option<&QueueReport>,
        without_takers: u64,
    ) -> Self {
        let all: Vec<_> = members.iter().filter(|member| member.pools.contains(&pool)).collect();
        let given: u64 = all.iter().map(|member| work(member).assigned).sum();
        let member = |member: &&ListedMember| {
            let load = work(member).load;
            let known = queue.and_then(|queue| {
                queue.members.iter().find(|known| known.slot == member.slot && known.is_known)
            });
            MemberLoad {
                name: member.name.clone(),
                address: member.peer.address,
                is_up: member.node.is_up(),
                since: member.last_change,
                has_answered: matches!(member.last_probe, Some(ProbeResult::Status(_))),
                drains: member.drains,
                work: u64::from(load.calls) + u64::from(load.transactions),
                weight: member.node.capacity,
                capacity: known.map(|known| known.capacity),
            }
        };
        let in_queue = queue.map_or(0, |queue| queue.counts.refused + queue.counts.expired);
        Self {
            now,
            arrivals: given + in_queue + without_takers,
            members: all.iter().filter(|member| member.node.member).map(member).collect(),
        }
    }
}
