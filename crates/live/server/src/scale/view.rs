//! Takes what a pool is like from what the process knows.

use crate::control::View;
use crate::report::{is_at, load, queue};
use crate::shards::ShardCounts;
use control::ListedMember;
use control::scale::{MemberWork, PoolView};

/// The pool of this name, from what the control task and the shards say.
pub(crate) fn pool_view(view: &View, counts: &[ShardCounts], pool: &str) -> Option<PoolView> {
    let pool = view.pools.iter().find(|known| known.name == pool)?.id;
    let work =
        |member: &ListedMember| MemberWork { load: load(member, counts), assigned: assigned(member, counts) };
    let queue = queue(counts, pool);
    let without_takers = counts.iter().filter_map(|counts| counts.without_takers.get(&pool)).sum();
    Some(PoolView::of(view.now, pool, &view.members, work, queue.as_ref(), without_takers))
}

/// New requests that it was given.
fn assigned(member: &ListedMember, counts: &[ShardCounts]) -> u64 {
    let (slot, id) = (member.slot.index(), member.node.id);
    counts.iter().filter(|counts| is_at(counts, slot, id)).map(|counts| counts.assigned[slot]).sum()
}
