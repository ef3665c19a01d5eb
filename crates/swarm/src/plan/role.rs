//! What a site is, and what its configuration file says.

use super::Destination;
use balance::{HealthSettings, PolicyKind};
use control::ProbeSettings;
use proxy::ProxyTimers;
use route::Forward;

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
#[expect(clippy::large_enum_variant, reason = "a plan has a handful of them")]
pub enum SiteRole {
    /// Balances calls over a pool.
    Balancer(BalancerPlan),
    /// Passes calls on, keeping transactions.
    Proxy(ProxyPlan),
}

impl SiteRole {
    /// Whom it sends new calls to.
    pub fn targets(&self) -> Vec<Destination> {
        match self {
            Self::Balancer(plan) => plan.members.iter().map(|member| member.destination).collect(),
            Self::Proxy(plan) => plan.hops.clone(),
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
}

/// What the configuration file of a proxy says at a moment.
#[derive(Clone, Debug)]
pub struct ProxyPlan {
    /// The next hops.
    pub hops: Vec<Destination>,
    /// Timers of its transactions, and Timer C.
    pub timers: ProxyTimers,
    /// What it may hold.
    pub limits: node::ProxyLimits,
}
