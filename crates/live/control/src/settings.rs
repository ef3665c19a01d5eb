//! What the control plane is set up with.

use crate::{MemberSettings, ProbeSettings};
use balance::{HealthSettings, PolicyKind};
use base::Flow;
use core::time::Duration;
use node::{
    DialogSettings, Distribution, HomeSettings, Orphans, PoolMode, ProxyLimits, QueueSetup, Routes, Tokens,
};
use route::RateSettings;
use std::net::SocketAddr;
use std::sync::Arc;

/// All that a configuration says to the control plane, and what the process adds to it.
#[derive(Clone, Debug)]
pub struct ControlSettings {
    /// The pools. Members and routes name them by their places here; [`Control`](crate::Control) gives each a number of its own.
    pub pools: Vec<PoolSettings>,
    /// The members of all pools, in their order.
    pub members: Vec<MemberSettings>,
    /// What is remembered of calls, over all shards.
    pub sessions: balance::SessionSettings,
    /// By which rules requests go to which pool, and who may send any.
    pub routes: Arc<Routes>,
    /// How much each source may begin.
    pub rates: RateSettings,
    /// The registrar and the users of the home domain, if there is one.
    pub home: Option<Arc<HomeSettings>>,
    /// What a request of an unknown dialog gets.
    pub orphans: Orphans,
    /// What all that is forwarded with transactions may hold, over all shards.
    pub limits: ProxyLimits,
    /// With whom the state of calls is shared out, if with anybody.
    pub distribution: Option<Distribution>,
    /// How calls are kept whose dialogs are, if those of any are.
    pub dialogs: Option<Arc<DialogSettings>>,
    /// Host names (in lower case) that mean this process, with a port or for any port.
    pub own_names: Vec<(String, Option<u16>)>,
    /// The marks in messages.
    pub tokens: Arc<Tokens>,
    /// How long one of them is accepted.
    pub token_lifetime: Duration,
    /// Unix time of [`Instant::ZERO`](base::Instant::ZERO) in seconds, by the clock of the tokens.
    pub epoch_unix: u64,
    /// Whether requests that failed are told of one by one.
    pub tell_failures: bool,
    /// Time between two look-ups of a name.
    pub refresh: Duration,
    /// Longest wait for calls in progress when the process is to stop.
    pub stop_wait: Duration,
}

/// A pool.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolSettings {
    /// What people call it.
    pub name: String,
    /// How requests are forwarded. Whether anything is remembered of calls follows from the policy and the members.
    pub mode: PoolMode,
    /// Who gets the next call.
    pub policy: PolicyKind,
    /// When a member counts as dead and as back.
    pub health: HealthSettings,
    /// When members are asked.
    pub probes: ProbeSettings,
    /// The queue in front of them, if new calls wait for room.
    pub queue: Option<Arc<QueueSetup>>,
}

/// Which listener leads to an address: what the machine's routes say live, and a table in a simulation.
pub trait Egress {
    /// The way to a peer; `None` if no listener leads there.
    fn toward(&self, peer: SocketAddr) -> Option<Flow>;
}

impl<F: Fn(SocketAddr) -> Option<Flow>> Egress for F {
    fn toward(&self, peer: SocketAddr) -> Option<Flow> {
        self(peer)
    }
}
