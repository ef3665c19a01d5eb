//! A pool as the figures show it.

use balance::PoolId;
use control::PoolSettings;
use node::CapacitySource;

/// A pool: its name, its policy and the order of its new calls.
#[derive(Clone, Debug)]
pub(crate) struct PoolName {
    /// Number of the pool in this process.
    pub(crate) id: PoolId,
    /// Name of the pool in the configuration.
    pub(crate) name: String,
    /// Name of the pool's policy.
    pub(crate) policy: &'static str,
    /// Rule that chooses the member of a new call, in words.
    pub(crate) orders: String,
    /// Source of the capacities that its queue uses; `None` without a queue.
    pub(crate) source: Option<CapacitySource>,
}

impl PoolName {
    pub(crate) fn new(id: PoolId, pool: &PoolSettings) -> Self {
        let source = pool.queue.as_ref().map(|queue| queue.source);
        let orders = config::orders(pool.policy, pool.queue.as_deref());
        Self { id, name: pool.name.clone(), policy: pool.policy.name(), orders, source }
    }
}
