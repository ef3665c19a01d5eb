//! A pool as the tree of figures names it.

use balance::PoolId;
use control::PoolSettings;
use node::CapacitySource;

/// A pool, and who gets its next call.
#[derive(Clone, Debug)]
pub(crate) struct PoolName {
    /// Its number in this process.
    pub(crate) id: PoolId,
    /// As the configuration names it.
    pub(crate) name: String,
    /// Name of its policy.
    pub(crate) policy: &'static str,
    /// What orders its new calls, in words.
    pub(crate) orders: String,
    /// Where the capacities of its queue come from, if it has one.
    pub(crate) source: Option<CapacitySource>,
}

impl PoolName {
    pub(crate) fn new(id: PoolId, pool: &PoolSettings) -> Self {
        let source = pool.queue.as_ref().map(|queue| queue.source);
        let orders = config::orders(pool.policy, pool.queue.as_deref());
        Self { id, name: pool.name.clone(), policy: pool.policy.name(), orders, source }
    }
}
