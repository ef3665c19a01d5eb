//! The pools of a shard by number: how each is served, and which dialogs belong to it.

use crate::address::topology::AddressTable;
use balance::{Balancer, Members, PoolId, Slot};
use base::Flow;
use core::time::Duration;
use route::Service;

/// Services of the pools, and the pools that dialogs belong to.
#[derive(Default)]
pub(crate) struct Pools {
    /// Services by the number of the pool. A pool with a higher number is balanced without transactions.
    services: Vec<Service>,
    /// The pool for requests without a rule and outside dialogs. It is the only pool if there are no rules.
    first: PoolId,
    /// Next hops: nodes that are in no pool of members. Their requests are handled like the requests of any caller.
    hops: Members,
    /// The pool that the dialogs with a node belong to, by slot.
    of_dialogs: Vec<PoolId>,
    /// Time for which a member may leave an INVITE without a response, by number of the pool.
    invite_timeouts: Vec<Duration>,
}

impl Pools {
    /// Creates the pools with these services. `first` is the pool of requests without a rule; `hops` are the next hops.
    pub(crate) fn new(services: Vec<Service>, first: PoolId, hops: Members, balancer: &Balancer) -> Self {
        let mut pools = Self { services, first, hops, ..Self::default() };
        let slots = (0..balancer.nodes().len()).map(|slot| Slot(slot as u16));
        pools.of_dialogs = slots.map(|slot| pools.of_dialogs_with(slot, balancer)).collect();
        pools
    }

    /// Sets how long a member may leave an INVITE without a response, by number of the pool. Zero: no limit.
    pub(crate) fn set_invite_timeouts(&mut self, invite_timeouts: Vec<Duration>) {
        self.invite_timeouts = invite_timeouts;
    }

    /// Returns how long a member of a pool may leave an INVITE without a response. Zero: no limit.
    pub(crate) fn invite_timeout(&self, pool: PoolId) -> Duration {
        self.invite_timeouts.get(pool.index()).copied().unwrap_or_default()
    }

    /// Returns the pool of dialogs with a node. If several pools have the node, a pool of members is preferred, then a
    /// pool that remembers calls.
    fn of_dialogs_with(&self, slot: Slot, balancer: &Balancer) -> PoolId {
        let with_it = |(pool, _): &(PoolId, &Service)| balancer.nodes_of(*pool).any(|of| of == slot);
        let fits = |(_, service): &(PoolId, &Service)| (service.has_hops(), !service.counts_calls());
        let best = (0..).map(PoolId).zip(&self.services).filter(with_it).min_by_key(fits);
        best.map_or(self.first, |(pool, _)| pool)
    }

    /// Returns whether a pool both counts calls and has transactions.
    pub(crate) fn has_counted_transactions(&self) -> bool {
        self.services.iter().any(|service| service.has_transactions() && service.counts_calls())
    }

    pub(crate) fn service(&self, pool: PoolId) -> Service {
        self.services.get(pool.index()).copied().unwrap_or_default()
    }

    /// Returns the pool for requests without a rule and outside dialogs.
    pub(crate) fn first(&self) -> PoolId {
        self.first
    }

    /// Returns the pool that the dialogs with a node belong to.
    pub(crate) fn of(&self, slot: Slot) -> PoolId {
        self.of_dialogs.get(slot.index()).copied().unwrap_or(self.first)
    }

    /// Returns the member that a message came from; `None` for a next hop.
    pub(crate) fn member_of(&self, topology: &AddressTable, flow: Flow) -> Option<Slot> {
        let slot = topology.slot_of(flow)?;
        (!self.has_hops() || !self.hops.has(slot)).then_some(slot)
    }

    fn has_hops(&self) -> bool {
        self.services.iter().any(|service| service.has_hops())
    }
}
