//! What a pool is like at one moment, as far as its scaler has to know.

use crate::control::ListedMember;
use crate::membership::Drains;
use crate::probe::ProbeResult;
use balance::{Load, PoolId};
use base::Instant;
use node::QueueReport;
use std::net::SocketAddr;

/// What a pool is like at one moment.
#[derive(Clone, Debug, Default)]
pub struct PoolView {
    /// The moment.
    pub now: Instant,
    /// New requests so far: those that members were given, and those that found nobody who takes them, or no room in
    /// the queue.
    pub arrivals: u64,
    /// Its members; not those that left.
    pub members: Vec<MemberLoad>,
}

/// A member, and what it has to do.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberLoad {
    /// As the configuration names it.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
    /// Whether it counts as alive.
    pub is_up: bool,
    /// When it was last found dead or back, or joined.
    pub since: Instant,
    /// Whether it has answered its last probe.
    pub has_answered: bool,
    /// Who has it get no new calls.
    pub drains: Drains,
    /// Calls and transactions in it.
    pub work: u64,
    /// Its capacity relative to the others, as the configuration has it.
    pub weight: f64,
    /// New calls a second that it can take, as the queue of the pool knows by its announcements or its calls.
    pub capacity: Option<f64>,
}

/// What all shards together know of a member.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemberWork {
    /// Its open leases.
    pub load: Load,
    /// New requests that it was given so far, but for those that another member of the pool has, too.
    pub assigned: u64,
}

impl PoolView {
    /// The members that take calls.
    pub(super) fn taking(&self) -> impl Iterator<Item = &MemberLoad> {
        self.members.iter().filter(|member| member.is_up && !member.drains.is_any())
    }

    /// The pool of this number, whose members are among these. All shards together have this work in each, and this
    /// queue, if there is one; so many new requests found nobody who takes them.
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
