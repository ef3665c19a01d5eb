//! The set-up of a shard, as one value.

use crate::address::topology::Topology;
use crate::admission::OverloadControl;
use crate::forward::stateful::{DialogSettings, ProxyLimits};
use crate::queue::QueueSetup;
use crate::registrar::RegistrarSettings;
use crate::site::large::LargeRequests;
use crate::site::routes::Routes;
use crate::site::settings::PipelineSettings;
use crate::site::sharing::Distribution;
use crate::token::Tokens;
use balance::{MemberLaw, Members, Node, PolicyKind, Slot};
use base::Instant;
use core::time::Duration;
use route::{RateSettings, Service};
use std::sync::Arc;

/// Everything that is decided for the shards of a process beside the traffic, as of one moment. Every change of it is
/// another such value, and the shards take each as a whole.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// The nodes by slot, nodes that left included.
    pub nodes: Arc<[Node]>,
    /// Our addresses, and the nodes' by slot.
    pub topology: Arc<Topology>,
    /// The pools by their number, [removed pools](PoolSetup::GONE) included.
    pub pools: Arc<[PoolSetup]>,
    /// New calls are refused with 503: the process is about to stop, by then at the latest.
    pub stopping: Option<Instant>,
    /// The part that only the configuration decides.
    pub settings: ShardSettings,
}

/// The settings of a configuration for the shards, whatever the state of its members.
#[derive(Clone, PartialEq, Debug)]
pub struct ShardSettings {
    /// Whether a request of an unknown dialog goes on like a new one, which is for next hops only; otherwise it gets 481.
    pub forwards_orphans: bool,
    /// Unix time of [`Instant::ZERO`] in seconds, by the clock of the tokens: they outlive the process.
    pub epoch_unix: u64,
    /// Whether requests that failed are told of one by one ([`ShardEvent::Failed`](crate::ShardEvent::Failed)), which
    /// costs memory for each.
    pub tell_failures: bool,
    /// The marks in messages.
    pub tokens: Arc<Tokens>,
    /// Weights, times and limit of the pools' sessions, over all shards.
    pub sessions: balance::SessionSettings,
    /// Routing rules, and the access lists of listeners.
    pub routes: Arc<Routes>,
    /// How much each source may begin, over all shards.
    pub rates: RateSettings,
    /// What is done about more requests than can be served.
    pub overload: OverloadControl,
    /// The registrar and its users, if there is one.
    pub registrar: Option<Arc<RegistrarSettings>>,
    /// Limits of transactions and their memory, over all shards.
    pub limits: ProxyLimits,
    /// The neighbours with which the state of calls is shared out, if there are any.
    pub distribution: Option<Distribution>,
    /// Settings of kept dialogs, if a pool keeps dialogs.
    pub dialogs: Option<Arc<DialogSettings>>,
    /// What carries requests that are too long for UDP.
    pub large_requests: LargeRequests,
}

impl ShardSettings {
    /// The defaults, with these tokens, for a clock that shows this Unix time at
    /// [`Instant::ZERO`].
    pub fn new(tokens: Tokens, epoch_unix: u64) -> Self {
        Self {
            forwards_orphans: false,
            epoch_unix,
            tell_failures: false,
            tokens: Arc::new(tokens),
            sessions: balance::SessionSettings::default(),
            routes: Arc::default(),
            rates: RateSettings::default(),
            overload: OverloadControl::default(),
            registrar: None,
            limits: ProxyLimits::default(),
            distribution: None,
            dialogs: None,
            large_requests: LargeRequests::default(),
        }
    }
}

/// How calls are spread over the members of a pool.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolSetup {
    /// The service of the pool.
    pub service: Service,
    /// The policy that chooses the member of the next call.
    pub policy: PolicyKind,
    /// How many members the configuration names: shards that take turns begin at different ones.
    pub members: usize,
    /// Which of the nodes these are.
    pub nodes: Members,
    /// The queue in front of them, if new calls wait for room.
    pub queue: Option<Arc<QueueSetup>>,
    /// The law of the limit that keeps members from more than they can do, if there is one.
    pub member_law: Option<MemberLaw>,
    /// How long a member may leave an INVITE without a response before another one gets it; zero: for any time.
    pub invite_timeout: Duration,
}

impl PoolSetup {
    /// A removed pool. No other pool gets its number.
    pub const GONE: Self = Self {
        service: Service::Balance,
        policy: PolicyKind::RoundRobin,
        members: 0,
        nodes: Members::Some { slots: Vec::new(), has: Vec::new() },
        queue: None,
        member_law: None,
        invite_timeout: Duration::ZERO,
    };

    /// A pool of these nodes, without a queue. Where all nodes are its, turns begin at the first.
    pub fn new(service: Service, policy: PolicyKind, nodes: Members) -> Self {
        let members = match &nodes {
            Members::All => 0,
            Members::Some { slots, .. } => slots.len(),
        };
        Self { service, policy, members, nodes, ..Self::GONE }
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
        let ShardSettings { forwards_orphans, epoch_unix, tell_failures, .. } = self.settings;
        PipelineSettings { forwards_orphans, epoch_unix, stopping: self.stopping, tell_failures }
    }

    /// The next hops that are in a pool.
    pub fn hops(&self) -> impl Iterator<Item = Slot> + '_ {
        self.strangers().filter(|&slot| self.pools.iter().any(|pool| pool.nodes.has(slot)))
    }

    /// The nodes of no pool to whose members dialogs belong. A request from one is handled like one from any caller.
    pub(crate) fn strangers(&self) -> impl Iterator<Item = Slot> + '_ {
        let is_own = |slot| self.pools.iter().any(|pool| !pool.service.has_hops() && pool.nodes.has(slot));
        (0..self.nodes.len()).map(|index| Slot(index as u16)).filter(move |&slot| !is_own(slot))
    }
}
