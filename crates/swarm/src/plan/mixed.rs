//! A site of several pools of all modes, and the routes that lead to them: what one configuration file may say.

use super::{Destination, PlannedMember};
use balance::{HealthSettings, PolicyKind, SessionSettings};
use control::ProbeSettings;
use dialog::CallSettings;
use distribute::Law;
use node::{PoolMode, QueueSetup};
use proxy::ProxyTimers;
use route::{Fork, Forward};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

/// What the configuration file of such a site says at a moment.
#[derive(Clone, PartialEq, Debug)]
pub struct MixedPlan {
    /// How many shards share the calls; at least one.
    pub shards: u16,
    /// The pools in the order of the file; at least one, no two of one name.
    pub pools: Vec<PoolPlan>,
    /// The routes in the order of the file. The last one takes all requests.
    pub routes: Vec<RoutePlan>,
    /// Times of the session table.
    pub sessions: SessionSettings,
    /// Times and limits of the calls whose dialogs are kept.
    pub calls: CallSettings,
    /// By which law the state of calls is shared out, where it is.
    pub law: Law,
    /// Timers of transactions, and Timer C.
    pub timers: ProxyTimers,
}

/// A pool of such a file.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolPlan {
    /// What routes call it.
    pub name: String,
    /// How requests are forwarded.
    pub mode: PoolMode,
    /// Who gets the next call.
    pub policy: PolicyKind,
    /// Most calls of each member at a time; 0: as many as come.
    pub max_calls: u32,
    /// Its members.
    pub members: Vec<PlannedMember>,
    /// When a member counts as dead and as back.
    pub health: HealthSettings,
    /// When members are asked.
    pub probes: ProbeSettings,
    /// The queue in front of it, if new calls wait for room there.
    pub queue: Option<Arc<QueueSetup>>,
}

/// A route of such a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutePlan {
    /// The user whose calls it is for ([`Callee::Behind`](super::Callee::Behind)); `None`: everybody.
    pub user: Option<u16>,
    /// The pools by name; where one takes no calls, the next one does.
    pub pools: Vec<String>,
}

impl MixedPlan {
    /// The pool of this name, and its number.
    pub fn pool(&self, name: &str) -> Option<(u16, &PoolPlan)> {
        (0..).zip(&self.pools).find(|(_, pool)| pool.name == name)
    }

    /// The pools of the first route for this user.
    pub fn pools_for(&self, user: Option<u16>) -> impl Iterator<Item = &PoolPlan> {
        let is_for = |route: &&RoutePlan| route.user.is_none() || route.user == user;
        let names = self.routes.iter().find(is_for).map_or(&[][..], |route| &route.pools);
        names.iter().filter_map(|name| self.pool(name)).map(|(_, pool)| pool)
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = Destination> {
        self.pools.iter().flat_map(|pool| &pool.members).map(|member| member.destination)
    }

    /// Whether a pool forwards in this way.
    pub fn forwards(&self, forward: Forward) -> bool {
        self.pools.iter().any(|pool| pool.mode.forward == forward)
    }

    /// Whether a pool sends a call to several members.
    pub fn forks(&self) -> bool {
        self.pools.iter().any(|pool| pool.mode.fork != Fork::None)
    }
}

impl PoolPlan {
    /// Where its members are.
    pub fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.members.iter().map(|member| member.destination.address()).collect()
    }
}
