//! The pools of a shard by their number: how each is served, and which dialogs belong to which.

use crate::address::topology::Topology;
use balance::{Balancer, Members, PoolId, Slot};
use base::Flow;
use core::time::Duration;
use route::Service;

/// How the pools are served, and whose dialogs are whose.
#[derive(Default)]
pub(crate) struct Pools {
    /// By the number of the pool; beyond the end balanced without transactions.
    services: Vec<Service>,
    /// The pool of what no rule and no dialog is for; the only one where there are no rules.
    first: PoolId,
    /// Next hops: nodes of no pool to whose members dialogs belong. A request from a next hop is handled like one
    /// from any caller.
    hops: Members,
    /// The pool that the dialogs with a node belong to, by its slot.
    of_dialogs: Vec<PoolId>,
    /// By the number of the pool, how long a member may leave an INVITE without a response.
    invite_timeouts: Vec<Duration>,
}

impl Pools {
    /// The pools with these services; `first` is that of what no rule is for, `hops` are the next hops.
    pub(crate) fn new(services: Vec<Service>, first: PoolId, hops: Members, balancer: &Balancer) -> Self {
        let mut pools = Self { services, first, hops, ..Self::default() };
        let slots = (0..balancer.nodes().len()).map(|slot| Slot(slot as u16));
        pools.of_dialogs = slots.map(|slot| pools.of_dialogs_with(slot, balancer)).collect();
        pools
    }

    /// Takes over how long the members of each pool may leave an INVITE without a response; zero: for any time.
    pub(crate) fn set_invite_timeouts(&mut self, invite_timeouts: Vec<Duration>) {
        self.invite_timeouts = invite_timeouts;
    }

    /// How long a member of a pool may leave an INVITE without a response; zero: for any time.
    pub(crate) fn invite_timeout(&self, pool: PoolId) -> Duration {
        self.invite_timeouts.get(pool.index()).copied().unwrap_or_default()
    }

    /// Of several pools with a node one whose calls are remembered.
    fn of_dialogs_with(&self, slot: Slot, balancer: &Balancer) -> PoolId {
        let with_it = |(pool, _): &(PoolId, &Service)| balancer.nodes_of(*pool).any(|of| of == slot);
        let fits = |(_, service): &(PoolId, &Service)| (service.has_hops(), !service.counts_calls());
        let best = (0..).map(PoolId).zip(&self.services).filter(with_it).min_by_key(fits);
        best.map_or(self.first, |(pool, _)| pool)
    }

    /// Whether calls of a pool are counted and have transactions as well.
    pub(crate) fn has_counted_transactions(&self) -> bool {
        self.services.iter().any(|service| service.has_transactions() && service.counts_calls())
    }

    /// How a pool is served.
    pub(crate) fn service(&self, pool: PoolId) -> Service {
        self.services.get(pool.index()).copied().unwrap_or_default()
    }

    /// The pool of what no rule and no dialog is for.
    pub(crate) fn first(&self) -> PoolId {
        self.first
    }

    /// The pool that the dialogs with a node belong to.
    pub(crate) fn of(&self, slot: Slot) -> PoolId {
        self.of_dialogs.get(slot.index()).copied().unwrap_or(self.first)
    }

    /// The member that a message came from, unless that is a next hop only.
    pub(crate) fn member_of(&self, topology: &Topology, flow: Flow) -> Option<Slot> {
        let slot = topology.slot_of(flow)?;
        (!self.has_hops() || !self.hops.has(slot)).then_some(slot)
    }

    fn has_hops(&self) -> bool {
        self.services.iter().any(|service| service.has_hops())
    }
}
