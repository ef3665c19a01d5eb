//! What a shard works with, as one value.

use crate::{
    DialogSettings, Distribution, HomeSettings, PipelineSettings, ProxyLimits, QueueSetup, Routes, Shard,
    Tokens, Topology, node_id,
};
use ::route::{Dialogs, Fork, Forward, RateSettings};
use balance::{Members, Node, PolicyKind, Pool, PoolId, Slot};
use base::Flow;
use core::time::Duration;
use std::sync::Arc;

/// Everything that is decided for the shards of a process beside the traffic, as of one moment. Every change of it is another
/// such value, and the shards take each as a whole.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// The nodes by slot, those that left included.
    pub nodes: Arc<[Node]>,
    /// Our addresses, and the nodes' by slot.
    pub topology: Arc<Topology>,
    /// How the pipeline behaves.
    pub settings: PipelineSettings,
    /// The marks in messages.
    pub tokens: Arc<Tokens>,
    /// The pools by their number, [those that are gone](PoolSetup::GONE) included.
    pub pools: Arc<[PoolSetup]>,
    /// Weights, times and limit of the pools' sessions, over all shards.
    pub sessions: balance::SessionSettings,
    /// By which rules requests go to which pool, and who may send any.
    pub routes: Arc<Routes>,
    /// How much each source may begin, over all shards.
    pub rates: RateSettings,
    /// The registrar and the users of the home domain, if there is one.
    pub home: Option<Arc<HomeSettings>>,
    /// What all that is forwarded with transactions may hold, over all shards.
    pub limits: ProxyLimits,
    /// With whom the state of calls is shared out, if with anybody.
    pub distribution: Option<Distribution>,
    /// How calls are kept whose dialogs are, if those of any are.
    pub dialogs: Option<Arc<DialogSettings>>,
}

/// How requests to a pool are forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolMode {
    /// With or without transactions.
    pub forward: Forward,
    /// Where requests within dialogs go.
    pub dialogs: Dialogs,
    /// Nothing is remembered of calls, and members have no load: for next hops whose policy finds the same one again. Next
    /// hops that requests go to without transactions have to be such.
    pub is_sessionless: bool,
    /// To how many members at once; more than one only with transactions, and where nothing is remembered of calls.
    pub fork: Fork,
    /// Of a pool that forks: how long a group of members rings before the next one does.
    pub ring_time: Duration,
    /// Whether this process stays on the way of the dialogs that begin (RFC 3261 §16.6 step 4). What goes to members always
    /// comes back here.
    pub record_route: bool,
}

impl Default for PoolMode {
    fn default() -> Self {
        let (forward, dialogs) = (Forward::default(), Dialogs::default());
        let (fork, ring_time) = (Fork::default(), Duration::ZERO);
        Self { forward, dialogs, is_sessionless: false, fork, ring_time, record_route: true }
    }
}

impl PoolMode {
    /// Next hops, each found again by its policy, with a transaction of ours.
    pub const HOPS: Self = Self {
        forward: Forward::Transaction,
        dialogs: Dialogs::Route,
        is_sessionless: true,
        fork: Fork::None,
        ring_time: Duration::ZERO,
        record_route: true,
    };

    /// Whether requests go on as the routes of dialogs and transactions say, not as those of members.
    pub(crate) fn is_by_route(self) -> bool {
        self.dialogs == Dialogs::Route
    }
}

/// How calls are spread over the members of a pool.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolSetup {
    /// How they get them.
    pub mode: PoolMode,
    /// Who gets the next call.
    pub policy: PolicyKind,
    /// How many members the configuration names: shards that take turns begin at different ones.
    pub members: usize,
    /// Which of the nodes these are.
    pub nodes: Members,
    /// The queue in front of them, if new calls wait for room.
    pub queue: Option<Arc<QueueSetup>>,
}

impl PoolSetup {
    /// A pool that was removed. Its number is nobody else's.
    pub const GONE: Self = Self {
        mode: PoolMode {
            forward: Forward::Stateless,
            dialogs: Dialogs::Member,
            is_sessionless: false,
            fork: Fork::None,
            ring_time: Duration::ZERO,
            record_route: true,
        },
        policy: PolicyKind::RoundRobin,
        members: 0,
        nodes: Members::Some { slots: Vec::new(), has: Vec::new() },
        queue: None,
    };

    /// The slot where a shard's turns begin: each of `shards` at another member.
    pub fn first_turn(&self, shard: usize, shards: usize) -> usize {
        let place = |count: usize| shard * count / shards.max(1);
        match &self.nodes {
            Members::All => place(self.members),
            Members::Some { slots, .. } => slots.get(place(slots.len())).map_or(0, |slot| slot.index()),
        }
    }
}

