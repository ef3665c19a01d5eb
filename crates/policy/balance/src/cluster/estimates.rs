//! Weights and capacities that follow the service times of the members ([`crate::service_times`]).

use super::{Adaptive, Cluster};
use crate::service_times::{ServiceTimes, next_capacity, next_weights, of_pool, plausible};
use crate::{Node, PoolId, Slot, Weights};
use base::Instant;
use core::time::Duration;
use std::sync::Arc;
use wire::Method;

/// From one step of a pool's weights and capacities to the next.
const STEP_GAP: Duration = Duration::from_secs(10);

impl Cluster {
    /// A shard tells how long requests of a method take that find a node idle: the median of a batch.
    pub(super) fn note_service_time(
        &mut self,
        now: Instant,
        slot: Slot,
        (method, median): (Method, Duration),
    ) {
        self.watches[slot.index()].times.note(method, median);
        let id = self.nodes[slot.index()].pool;
        let Some(pool) = self.pools.get_mut(id.index()) else { return };
        if now < pool.followed + STEP_GAP {
            return;
        }
        pool.followed = now;
        let Adaptive { weights, capacity } = pool.settings.adaptive;
        let is_of_pool = |node: &Node| node.member && node.pool == id;
        let all = self.nodes.iter().zip(&self.watches).filter(|(node, _)| is_of_pool(node));
        let times: Vec<ServiceTimes> = all.map(|(_, watch)| watch.times).collect();
        if weights {
            let before = self.weights_of(id);
            let next = next_weights(before.as_deref().copied().unwrap_or_default(), &times);
            if before.as_deref() != Some(&next) {
                self.set_weights(id, &Arc::new(next));
            }
        }
        if capacity {
            let mean = of_pool(&times);
            for (node, watch) in self.nodes.iter_mut().zip(&self.watches).filter(|(node, _)| is_of_pool(node))
            {
                let next = next_capacity(node.capacity, &watch.times, &mean);
                self.version +=
                    u64::from(core::mem::replace(&mut node.capacity, next).to_bits() != next.to_bits());
            }
        }
    }

    /// The weights that were estimated of a pool; all of its members have the same.
    fn weights_of(&self, pool: PoolId) -> Option<Arc<Weights>> {
        self.members_of(pool).find_map(|node| node.weights.clone())
    }

    fn set_weights(&mut self, pool: PoolId, weights: &Arc<Weights>) {
        for node in self.nodes.iter_mut().filter(|node| node.member && node.pool == pool) {
            node.weights = Some(Arc::clone(weights));
        }
        self.version += 1;
    }

    /// Marks the nodes whose weights and capacities are estimated, after members or settings have changed. A member that
    /// joins a pool weighs as those that were in it `before`.
    pub(super) fn set_estimated(&mut self, before: &[Node]) {
        for slot in self.slots() {
            let adaptive = self.settings(slot).adaptive;
            let node = &mut self.nodes[slot.index()];
            node.adaptive = if node.member { adaptive } else { Adaptive::default() };
        }
        for pool in (0..self.pools.len() as u16).map(PoolId) {
            let stayed = |(node, before): (&Node, &Node)| {
                let stays = node.member && node.pool == pool && before.pool == pool && node.id == before.id;
                before.weights.clone().filter(|_| stays)
            };
            let known = self.nodes.iter().zip(before).find_map(stayed).or_else(|| self.weights_of(pool));
            let weights = known.unwrap_or_default();
            for node in self.nodes.iter_mut().filter(|node| node.pool == pool) {
                node.weights = node.adaptive.weights.then(|| Arc::clone(&weights));
            }
        }
    }

    /// Goes on from what another process has estimated of a member.
    pub fn adopt_estimates(&mut self, slot: Slot, weights: Option<Weights>, capacity: Option<f64>) {
        let Node { adaptive, pool, .. } = self.nodes[slot.index()];
        if let Some(mut weights) = weights.filter(|_| adaptive.weights) {
            for method in Method::ALL {
                weights.set(method, plausible(weights.get(method)));
            }
            self.set_weights(pool, &Arc::new(weights));
        }
        if let Some(capacity) = capacity.filter(|capacity| adaptive.capacity && capacity.is_finite()) {
            self.nodes[slot.index()].capacity = plausible(capacity);
            self.version += 1;
        }
    }
}
