//! A shard: what comes in goes to the way of forwarding that it belongs to.

use crate::edge::Edge;
use crate::event::ShardEvent;
use crate::explain::Explanation;
use crate::forward::stateful::{ProxySettings, Stateful};
use crate::forward::stateless::Stateless;
use crate::home::Home;
use crate::input::ShardInput;
use crate::path::Path;
use crate::pools::Pools;
use crate::queue::Queues;
use crate::setup::Setup;
use crate::step::Step;
use crate::token::{TokenKey, derive};
use ::proxy::ProxyTimers;
use balance::{Balancer, CallLimits, PolicyKind, SentCalls, Slot};
use base::{Flow, Instant, Outbox};
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
    /// The Unix time of [`Instant::ZERO`].
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
    pub(crate) edge: Edge,
    pub(crate) balancer: Balancer,
    pub(crate) stateless: Stateless,
    pub(crate) pools: Pools,
    /// The present set-up.
    pub(crate) setup: Arc<Setup>,
    pub(crate) stateful: Box<Stateful>,
    /// The services of the home domain, if there is one.
    pub(crate) home: Option<Box<Home>>,
    /// The secret of these services, of this process and shard alone.
    pub(crate) home_secret: [u8; 16],
    /// The queues of new calls; `None` where no pool has one.
    pub(crate) queues: Option<Box<Queues>>,
    /// A random number, another one in each shard of each process.
    pub(crate) salt: u64,
    /// The number of this shard, and the number of shards.
    pub(crate) place: (usize, usize),
}

impl Shard {
    /// A shard that has received nothing yet.
    pub fn new(identity: ShardIdentity, setup: &Arc<Setup>) -> Self {
        let ShardIdentity { shard, shards, secret, serial, timers, epoch, call_limits, sent_calls } =
            identity;
        let settings = &setup.settings;
        let mut balancer =
            Balancer::new(settings.sessions.clone().share(shards), PolicyKind::RoundRobin.make(0));
        balancer.set_peers(shards as u32 - 1);
        balancer.set_epoch(epoch);
        if let Some(call_limits) = call_limits {
            balancer.set_call_limits(call_limits);
        }
        if let Some(sent_calls) = sent_calls {
            balancer.set_sent_calls(sent_calls);
        }
        let proxy = ProxySettings { timers, limits: settings.limits.share(shards) };
        let [one, other] = derive(TokenKey(secret), b"home").map(u64::to_le_bytes);
        let home_secret = core::array::from_fn(|at| if at < 8 { one[at] } else { other[at - 8] });
        let tokens = settings.tokens.as_ref().clone();
        let mut new = Self {
            edge: Edge::new(Arc::clone(&setup.topology), tokens, setup.pipeline(), home_secret),
            balancer,
            stateless: Stateless::default(),
            pools: Pools::default(),
            setup: Arc::clone(setup),
            stateful: Box::new(Stateful::new(proxy, secret, serial)),
            home: None,
            home_secret,
            queues: None,
            salt: serial,
            place: (shard, shards),
        };
        new.take_over(None, setup);
        new
    }

    /// One bounded step; all its effects are in `out` when it returns.
    pub fn handle(&mut self, now: Instant, input: ShardInput<'_>, out: &mut Outbox<ShardEvent>) {
        self.edge.now = now;
        match input {
            ShardInput::Waited { waited, queue, class } => {
                return self.edge.gate.overload.waited(now, waited, queue, class);
            }
            ShardInput::Busy(busy) => return self.edge.gate.overload.busy(now, busy),
            _ => {}
        }
        self.stateful.limit_memory();
        // Whatever comes next: copies of what waits are to find it where it is then.
        if self.queues.as_ref().is_some_and(|queues| queues.is_stale()) {
            self.path(out).serve_queues();
        }
        match input {
            ShardInput::Message { flow, bytes } => self.path(out).message(flow, bytes),
            ShardInput::Timer => self.path(out).expire(),
            ShardInput::Unreachable { to, quoted } => self.path(out).unreachable(to, quoted),
            ShardInput::Answer { number, answer } => self.path(out).answered(number, *answer),
            ShardInput::Name { name, answer } => {
                self.edge.names.learn(now, name, answer);
                self.path(out).resolved(name);
            }
            ShardInput::Period { length, utilisation } => {
                if let Some(sharing) = &mut self.edge.sharing {
                    sharing.period(now, length, utilisation);
                }
            }
            ShardInput::Capacity { slot, capacity } => {
                if let (Some(queues), Some(node)) =
                    (&mut self.queues, self.balancer.nodes().get(slot.index()))
                {
                    queues.announce(now, slot, node.id, capacity);
                }
            }
            ShardInput::Learned { pool, node, capacity } => {
                if let Some(queues) = &mut self.queues {
                    queues.learn(now, pool, node, capacity);
                }
            }
            ShardInput::Judged(judgement) => {
                if let Some(home) = &mut self.home {
                    home.hear(*judgement);
                }
            }
            ShardInput::OtherLoads(loads) => {
                for (slot, &load) in (0..).map(Slot).zip(loads) {
                    self.balancer.set_others(slot, load);
                }
            }
            ShardInput::SetUp(setup) => self.set_up(setup),
            ShardInput::Waited { .. } | ShardInput::Busy(_) => {}
        }
        self.path(out).conclude();
    }

    /// A step of this shard.
    fn path<'a>(&'a mut self, out: &'a mut Outbox<ShardEvent>) -> Path<'a> {
        let Self { edge, balancer, stateless, pools, stateful, home, queues, .. } = self;
        Path {
            step: Step { edge, balancer, pools, queues: queues.as_deref_mut(), out },
            stateless,
            stateful: Some(&mut **stateful).filter(|stateful| stateful.is_in_use()),
            home: home.as_deref_mut(),
        }
    }

    /// The way that this request would take if it came by this flow now. Changes nothing. A host name that the
    /// request goes to may be looked up.
    ///
    /// # Errors
    /// The text says how the request would be refused or answered here, or why the bytes are no request.
    pub fn explain(
        &mut self,
        now: Instant,
        flow: Flow,
        bytes: &[u8],
        out: &mut Outbox<ShardEvent>,
    ) -> Result<Explanation, String> {
        self.edge.now = now;
        self.path(out).explain(flow, bytes)
    }

    /// Whether this response or ICMP error is about a transaction of a proxy, and not about one of this shard.
    pub fn is_stray(&self, bytes: &[u8]) -> bool {
        self.stateful.is_stray(bytes)
    }

    /// When [`ShardInput::Busy`] is due, if overload control asks for that.
    pub fn busy_deadline(&self) -> Option<Instant> {
        self.edge.gate.overload.deadline()
    }

    /// When [`ShardInput::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let stateful = self.stateful.deadline();
        let home = self.home.as_ref().and_then(|home| home.deadline());
        let queues = self.queues.as_ref().and_then(|queues| queues.deadline());
        let waiting = Instant::earliest(home, queues);
        Instant::earliest(Instant::earliest(self.balancer.deadline(), stateful), waiting)
    }
}
