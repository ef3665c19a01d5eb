//! Configuration file of a site: pools, routes and settings.

use super::{Destination, PlannedMember, ScalePlan, StorePlan, When};
use crate::process::SILENCE;
use balance::{PolicyKind, SessionSettings};
use base::Instant;
use control::PoolSettings;
use core::ops::Range;
use core::time::Duration;
use dialog::CallSettings;
use distribute::{Function, ShareLaw};
use node::{CapacitySource, ProxyLimits, QueueSetup};
use proxy::ProxyTimers;
use route::{Fork, Forward, Service};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Configuration file of a site at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct FilePlan {
    /// Number of shards, at least one.
    pub shards: u16,
    /// Pools in the order of the file, at least one. Names are unique.
    pub pools: Vec<PoolPlan>,
    /// Routes in the order of the file. The last one takes all requests. If there are none, the first pool does.
    pub routes: Vec<RoutePlan>,
    /// Times of the session table.
    pub sessions: SessionSettings,
    /// Timers and limits of the calls whose dialogs are kept.
    pub calls: CallSettings,
    /// Law by which proxies share out the state of calls, if they do.
    pub law: ShareLaw,
    /// Whether dialogs and call records are shared out as well.
    pub shares_dialogs: bool,
    /// Store of users, if callers must authenticate. Their verification is then shared out as well.
    pub users: Option<StorePlan>,
    /// Transaction timers, and Timer C.
    pub timers: ProxyTimers,
    /// Limits on requests forwarded with transactions.
    pub limits: ProxyLimits,
    /// Scaling of the only pool; `None`: no server is started or stopped.
    pub scale: Option<Box<ScalePlan>>,
    /// Feedback to the neighbours, which are the other sites, and the times of overload.
    pub overload: OverloadPlan,
}

/// `[overload]` of the file, and the times at which the process is overloaded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OverloadPlan {
    /// Overload feedback (RFC 7339, RFC 7415) that this site gives to the other sites, and enforces for theirs.
    pub feedback: FeedbackPlan,
    /// Periods of overload, and the time that each message waits in them before it is handled. The thread is never idle
    /// in such a period.
    pub late: Vec<(Range<Instant>, Duration)>,
}

/// `feedback` of `[overload]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FeedbackPlan {
    /// No feedback.
    #[default]
    None,
    /// Loss-based: fraction of requests to drop.
    Loss,
    /// Rate-based: requests a second.
    Rate,
}

impl OverloadPlan {
    /// Returns how long a message that is handled now has waited.
    pub fn wait(&self, now: Instant) -> Duration {
        let late = self.late.iter().find(|(when, _)| when.contains(&now));
        late.map_or(Duration::ZERO, |(_, wait)| *wait)
    }
}

/// A pool of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolPlan {
    /// Settings for the control plane.
    pub settings: PoolSettings,
    /// Its members.
    pub members: Vec<PlannedMember>,
    /// Most concurrent calls of each member; 0: no limit.
    pub max_calls: u32,
    /// Most new calls a second of each member; 0: no limit.
    pub max_rate: u32,
}

/// A route of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutePlan {
    /// Condition on the request; `None`: matches all.
    pub when: Option<When>,
    /// Names of the pools. If one accepts no calls, the next one is tried.
    pub pools: Vec<String>,
    /// Whether calls are spread over the pools by Call-ID. Otherwise the first pool gets all calls.
    pub spreads: bool,
}

impl FilePlan {
    /// A file with next hops like those of `[proxy]`: chosen by a hash of the Call-ID, with transactions.
    pub fn hops(hops: &[Destination], timers: ProxyTimers, limits: ProxyLimits) -> Self {
        Self {
            shards: 1,
            pools: vec![PoolPlan::hops("hops", hops)],
            routes: Vec::new(),
            sessions: SessionSettings::default(),
            calls: CallSettings { silence: SILENCE, ..CallSettings::default() },
            law: ShareLaw::Level,
            shares_dialogs: false,
            users: None,
            timers,
            limits,
            scale: None,
            overload: OverloadPlan::default(),
        }
    }

    /// Returns a copy with these members, dealt out to the pools in turn.
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

    /// Returns the pool of this name and its number.
    pub fn pool(&self, name: &str) -> Option<(u16, &PoolPlan)> {
        (0..).zip(&self.pools).find(|(_, pool)| pool.settings.name == name)
    }

    /// Returns the pools of the first route that matches this user, for a request from outside the sites.
    pub fn pools_for(&self, user: Option<u16>) -> impl Iterator<Item = &PoolPlan> {
        self.pools_of(false, user)
    }

    /// Returns the pools of the first route that matches this user and origin.
    pub fn pools_of(&self, is_from_site: bool, user: Option<u16>) -> impl Iterator<Item = &PoolPlan> {
        let is_for = |route: &&RoutePlan| match route.when {
            Some(When::Behind(number)) => user == Some(number),
            Some(When::FromSite) => is_from_site,
            None => true,
        };
        let names = self.routes.iter().find(is_for).map_or(&[][..], |route| &route.pools);
        names.iter().filter_map(|name| self.pool(name)).map(|(_, pool)| pool)
    }

    /// Returns the members of all pools.
    pub fn members(&self) -> impl Iterator<Item = Destination> {
        self.pools.iter().flat_map(|pool| &pool.members).map(|member| member.destination)
    }

    /// Returns true if a pool forwards in this way.
    pub fn forwards(&self, forward: Forward) -> bool {
        self.pools.iter().any(|pool| pool.settings.service.forward() == forward)
    }

    /// Returns true if a queue takes the capacity of its members from monitors.
    pub(crate) fn hears_monitors(&self) -> bool {
        let hears = |queue: &QueueSetup| queue.source == CapacitySource::Announced;
        self.pools.iter().any(|pool| pool.settings.queue.as_deref().is_some_and(hears))
    }

    /// Returns true if the site keeps dialogs and writes call records: of all calls, or of its share of them.
    pub fn keeps_dialogs(&self) -> bool {
        self.forwards(Forward::Dialog) || self.shared_function() == Some(Function::Dialog)
    }

    /// Returns the function shared out with the other sites; `None`: nothing is shared.
    pub fn shared_function(&self) -> Option<Function> {
        let function = if self.shares_dialogs { Function::Dialog } else { Function::State };
        self.forwards(Forward::Distributed).then_some(function)
    }

    /// Returns true if a pool forks calls to several members.
    pub fn forks(&self) -> bool {
        self.pools.iter().any(|pool| pool.settings.service.fork().0 != Fork::None)
    }
}

impl PoolPlan {
    /// A pool of next hops with transactions and without health probes.
    pub fn hops(name: &str, hops: &[Destination]) -> Self {
        let member = |&destination: &Destination| PlannedMember { destination, capacity: 1.0 };
        let settings = PoolSettings::new(name, Service::HOPS, PolicyKind::Hash);
        Self { settings, members: hops.iter().map(member).collect(), max_calls: 0, max_rate: 0 }
    }

    /// Addresses of the members.
    pub fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.members.iter().map(|member| member.destination.address()).collect()
    }
}
