//! Applies a new set-up to a shard. Only the parts that differ are changed.

use super::state::Shard;
use crate::queue::{QueueSetup, Queues};
use crate::registrar::{Registrar, RegistrarSecrets, RegistrarSettings};
use crate::shard::setup::{PoolSetup, Setup};
use crate::site::pools::Pools;
use crate::site::sharing::Sharing;
use crate::token::Tokens;
use balance::{Members, Pool, PoolId};
use route::{Network, Service};
use std::sync::Arc;

impl Shard {
    /// Changes to a new set-up.
    pub(crate) fn set_up(&mut self, setup: &Arc<Setup>) {
        let before = core::mem::replace(&mut self.setup, Arc::clone(setup));
        self.take_over(Some(&before), setup);
    }

    /// Applies the differences from `before`. A policy that does not change keeps its turns and averages. Open
    /// transactions and calls keep the settings that they started with.
    pub(crate) fn take_over(&mut self, before: Option<&Setup>, setup: &Setup) {
        let differs =
            |is_same: fn(&Setup, &Setup) -> bool| before.is_none_or(|before| !is_same(before, setup));
        self.take_settings(before, setup);
        let are_other_nodes =
            differs(|one, other| (&one.nodes, &one.topology) == (&other.nodes, &other.topology));
        if are_other_nodes {
            self.site.topology = Arc::clone(&setup.topology);
            self.stateful.set_members(self.site.topology.nodes());
            self.balancer.set_nodes(&setup.nodes);
        }
        let are_other_pools = differs(|one, other| one.pools == other.pools);
        if are_other_pools && !setup.pools.is_empty() {
            self.set_pools(before.map_or(&[], |before| &before.pools), setup);
        }
        if are_other_nodes || are_other_pools {
            self.set_services(setup);
            self.set_queues(setup.pools.iter().map(|pool| pool.queue.clone()).collect());
        }
        self.site.admission.set_charging(self.site.now, self.queues.is_some());
    }

    /// Applies the settings of the configuration.
    fn take_settings(&mut self, before: Option<&Setup>, setup: &Setup) {
        let (shards, settings) = (self.place.1, &setup.settings);
        let differs =
            |is_same: fn(&Setup, &Setup) -> bool| before.is_none_or(|before| !is_same(before, setup));
        self.site.settings = setup.pipeline();
        self.site.large.by = settings.large_requests;
        if differs(|one, other| one.settings.sessions == other.settings.sessions) {
            self.balancer.set_settings(settings.sessions.clone().share(shards));
        }
        if differs(|one, other| one.settings.tokens == other.settings.tokens) {
            self.set_tokens(&settings.tokens);
        }
        if differs(|one, other| one.settings.limits == other.settings.limits) {
            self.stateful.set_limits(settings.limits.share(shards));
        }
        if differs(|one, other| {
            (&one.settings.registrar, &one.settings.tokens)
                == (&other.settings.registrar, &other.settings.tokens)
        }) {
            self.set_registrar(settings.registrar.as_deref());
        }
        // Existing calls are kept even if no pool keeps new ones.
        if let Some(dialogs) = &settings.dialogs
            && differs(|one, other| one.settings.dialogs == other.settings.dialogs)
        {
            self.stateful.set_dialogs(dialogs, shards);
        }
        if differs(|one, other| one.settings.distribution == other.settings.distribution) {
            let (salt, report) = (self.salt, self.sharing_report().unwrap_or_default());
            let sharing = |distribution| Box::new(Sharing::new(distribution, shards, salt, report));
            self.site.sharing = settings.distribution.as_ref().map(sharing);
        }
        if differs(|one, other| one.settings.routes == other.settings.routes) {
            self.stateful.set_routes(&settings.routes, shards);
            self.site.routes = Arc::clone(&settings.routes);
        }
        if differs(|one, other| {
            (&one.settings.rates, &one.topology) == (&other.settings.rates, &other.topology)
        }) {
            let mut rates = settings.rates.clone().share(shards);
            rates.exempt.extend(setup.topology.hosts().map(Network::host));
            self.site.admission.configure(rates);
        }
        if differs(|one, other| one.settings.overload == other.settings.overload) {
            let epoch_unix = settings.epoch_unix;
            self.site.admission.overload.configure(self.site.now, &settings.overload, shards, epoch_unix);
        }
    }

