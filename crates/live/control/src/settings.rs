//! Settings of the control plane.

use crate::{MemberSettings, ProbeSettings};
use balance::{HealthSettings, MemberLaw, PolicyKind};
use base::{Flow, Peer};
use core::time::Duration;
use node::{QueueSetup, ShardSettings};
use route::Service;
use std::sync::Arc;

/// All settings from the configuration, and additions of the process.
#[derive(Clone, Debug)]
pub struct ControlSettings {
    /// The pools. Members and routes refer to them by their index here. [`Control`](crate::Control) assigns permanent
    /// numbers.
    pub pools: Vec<PoolSettings>,
    /// Members of all pools, in the order of the pools.
    pub members: Vec<MemberSettings>,
    /// Settings of the shards, complete except for the numbers of pools in routes.
    pub shards: ShardSettings,
    /// Host names (in lower case) of this process, with a port or for any port.
    pub own_names: Vec<(String, Option<u16>)>,
    /// Lifetime of a token.
    pub token_lifetime: Duration,
    /// Interval between two look-ups of a name.
    pub refresh: Duration,
    /// Longest wait for calls in progress after a stop was requested.
    pub stop_wait: Duration,
}

/// A pool.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolSettings {
    /// Name of the pool.
    pub name: String,
    /// Forwarding of requests. Whether sessions are kept follows from the policy and the members.
    pub service: Service,
    /// Policy that chooses the member of a new call.
    pub policy: PolicyKind,
    /// When a member counts as dead and as alive again.
    pub health: HealthSettings,
    /// Schedule of the probes.
    pub probes: ProbeSettings,
    /// Queue of new calls, if they wait for room.
    pub queue: Option<Arc<QueueSetup>>,
    /// Controller of the limit that protects members from overload; `None` without a limit.
    pub member_law: Option<MemberLaw>,
    /// Time after which an unanswered INVITE is also sent to another member; zero for no limit.
    pub invite_timeout: Duration,
}

impl PoolSettings {
    /// Creates a pool without a queue, a limit and an `invite_timeout`, with the defaults of the configuration.
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

/// Finds the listener that can reach an address: by the machine's routes in the server, by a table in a simulation.
pub trait Egress {
    /// Returns the flow to a peer; `None` if no listener can reach it.
    fn toward(&self, peer: Peer) -> Option<Flow>;
}

impl<F: Fn(Peer) -> Option<Flow>> Egress for F {
    fn toward(&self, peer: Peer) -> Option<Flow> {
        self(peer)
    }
}
