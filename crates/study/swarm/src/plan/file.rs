//! What the configuration file of a site says: its pools, and the routes that lead to them.

use super::{Destination, PlannedMember, ScalePlan, StorePlan, When};
use crate::process::SILENCE;
use balance::{PolicyKind, SessionSettings};
use base::Instant;
use control::PoolSettings;
use core::ops::Range;
use core::time::Duration;
use dialog::CallSettings;
use distribute::{Function, Law};
use node::{CapacitySource, ProxyLimits, QueueSetup};
use proxy::ProxyTimers;
use route::{Fork, Forward, Service};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// What the configuration file of a site says at a moment.
#[derive(Clone, PartialEq, Debug)]
pub struct FilePlan {
    /// How many shards share the calls; at least one.
    pub shards: u16,
    /// The pools in the order of the file; at least one, no two of one name.
    pub pools: Vec<PoolPlan>,
    /// The routes in the order of the file, the last of which takes all requests; without any, the first pool does.
    pub routes: Vec<RoutePlan>,
    /// Times of the session table.
    pub sessions: SessionSettings,
    /// Times and limits of the calls whose dialogs are kept.
    pub calls: CallSettings,
    /// By which law the state of calls is shared out, where it is.
    pub law: Law,
    /// Whether the dialogs of calls and their records are shared out as well.
    pub shares_dialogs: bool,
    /// The store of users, where callers have to authenticate and who verifies them is shared out as well.
    pub users: Option<StorePlan>,
    /// Timers of transactions, and Timer C.
    pub timers: ProxyTimers,
    /// What all that is forwarded with transactions may hold.
    pub limits: ProxyLimits,
    /// How the servers of the only pool are started and stopped, if they are.
    pub scale: Option<Box<ScalePlan>>,
    /// What the site says to its neighbours, which are the other sites, and when it has more to do than it can.
    pub overload: OverloadPlan,
}

/// `[overload]` of such a file, and the times at which a process has more work than time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OverloadPlan {
    /// What is said to the other sites (RFC 7339, RFC 7415), and kept to.
    pub feedback: FeedbackPlan,
    /// When messages have waited for how long before they are handled. Within these times a thread has no moment to
    /// rest, too.
    pub late: Vec<(Range<Instant>, Duration)>,
}

/// `feedback` of `[overload]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FeedbackPlan {
    /// Nothing is said.
    #[default]
    None,
    /// The part of requests that is taken.
    Loss,
    /// How many are taken a second.
    Rate,
}

impl OverloadPlan {
    /// How long a message that comes now has waited.
    pub fn wait(&self, now: Instant) -> Duration {
        let late = self.late.iter().find(|(when, _)| when.contains(&now));
        late.map_or(Duration::ZERO, |(_, wait)| *wait)
    }
}

/// A pool of such a file.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolPlan {
    /// What the control plane is told.
    pub settings: PoolSettings,
    /// Its members.
    pub members: Vec<PlannedMember>,
    /// Most calls of each member at a time; 0: as many as come.
    pub max_calls: u32,
    /// Most new calls a second of each member; 0: as many as come.
    pub max_rate: u32,
}

/// A route of such a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutePlan {
    /// Which requests it is for; `None`: all.
    pub when: Option<When>,
    /// The pools by name; where one takes no calls, the next one does.
    pub pools: Vec<String>,
    /// Whether calls are spread over them by Call-ID; otherwise the first one gets all.
    pub spreads: bool,
}

impl FilePlan {
    /// Next hops as `[proxy]` makes them: found by a hash of the Call-ID, with transactions.
    pub fn hops(hops: &[Destination], timers: ProxyTimers, limits: ProxyLimits) -> Self {
        Self {
            shards: 1,
            pools: vec![PoolPlan::hops("hops", hops)],
            routes: Vec::new(),
            sessions: SessionSettings::default(),
            calls: CallSettings { silence: SILENCE, ..CallSettings::default() },
            law: Law::Level,
            shares_dialogs: false,
            users: None,
            timers,
            limits,
            scale: None,
            overload: OverloadPlan::default(),
        }
    }

    /// The same with these members, dealt out to the pools one after the other.
    #[must_use]
    pub fn with_members(&self, members: &[PlannedMember]) -> Self {
        let mut file = self.clone();
        for pool in &mut file.pools {
            pool.members.clear();
        }
        for (member, place) in members.iter().zip((0..file.pools.len()).cycle()) {
            file.pools[place].members.push(*member);
        }
        file
    }

    /// The pool of this name, and its number.
    pub fn pool(&self, name: &str) -> Option<(u16, &PoolPlan)> {
        (0..).zip(&self.pools).find(|(_, pool)| pool.settings.name == name)
    }

    /// The pools of the first route for this user, where the request comes from no other site.
    pub fn pools_for(&self, user: Option<u16>) -> impl Iterator<Item = &PoolPlan> {
        self.pools_of(false, user)
    }

    /// The pools of the first route for a request, which is from another site or not, and for this user.
    pub fn pools_of(&self, is_from_site: bool, user: Option<u16>) -> impl Iterator<Item = &PoolPlan> {
        let is_for = |route: &&RoutePlan| match route.when {
            Some(When::Behind(number)) => user == Some(number),
            Some(When::FromSite) => is_from_site,
            None => true,
        };
        let names = self.routes.iter().find(is_for).map_or(&[][..], |route| &route.pools);
        names.iter().filter_map(|name| self.pool(name)).map(|(_, pool)| pool)
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = Destination> {
        self.pools.iter().flat_map(|pool| &pool.members).map(|member| member.destination)
    }

    /// Whether a pool forwards in this way.
    pub fn forwards(&self, forward: Forward) -> bool {
        self.pools.iter().any(|pool| pool.settings.service.forward() == forward)
    }

    /// Whether monitors say what members of a queue can take.
    pub(crate) fn hears_monitors(&self) -> bool {
        let hears = |queue: &QueueSetup| queue.source == CapacitySource::Announced;
        self.pools.iter().any(|pool| pool.settings.queue.as_deref().is_some_and(hears))
    }

    /// Whether the site keeps the dialogs of calls and writes their records: of all calls, or of those that it takes
    /// of what is shared out.
    pub fn keeps_dialogs(&self) -> bool {
        self.forwards(Forward::Dialog) || self.shared_function() == Some(Function::Dialog)
    }

    /// What is shared out with the other sites, if anything is.
    pub fn shared_function(&self) -> Option<Function> {
        let function = if self.shares_dialogs { Function::Dialog } else { Function::State };
        self.forwards(Forward::Distributed).then_some(function)
    }

    /// Whether a pool sends a call to several members.
    pub fn forks(&self) -> bool {
        self.pools.iter().any(|pool| pool.settings.service.fork().0 != Fork::None)
    }
}

impl PoolPlan {
    /// A pool of next hops of this name, with transactions; nobody asks whether they are alive.
    pub fn hops(name: &str, hops: &[Destination]) -> Self {
        let member = |&destination: &Destination| PlannedMember { destination, capacity: 1.0 };
        let settings = PoolSettings::new(name, Service::HOPS, PolicyKind::Hash);
        Self { settings, members: hops.iter().map(member).collect(), max_calls: 0, max_rate: 0 }
    }

    /// Where its members are.
    pub fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.members.iter().map(|member| member.destination.address()).collect()
    }
}
