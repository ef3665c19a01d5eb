//! State of a pool for its scaler.

use crate::figures::View;
use control::ListedMember;
use control::scale::{MemberWork, PoolView};
use shards::{AllShards, ShardCounts};

/// Returns the state of the pool with this name, from the control task and the shards; `None` if there is no such pool.
pub(crate) fn pool_view(view: &View, counts: &[ShardCounts], pool: &str) -> Option<PoolView> {
    let pool = view.pools.iter().find(|known| known.name == pool)?.id;
    let shards = AllShards(counts);
    let work = |member: &ListedMember| {
        let totals = shards.totals(member);
        MemberWork { load: shards.load(member), assigned: totals.assigned - totals.moved }
    };
    let without_takers = counts.iter().filter_map(|counts| counts.without_takers.get(&pool)).sum();
    Some(PoolView::of(view.now, pool, &view.members, work, shards.queue(pool).as_ref(), without_takers))
}
