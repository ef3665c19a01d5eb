//! What a site is, and what its configuration file says.

use super::Party;
use balance::HealthSettings;
use node::ProbeSettings;

/// A balancer or a proxy: an address, and the processes that may have it.
#[derive(Clone, Debug)]
pub struct SitePlan {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// How many processes there are; the first one has the address to begin with.
    pub processes: u16,
}

/// What a site does.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a plan has a handful of them")]
pub enum Role {
    /// Balances calls over a pool.
    Balancer(BalancerPlan),
    /// Passes calls on, keeping transactions.
    Proxy(ProxyPlan),
}

impl Role {
    /// Whom it sends new calls to.
    pub fn targets(&self) -> Vec<Party> {
        match self {
            Self::Balancer(plan) => plan.members.iter().map(|member| member.party).collect(),
            Self::Proxy(plan) => plan.hops.clone(),
        }
    }
}

/// A member in a balancer's configuration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// Who.
    pub party: Party,
    /// Relative capacity.
    pub capacity: f64,
}

/// What the configuration file of a balancer says at a moment.
#[derive(Clone, Debug)]
pub struct BalancerPlan {
    /// How many shards share the calls; at least one.
    pub shards: u16,
    /// Name of the policy.
    pub policy: &'static str,
    /// The pool.
    pub members: Vec<Member>,
    /// When a member counts as dead and as back.
    pub health: HealthSettings,
    /// When members are asked.
    pub probes: ProbeSettings,
    /// Times of the session table.
    pub books: balance::Settings,
}

/// What the configuration file of a proxy says at a moment.
#[derive(Clone, Debug)]
pub struct ProxyPlan {
    /// The next hops.
    pub hops: Vec<Party>,
    /// Timers of its transactions, and Timer C.
    pub core: proxy::Settings,
    /// What it may hold.
    pub limits: node::ProxyLimits,
}
