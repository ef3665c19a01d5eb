//! The set-up of a shard, as one value.

use crate::address::topology::AddressTable;
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

/// All settings of the shards of a process at one moment. Every change makes a new value, which each shard applies as a
/// whole.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// The nodes by slot, with nodes that left.
    pub nodes: Arc<[Node]>,
    /// The addresses of this process, and of the nodes by slot.
    pub topology: Arc<AddressTable>,
    /// The pools by their number, with [removed pools](PoolSetup::GONE).
    pub pools: Arc<[PoolSetup]>,
    /// Time when the process stops at the latest. `Some`: new calls are refused with 503.
    pub stopping: Option<Instant>,
    /// Settings that come from the configuration alone.
    pub settings: ShardSettings,
}

/// The shards' settings from the configuration, independent of the state of its members.
#[derive(Clone, PartialEq, Debug)]
pub struct ShardSettings {
    /// Whether a request of an unknown dialog is handled like a new request. This is needed only if there are only next
    /// hops. Otherwise such a request gets 481.
    pub forwards_orphans: bool,
    /// Unix time of [`Instant::ZERO`] in seconds, for the times in tokens. Tokens outlive the process.
    pub epoch_unix: u64,
    /// Whether each failed request is reported ([`ShardEvent::Failed`](crate::ShardEvent::Failed)). Each report takes
    /// memory.
    pub tell_failures: bool,
    /// Tokens for messages.
    pub tokens: Arc<Tokens>,
    /// Weights, times and limit of the pools' sessions, for all shards together.
    pub sessions: balance::SessionSettings,
    /// Routing rules, and the access lists of listeners.
    pub routes: Arc<Routes>,
    /// Rate limits of sources, for all shards together.
    pub rates: RateSettings,
    /// Overload control.
    pub overload: OverloadControl,
    /// The registrar and its users, if there is one.
    pub registrar: Option<Arc<RegistrarSettings>>,
    /// Limits of transactions and their memory, for all shards together.
    pub limits: ProxyLimits,
    /// The neighbours with which the state of calls is shared out, if there are any.
    pub distribution: Option<Distribution>,
    /// Settings of kept dialogs, if a pool keeps dialogs.
    pub dialogs: Option<Arc<DialogSettings>>,
    /// Transport of requests that are too long for UDP.
    pub large_requests: LargeRequests,
    /// Time between two keep-alives to a client that has registered over UDP behind a NAT. Zero: none are sent.
    pub keep_alive: Duration,
}

impl ShardSettings {
    /// Returns default settings with these tokens. `epoch_unix` is the Unix time at [`Instant::ZERO`].
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
            keep_alive: Duration::ZERO,
        }
    }
}

/// Settings of one pool.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolSetup {
    /// The service of the pool.
    pub service: Service,
    /// The policy that chooses the member of the next call.
    pub policy: PolicyKind,
    /// Number of members in the configuration. It is used to start the round-robin turns of the shards at different
    /// members.
    pub members: usize,
    /// The nodes of the pool.
    pub nodes: Members,
    /// The queue of the pool, if new calls wait for room.
    pub queue: Option<Arc<QueueSetup>>,
    /// Law of the limit that protects members from overload, if there is one.
    pub member_law: Option<MemberLaw>,
    /// Time for which a member may leave an INVITE without a response. After it another member gets the INVITE. Zero:
    /// no limit.
    pub invite_timeout: Duration,
}

impl PoolSetup {
    /// A removed pool. Its number is never used again.
    pub const GONE: Self = Self {
        service: Service::Balance,
        policy: PolicyKind::RoundRobin,
        members: 0,
        nodes: Members::Some { slots: Vec::new(), has: Vec::new() },
        queue: None,
        member_law: None,
        invite_timeout: Duration::ZERO,
    };

    /// Creates a pool of these nodes without a queue. If the pool has all nodes, turns begin at the first node.
    pub fn new(service: Service, policy: PolicyKind, nodes: Members) -> Self {
        let members = match &nodes {
            Members::All => 0,
            Members::Some { slots, .. } => slots.len(),
        };
        Self { service, policy, members, nodes, ..Self::GONE }
    }

    /// Returns the slot at which the turns of a shard begin. Each of `shards` shards begins at another member.
    pub fn first_turn(&self, shard: usize, shards: usize) -> usize {
        let place = |count: usize| shard * count / shards.max(1);
        match &self.nodes {
            Members::All => place(self.members),
            Members::Some { slots, .. } => slots.get(place(slots.len())).map_or(0, |slot| slot.index()),
        }
    }
}

impl Setup {
    /// Creates a set-up without nodes and pools.
    pub fn new(topology: AddressTable, settings: ShardSettings) -> Self {
        let topology = Arc::new(topology);
        Self { nodes: Arc::default(), topology, pools: Arc::default(), stopping: None, settings }
    }

    pub(crate) fn pipeline(&self) -> PipelineSettings {
        let ShardSettings { forwards_orphans, epoch_unix, tell_failures, keep_alive, .. } = self.settings;
        PipelineSettings { forwards_orphans, epoch_unix, stopping: self.stopping, tell_failures, keep_alive }
    }

    /// Returns the nodes that are next hops of a pool.
    pub fn hops(&self) -> impl Iterator<Item = Slot> + '_ {
        self.strangers().filter(|&slot| self.pools.iter().any(|pool| pool.nodes.has(slot)))
    }

    /// Returns the nodes that are in no pool of members. Their requests are handled like the requests of any caller.
    pub(crate) fn strangers(&self) -> impl Iterator<Item = Slot> + '_ {
        let is_own = |slot| self.pools.iter().any(|pool| !pool.service.has_hops() && pool.nodes.has(slot));
        (0..self.nodes.len()).map(|index| Slot(index as u16)).filter(move |&slot| !is_own(slot))
    }
}
