//! What the control plane is set up with.

use crate::{MemberSettings, ProbeSettings};
use balance::{HealthSettings, MemberLaw, PolicyKind};
use base::{Flow, Peer};
use core::time::Duration;
use node::{QueueSetup, ShardSettings};
use route::Service;
use std::sync::Arc;

/// All that a configuration says to the control plane, and what the process adds to it.
#[derive(Clone, Debug)]
pub struct ControlSettings {
    /// The pools. Members and routes name them by their places here; [`Control`](crate::Control) gives each a number
    /// of its own.
    pub pools: Vec<PoolSettings>,
    /// The members of all pools, in their order.
    pub members: Vec<MemberSettings>,
    /// What the shards are told as it stands here, but for the numbers of pools in routes.
    pub shards: ShardSettings,
    /// Host names (in lower case) that mean this process, with a port or for any port.
    pub own_names: Vec<(String, Option<u16>)>,
    /// How long a token is accepted.
    pub token_lifetime: Duration,
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
    pub service: Service,
    /// Who gets the next call.
    pub policy: PolicyKind,
    /// When a member counts as dead and as back.
    pub health: HealthSettings,
    /// When members are asked.
    pub probes: ProbeSettings,
    /// The queue in front of them, if new calls wait for room.
    pub queue: Option<Arc<QueueSetup>>,
    /// The law of the limit that keeps members from more than they can do, if there is one.
    pub member_law: Option<MemberLaw>,
    /// How long a member may leave an INVITE without a response before another one gets it; zero: for any time.
    pub invite_timeout: Duration,
}

impl PoolSettings {
    /// A pool without a queue, a law and an `invite_timeout`, of which a configuration says nothing else.
    pub fn new(name: &str, service: Service, policy: PolicyKind) -> Self {
        Self {
            name: name.to_owned(),
            service,
            policy,
            health: HealthSettings::default(),
            probes: ProbeSettings::default(),
            queue: None,
            member_law: None,
            invite_timeout: Duration::ZERO,
        }
    }
}

/// Which listener leads to an address: what the machine's routes say live, and a table in a simulation.
pub trait Egress {
    /// The way to a peer; `None` if no listener leads there.
    fn toward(&self, peer: Peer) -> Option<Flow>;
}

impl<F: Fn(Peer) -> Option<Flow>> Egress for F {
    fn toward(&self, peer: Peer) -> Option<Flow> {
        self(peer)
    }
}
