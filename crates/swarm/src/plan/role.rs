//! What a site is, and what its configuration file says.

use super::{Destination, MixedPlan, ScalePlan};
use balance::{HealthSettings, PolicyKind};
use base::Instant;
use control::ProbeSettings;
use core::time::Duration;
use distribute::Law;
use node::{ProxyLimits, QueueSetup};
use proxy::ProxyTimers;
use route::{Fork, Forward};
use std::sync::Arc;

/// A balancer or a proxy: an address, and the processes that may have it.
#[derive(Clone, Debug)]
pub struct SitePlan {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub role: SiteRole,
    /// How many processes there are; the first one has the address to begin with.
    pub processes: u16,
}

/// What a site does.
#[derive(Clone, Debug)]
pub enum SiteRole {
    /// Balances calls over a pool.
    Balancer(BalancerPlan),
    /// Passes calls on, keeping transactions.
    Proxy(ProxyPlan),
    /// Has several pools, with routes to each.
    Mixed(Box<MixedPlan>),
    /// Is the registrar of a domain, and passes calls on to where its users have registered.
    Home(HomePlan),
}

impl SiteRole {
    /// How its servers are started and stopped, if they are.
    pub fn scale(&self) -> Option<&ScalePlan> {
        match self {
            Self::Balancer(plan) => plan.scale.as_deref(),
            Self::Proxy(_) | Self::Mixed(_) | Self::Home(_) => None,
        }
    }

    /// Whether it shares out the state of calls.
    pub(crate) fn shares(&self) -> bool {
        match self {
            Self::Proxy(plan) => plan.shares.is_some(),
            Self::Mixed(plan) => plan.forwards(Forward::Distributed),
            Self::Balancer(_) | Self::Home(_) => false,
        }
    }

    /// Whom it sends new calls to.
    pub fn targets(&self) -> Vec<Destination> {
        match self {
            Self::Balancer(plan) => plan.members.iter().map(|member| member.destination).collect(),
            Self::Proxy(plan) => plan.all_hops().collect(),
            Self::Mixed(plan) => plan.members().collect(),
            Self::Home(_) => Vec::new(),
        }
    }
}

/// A member in a balancer's configuration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlannedMember {
    /// Who.
    pub destination: Destination,
    /// Relative capacity.
    pub capacity: f64,
}

/// What the configuration file of a balancer says at a moment.
#[derive(Clone, Debug)]
pub struct BalancerPlan {
    /// How many shards share the calls; at least one.
    pub shards: u16,
    /// Into how many pools the members are dealt out, one after the other; at least one. A route spreads calls over the pools
    /// by Call-ID, and where one takes none, another does.
    pub pools: u16,
    /// How requests go to the members.
    pub forward: Forward,
    /// Who gets the next call, in each pool.
    pub policy: PolicyKind,
    /// The members of all pools.
    pub members: Vec<PlannedMember>,
    /// When a member counts as dead and as back.
    pub health: HealthSettings,
    /// When members are asked.
    pub probes: ProbeSettings,
    /// Times of the session table.
    pub sessions: balance::SessionSettings,
    /// The queue in front of each pool, if new calls wait for room there.
    pub queue: Option<Arc<QueueSetup>>,
    /// How its servers are started and stopped, if they are. Then there is one pool, and one process.
    pub scale: Option<Box<ScalePlan>>,
}

/// Which requests go another way than to the next hops of all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// What comes from another site.
    FromSite,
    /// What is for callees behind this site ([`Callee::Behind`]).
    Behind(u16),
}

/// What the configuration file of a proxy says at a moment.
#[derive(Clone, Debug)]
pub struct ProxyPlan {
    /// The next hops.
    pub hops: Vec<Destination>,
    /// The next hops of requests that a route leads elsewhere.
    pub ways: Vec<(When, Vec<Destination>)>,
    /// To how many next hops at once, and how long they ring before the next ones do.
    pub fork: (Fork, Duration),
    /// By which law it shares out the state of calls with the other sites, if it does.
    pub shares: Option<Law>,
    /// Whether it keeps the state of calls, and writes records of them.
    pub keeps_calls: bool,
    /// Timers of its transactions, and Timer C.
    pub timers: ProxyTimers,
    /// What it may hold.
    pub limits: ProxyLimits,
}

impl ProxyPlan {
    /// One that sends everything to these next hops, and keeps the transactions of all of it.
    pub fn new(hops: Vec<Destination>, timers: ProxyTimers, limits: ProxyLimits) -> Self {
        let (ways, fork) = (Vec::new(), (Fork::None, Duration::ZERO));
        Self { hops, ways, fork, shares: None, keeps_calls: false, timers, limits }
    }

    fn all_hops(&self) -> impl Iterator<Item = Destination> {
        self.hops.iter().chain(self.ways.iter().flat_map(|(_, hops)| hops)).copied()
    }
}

/// What the configuration file of a registrar says, and what its stores are like.
#[derive(Clone, Debug)]
pub struct HomePlan {
    /// Whether users prove who they are.
    pub authenticates: bool,
    /// Whether bindings outlive the process.
    pub is_durable: bool,
    /// A store answers within this time; `None`: at once.
    pub answers_within: Option<Duration>,
    /// Until then some answers come when nobody waits any more.
    pub late_until: Instant,
    /// Timers of its transactions, and Timer C.
    pub timers: ProxyTimers,
}

/// A phone: it registers, and answers calls as the answerer of its number.
#[derive(Clone, Debug)]
pub struct PhonePlan {
    /// Where it registers.
    pub site: u16,
    /// The answerer that takes its calls, whose address is its contact.
    pub answerer: u16,
    /// Whose phone it is.
    pub user: u16,
    /// Whether it knows the user's password.
    pub knows_password: bool,
    /// What it registers, in order of time.
    pub steps: Vec<(Instant, PhoneStep)>,
}

/// What a phone asks its registrar for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhoneStep {
    /// To be reached for so many seconds.
    Register(u32),
    /// Not to be reached any more.
    Remove,
    /// That no phone of the user is.
    RemoveAll,
}

/// How a store of bindings and users is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreState {
    /// It answers.
    Up,
    /// It says that it cannot; what was to be changed may be changed or not.
    Failing,
    /// It says nothing; the same.
    Silent,
}

/// Whom a caller calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callee {
    /// Whoever the sites lead to.
    Anyone,
    /// Whoever has this number, whom a route leads to: behind an edge of that number, or in pools of a site.
    Behind(u16),
    /// A user of the home domain.
    User(u16),
}
