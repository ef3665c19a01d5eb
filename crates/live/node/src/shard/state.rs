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

/// The identity of a shard, fixed when it begins: its place among the shards of its process, its random values, and
/// what it shares with the other shards.
#[derive(Clone, Debug)]
pub struct ShardIdentity {
    /// Its number, from 0.
    pub shard: usize,
    /// How many shards the process has: what the set-up allows is shared out among them.
    pub shards: usize,
    /// A secret of this process and shard alone.
    pub secret: [u8; 16],
    /// The serial number of its first branch. Each shard, and each start of the process, has another one.
    pub serial: u64,
    /// Timers of transactions, and Timer C.
    pub timers: ProxyTimers,
    /// The Unix time of [`base::Instant::ZERO`].
    pub epoch: Duration,
    /// The calls of members with a limit, which all shards count together; `None` for the only shard.
    pub call_limits: Option<Arc<CallLimits>>,
    /// Counts of new calls by the node that they are sent to; `None` where nobody reads them.
    pub sent_calls: Option<Arc<SentCalls>>,
}

impl ShardIdentity {
    /// The only shard of a process, with this [`secret`](Self::secret) and [`serial`](Self::serial).
    pub fn only(secret: [u8; 16], serial: u64) -> Self {
        let timers = ProxyTimers::default();
        let epoch = Duration::ZERO;
        Self { shard: 0, shards: 1, secret, serial, timers, epoch, call_limits: None, sent_calls: None }
    }
}

/// One shard: messages in, messages out. Each pool is forwarded to statelessly (RFC 3261 §16.11) or with a transaction for each
/// request (§16), both with session-aware assignment of calls.
///
/// - Setting up: [`new`](Self::new); later another [`Setup`] is an input as any other.
/// - Running: [`handle`](Self::handle), [`deadline`](Self::deadline).
/// - Looking: [`explain`](Self::explain), [`balancer`](Self::balancer), [`proxy_report`](Self::proxy_report),
///   [`counters`](Self::counters), [`ledger`](Self::ledger).
pub struct Shard {
    pub(crate) site: Site,
    pub(crate) balancer: Balancer,
    pub(crate) stateless: Stateless,
    pub(crate) pools: Pools,
    /// The present set-up.
    pub(crate) setup: Arc<Setup>,
    pub(crate) stateful: Box<Stateful>,
    /// The registrar, if there is one.
    pub(crate) registrar: Option<Box<Registrar>>,
    /// The secret of these services, of this process and shard alone.
    pub(crate) registrar_secret: [u8; 16],
    /// The queues of new calls; `None` where no pool has one.
    pub(crate) queues: Option<Box<Queues>>,
    /// A random number, another one in each shard of each process.
    pub(crate) salt: u64,
    /// The number of this shard, and the number of shards.
    pub(crate) place: (usize, usize),
}