impl Setup {
    /// The next hops: the nodes of pools whose dialogs follow their Route, that are in no pool of another kind.
    pub fn hops(&self) -> impl Iterator<Item = Slot> + '_ {
        self.strangers().filter(|&slot| self.pools.iter().any(|pool| pool.nodes.has(slot)))
    }

    /// The nodes that are in no pool to whose members dialogs belong: what they send is as anybody's.
    fn strangers(&self) -> impl Iterator<Item = Slot> + '_ {
        let is_own =
            |slot| self.pools.iter().any(|pool| pool.mode.dialogs == Dialogs::Member && pool.nodes.has(slot));
        (0..self.nodes.len()).map(|index| Slot(index as u16)).filter(move |&slot| !is_own(slot))
    }
}

impl Shard {
    /// Makes these the members of the first pool, for a shard without a control plane: they are always up.
    pub fn set_hops(&mut self, hops: &[Flow]) {
        let mut topology = self.edge.topology.as_ref().clone();
        let mut nodes = self.balancer.nodes().to_vec();
        let is_there = |hop: &&Flow| !self.edge.topology.nodes().contains(hop);
        for &hop in hops.iter().filter(is_there) {
            topology.push_node(hop);
            nodes.push(Node::new(node_id(hop.transport, hop.peer)));
        }
        for (slot, node) in (0..).map(Slot).zip(&mut nodes) {
            node.member = hops.contains(&topology.node(slot));
            if node.member { topology.find_again(slot) } else { topology.forget(slot) }
        }
        self.set_topology(Arc::new(topology));
        self.balancer.set_nodes(&nodes);
        self.set_modes(self.modes().to_vec(), Members::All);
    }

    /// Takes over a set-up: what is another than in the one before. `shard` of `shards`: what they hold is shared out among
    /// them. A policy that stays keeps its turns and averages, and what is open keeps the settings that it was opened with.
    pub fn set_up(&mut self, setup: &Arc<Setup>, (shard, shards): (usize, usize)) {
        let before = self.setup.replace(Arc::clone(setup));
        let differs = |is_same: fn(&Setup, &Setup) -> bool| {
            before.as_ref().is_none_or(|before| !is_same(before, setup))
        };
        if differs(|one, other| one.sessions == other.sessions) {
            self.balancer.set_settings(setup.sessions.clone().share(shards));
        }
        if differs(|one, other| one.tokens == other.tokens) {
            self.set_tokens(&setup.tokens);
        }
        if differs(|one, other| one.settings == other.settings) {
            self.set_settings(setup.settings);
        }
        if differs(|one, other| one.limits == other.limits) {
            self.set_limits(setup.limits.share(shards));
        }
        if differs(|one, other| (&one.home, &one.tokens) == (&other.home, &other.tokens)) {
            self.set_home(setup.home.as_deref(), shards);
        }
        if let Some(dialogs) = &setup.dialogs
            && differs(|one, other| one.dialogs == other.dialogs)
        {
            self.set_dialogs(dialogs, shards);
        }
        if differs(|one, other| one.distribution == other.distribution) {
            self.set_distribution(setup.distribution.as_ref(), shards);
        }
        let are_other_nodes =
            differs(|one, other| (&one.nodes, &one.topology) == (&other.nodes, &other.topology));
        if are_other_nodes {
            self.set_topology(Arc::clone(&setup.topology));
            self.balancer.set_nodes(&setup.nodes);
        }
        let are_other_pools = differs(|one, other| one.pools == other.pools) && !setup.pools.is_empty();
        if are_other_pools {
            let kept = before.as_ref().map_or(&[][..], |before| &before.pools);
            let mut pools = self.balancer.take_pools().into_iter();
            let next = |(index, pool): (usize, &PoolSetup)| {
                let former =
                    pools.next().filter(|_| kept.get(index).is_some_and(|kept| kept.policy == pool.policy));
                let make = || pool.policy.make(pool.first_turn(shard, shards));
                Pool { policy: former.map_or_else(make, |former| former.policy), members: pool.nodes.clone() }
            };
            let pools: Vec<_> = setup.pools.iter().enumerate().map(next).collect();
            self.balancer.set_pools(pools);
            let first = setup.pools.iter().position(|pool| *pool != PoolSetup::GONE);
            self.first_pool = PoolId(first.unwrap_or_default() as u16);
        }
        if are_other_nodes || are_other_pools {
            self.set_modes(
                setup.pools.iter().map(|pool| pool.mode).collect(),
                Members::of(setup.strangers()),
            );
            self.set_queues(setup.pools.iter().map(|pool| pool.queue.clone()).collect(), shards);
        }
        if differs(|one, other| one.routes == other.routes) {
            self.set_routes(Arc::clone(&setup.routes), shards);
        }
        if differs(|one, other| one.rates == other.rates) {
            self.set_rates(setup.rates.clone().share(shards));
        }
    }
}
