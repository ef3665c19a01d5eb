//! What a pool is like at one moment, as far as its scaler has to know.

use crate::control::View;
use crate::report::{is_at, load, queue};
use crate::shards::ShardCounts;
use balance::{PoolId, Slot};
use base::Instant;
use control::{Drains, ListedMember, ProbeResult};
use node::QueueReport;
use std::net::SocketAddr;

/// What a pool is like at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolView {
    /// The moment.
    pub(crate) now: Instant,
    /// New requests so far: those that members were given, and those that found nobody who takes them, or no room in the queue.
    pub(crate) arrivals: u64,
    /// Its members; not those that left.
    pub(crate) members: Vec<MemberLoad>,
}

/// A member, and what it has to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MemberLoad {
    /// As the configuration names it.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) address: SocketAddr,
    /// Whether it counts as alive.
    pub(crate) is_up: bool,
    /// When it was last found dead or back, or joined.
    pub(crate) since: Instant,
    /// Whether it has answered its last probe.
    pub(crate) has_answered: bool,
    /// Who has it get no new calls.
    pub(crate) drains: Drains,
    /// Calls and transactions in it.
    pub(crate) work: u64,
    /// Its capacity relative to the others, as the configuration has it.
    pub(crate) weight: f64,
    /// New calls a second that it can take, as the queue of the pool knows by its announcements or its calls.
    pub(crate) capacity: Option<f64>,
}

impl PoolView {
    /// The pool of this name, from what the control task and the shards say.
    pub(crate) fn of(view: &View, counts: &[ShardCounts], pool: &str) -> Option<Self> {
        let index = view.pools.iter().position(|known| known.name == pool)?;
        let is_in = |member: &&ListedMember| member.pools.iter().any(|pool| pool.index() == index);
        let all: Vec<_> = view.members.iter().filter(is_in).collect();
        let queue = queue(counts, index);
        let given: u64 = all.iter().map(|member| assigned(member, counts)).sum();
        let member = |member: &&ListedMember| {
            let load = load(member, counts);
            MemberLoad {
                name: member.name.clone(),
                address: member.address,
                is_up: member.node.is_up(),
                since: member.last_change,
                has_answered: matches!(member.last_probe, Some(ProbeResult::Status(_))),
                drains: member.drains,
                work: u64::from(load.calls) + u64::from(load.transactions),
                weight: member.node.capacity,
                capacity: queue.as_ref().and_then(|queue| capacity(queue, member.slot)),
            }
        };
        let in_queue = queue.as_ref().map_or(0, |queue| queue.counts.refused + queue.counts.expired);
        let pool = PoolId(u16::try_from(index).ok()?);
        let without_takers: u64 = counts.iter().filter_map(|counts| counts.without_takers.get(&pool)).sum();
        Some(Self {
            now: view.now,
            arrivals: given + in_queue + without_takers,
            members: all.iter().filter(|member| member.node.member).map(member).collect(),
        })
    }
}

fn capacity(queue: &QueueReport, slot: Slot) -> Option<f64> {
    let known = queue.members.iter().find(|member| member.slot == slot && member.is_known);
    known.map(|member| member.capacity)
}

/// New requests that it was given.
fn assigned(member: &ListedMember, counts: &[ShardCounts]) -> u64 {
    let (slot, id) = (member.slot.index(), member.node.id);
    counts.iter().filter(|counts| is_at(counts, slot, id)).map(|counts| counts.assigned[slot]).sum()
}
