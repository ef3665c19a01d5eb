//! The parts of a shard.

use crate::forward::stateful::Stateful;
use crate::forward::stateless::Stateless;
use crate::queue::Queues;
use crate::registrar::Registrar;
use crate::shard::setup::Setup;
use crate::site::Site;
use crate::site::pools::Pools;
use ::proxy::ProxyTimers;
use balance::{Balancer, CallLimits, SentCalls};
use core::time::Duration;
use std::sync::Arc;

/// Identity of a shard, fixed at its start: its place among the shards of its process, its random values, and the state
/// shared with the other shards.
#[derive(Clone, Debug)]
pub struct ShardIdentity {
    /// Number of the shard, from 0.
    pub shard: usize,
    /// Number of shards of the process. Limits of the set-up are divided among them.
    pub shards: usize,
    /// A secret that only this shard of this process has.
    pub secret: [u8; 16],
    /// Serial number of its first branch. Each shard and each start of the process has a different one.
    pub serial: u64,
    /// Timers of transactions, and Timer C.
    pub timers: ProxyTimers,
    /// The Unix time of [`base::Instant::ZERO`].
    pub epoch: Duration,
    /// Calls of members with a limit, which all shards count together; `None` for a single shard.
    pub call_limits: Option<Arc<CallLimits>>,
    /// Counts of new calls by the node that they are sent to; `None` if the counts are not read.
    pub sent_calls: Option<Arc<SentCalls>>,
}

impl ShardIdentity {
    /// Creates the identity of a process's only shard, with this [`secret`](Self::secret) and [`serial`](Self::serial).
    pub fn only(secret: [u8; 16], serial: u64) -> Self {
        let timers = ProxyTimers::default();
        let epoch = Duration::ZERO;
        Self { shard: 0, shards: 1, secret, serial, timers, epoch, call_limits: None, sent_calls: None }
    }
}

/// One shard, which takes one message and returns the messages to send. It forwards to each pool statelessly (RFC 3261
/// §16.11) or with a transaction for each request (§16), both with session-aware assignment of calls.
///
/// - Set-up: [`new`](Self::new); a later [`Setup`] is an input like any other.
/// - Operation: [`handle`](Self::handle), [`deadline`](Self::deadline).
/// - Reports: [`explain`](Self::explain), [`balancer`](Self::balancer), [`proxy_report`](Self::proxy_report),
///   [`counters`](Self::counters), [`ledger`](Self::ledger).
pub struct Shard {
    pub(crate) site: Site,
    pub(crate) balancer: Balancer,
    pub(crate) stateless: Stateless,
    pub(crate) pools: Pools,
    pub(crate) setup: Arc<Setup>,
    pub(crate) stateful: Box<Stateful>,
    /// The registrar, if there is one.
    pub(crate) registrar: Option<Box<Registrar>>,
    /// Secret of the registrar, which only this shard of this process has.
    pub(crate) registrar_secret: [u8; 16],
    /// Queues of new calls; `None` if no pool has one.
    pub(crate) queues: Option<Box<Queues>>,
    /// A random number, different in each shard of each process.
    pub(crate) salt: u64,
    /// Number of this shard, and the number of shards.
    pub(crate) place: (usize, usize),
}
