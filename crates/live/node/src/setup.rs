//! What a shard works with, as one value.

#[cfg(doc)]
use crate::ShardEvent;
use crate::{DialogSettings, Distribution, HomeSettings, ProxyLimits, QueueSetup, Routes, Tokens, Topology};
use ::route::{Dialogs, Fork, Forward, RateSettings};
use balance::{Members, Node, PolicyKind, Slot};
use base::Instant;
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
    /// The pools by their number, [those that are gone](PoolSetup::GONE) included.
    pub pools: Arc<[PoolSetup]>,
    /// New calls are refused with 503: the process is about to stop, by then at the latest.
    pub stopping: Option<Instant>,
    /// What the configuration says.
    pub settings: ShardSettings,
}

/// What a configuration says to the shards, however its members fare.
#[derive(Clone, PartialEq, Debug)]
pub struct ShardSettings {
    /// What a request of an unknown dialog gets.
    pub orphans: Orphans,
    /// Unix time of [`Instant::ZERO`] in seconds, by the clock of the tokens: they outlive the process.
    pub epoch_unix: u64,
    /// Whether requests that failed are told of one by one ([`ShardEvent::Failed`]), which costs memory for each.
    pub tell_failures: bool,
    /// The marks in messages.
    pub tokens: Arc<Tokens>,
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

impl ShardSettings {
    /// Those of a configuration that says nothing, with these tokens, for a clock that shows this Unix time at
    /// [`Instant::ZERO`].
    pub fn new(tokens: Tokens, epoch_unix: u64) -> Self {
        Self {
            orphans: Orphans::default(),
            epoch_unix,
            tell_failures: false,
            tokens: Arc::new(tokens),
            sessions: balance::SessionSettings::default(),
            routes: Arc::default(),
            rates: RateSettings::default(),
            home: None,
            limits: ProxyLimits::default(),
            distribution: None,
            dialogs: None,
        }
    }
}

/// What a request of an unknown dialog gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Orphans {
    /// 481 Call/Transaction Does Not Exist.
    #[default]
    Reject,
    /// It is balanced like a new one.
    Balance,
    /// Nothing.
    Drop,
}

/// What each step of the pipeline looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PipelineSettings {
    pub(crate) orphans: Orphans,
    pub(crate) epoch_unix: u64,
    pub(crate) stopping: Option<Instant>,
    pub(crate) tell_failures: bool,
}

impl PipelineSettings {
    /// Unix time in seconds; it fits 32 bits until 2106.
    pub(crate) fn unix(&self, now: Instant) -> u32 {
        let seconds = self.epoch_unix + now.saturating_since(Instant::ZERO).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
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

    /// A pool of these nodes, without a queue. Where all nodes are its, turns begin at the first.
    pub fn new(mode: PoolMode, policy: PolicyKind, nodes: Members) -> Self {
        let members = match &nodes {
            Members::All => 0,
            Members::Some { slots, .. } => slots.len(),
        };
        Self { mode, policy, members, nodes, queue: None }
    }

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
    /// Without nodes and pools.
    pub fn new(topology: Topology, settings: ShardSettings) -> Self {
        let topology = Arc::new(topology);
        Self { nodes: Arc::default(), topology, pools: Arc::default(), stopping: None, settings }
    }

    pub(crate) fn pipeline(&self) -> PipelineSettings {
        let ShardSettings { orphans, epoch_unix, tell_failures, .. } = self.settings;
        PipelineSettings { orphans, epoch_unix, stopping: self.stopping, tell_failures }
    }

    /// The next hops that are in a pool.
    pub fn hops(&self) -> impl Iterator<Item = Slot> + '_ {
        self.strangers().filter(|&slot| self.pools.iter().any(|pool| pool.nodes.has(slot)))
    }

    /// The nodes of no pool to whose members dialogs belong. A request from one is handled like one from any caller.
    pub(crate) fn strangers(&self) -> impl Iterator<Item = Slot> + '_ {
        let is_own =
            |slot| self.pools.iter().any(|pool| pool.mode.dialogs == Dialogs::Member && pool.nodes.has(slot));
        (0..self.nodes.len()).map(|index| Slot(index as u16)).filter(move |&slot| !is_own(slot))
    }
}