    /// Sets the pools. `before` are the previous pools.
    fn set_pools(&mut self, before: &[PoolSetup], setup: &Setup) {
        let (shard, shards) = self.place;
        let mut pools = self.balancer.take_pools().into_iter();
        let next = |(index, pool): (usize, &PoolSetup)| {
            let former =
                pools.next().filter(|_| before.get(index).is_some_and(|before| before.policy == pool.policy));
            let make = || pool.policy.make(pool.first_turn(shard, shards));
            let policy = former.map_or_else(make, |former| former.policy);
            Pool::new(policy, pool.nodes.clone(), pool.member_law)
        };
        let pools: Vec<_> = setup.pools.iter().enumerate().map(next).collect();
        self.balancer.set_pools(pools);
    }

    /// Sets how the pools are served. Must follow changes of pools and nodes.
    fn set_services(&mut self, setup: &Setup) {
        let services: Vec<_> = setup.pools.iter().map(|pool| pool.service).collect();
        let has_pool = services.iter().any(|service| *service != Service::Balance);
        let of_hops = || (0..).map(PoolId).zip(&services).filter(|(_, service)| service.has_hops());
        let named = of_hops().flat_map(|(pool, _)| self.balancer.members(pool));
        // Nodes that left a pool may still have calls.
        let counted = of_hops().filter(|(_, service)| service.counts_calls());
        let counted = counted.flat_map(|(pool, _)| self.balancer.nodes_of(pool));
        self.stateful.set_pools(has_pool, Members::of(named), Members::of(counted));
        let first = setup.pools.iter().position(|pool| *pool != PoolSetup::GONE);
        let first = PoolId(first.unwrap_or_default() as u16);
        self.pools = Pools::new(services, first, Members::of(setup.strangers()), &self.balancer);
        self.pools.set_invite_timeouts(setup.pools.iter().map(|pool| pool.invite_timeout).collect());
    }

    /// Applies the settings of the registrar; `None`: without registrar.
    fn set_registrar(&mut self, settings: Option<&RegistrarSettings>) {
        let tokens = &self.site.tokens;
        let (nonce_keys, ban_hash) = (tokens.nonce_keys(), tokens.call_hash().words());
        let secrets = RegistrarSecrets { nonce_keys, random: self.registrar_secret, ban_hash };
        let kept = self.registrar.take().map(|registrar| *registrar);
        let (now, shards) = (self.site.now, self.place.1);
        self.registrar =
            settings.map(|settings| Box::new(Registrar::set_up(kept, settings, secrets, now, shards)));
        self.site.realm = self.registrar.as_ref().and_then(|registrar| registrar.realm()).map(Into::into);
        self.site.trusted = settings.map(|settings| settings.trusted.clone()).unwrap_or_default();
        self.stateful.serve_users(self.registrar.is_some());
    }

    /// Creates or removes queues, by number of the pool.
    fn set_queues(&mut self, wanted: Vec<Option<Arc<QueueSetup>>>) {
        if wanted.iter().all(Option::is_none) && self.queues.is_none() {
            return;
        }
        let queues = self.queues.get_or_insert_with(|| Box::new(Queues::new()));
        let is_needed = queues.configure(wanted, self.place.1);
        self.balancer.keep_first_answers(queues.has_any());
        if !is_needed {
            self.queues = None;
        }
    }

    /// Changes the secrets of new tokens. Calls in the table keep the branches that they began with. A CANCEL or a
    /// retransmission must have the branch that its node knows (RFC 3261 §16.11).
    fn set_tokens(&mut self, tokens: &Tokens) {
        if !self.site.tokens.same_key(tokens) {
            self.site.rekeyed = Some(self.site.now);
        }
        self.site.tokens = self.site.tokens.rekeyed(tokens);
    }
}
