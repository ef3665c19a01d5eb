//! A shard: what comes in goes to the way of forwarding that it belongs to.

use crate::edge::Edge;
use crate::failure::Throttle;
use crate::forward::stateful::{Lent, ProxySettings, Stateful};
use crate::forward::{SearchLimits, Searches, Unacknowledged};
use crate::home::Home;
use crate::input::{ShardEvent, ShardInput};
use crate::queue::Queues;
use crate::setup::{PoolMode, Setup};
use crate::token::branch::is_hop_branch;
use crate::token::{TokenKey, derive};
use ::proxy::ProxyTimers;
use ::route::Dialogs;
use balance::{Balancer, CallLimits, Members, PolicyKind, PoolId, Request, SentCalls, Slot};
use base::{Flow, Instant, Operation, Outbox, Recent};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Message;

/// Requests without a transaction whose next hop is remembered, in each of two generations: of 32 s (64*T1) at 2,000 a second.
const PASSED: usize = 65_536;

/// What a shard is given once, when it begins: its place among the shards of its process, what that process has drawn at random
/// for it, and what it shares with the others.
#[derive(Clone, Debug)]
pub struct ShardIdentity {
    /// Its number, from 0.
    pub shard: usize,
    /// How many shards the process has: what the set-up allows is shared out among them.
    pub shards: usize,
    /// A secret of this process and shard alone.
    pub secret: [u8; 16],
    /// The number that its branches begin at, another one after each start and in each shard.
    pub serial: u64,
    /// Timers of transactions, and Timer C.
    pub timers: ProxyTimers,
    /// The calls of members with a limit, which all shards count together; `None` for the only shard.
    pub call_limits: Option<Arc<CallLimits>>,
    /// Where new calls are counted by the node that they are sent to, if anybody wants to know.
    pub sent_calls: Option<Arc<SentCalls>>,
}

impl ShardIdentity {
    /// The only shard of a process that has drawn these two: [`secret`](Self::secret) and [`serial`](Self::serial).
    pub fn only(secret: [u8; 16], serial: u64) -> Self {
        let timers = ProxyTimers::default();
        Self { shard: 0, shards: 1, secret, serial, timers, call_limits: None, sent_calls: None }
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
    pub(crate) searches: Searches,
    pub(crate) search_limits: SearchLimits,
    pub(crate) unacknowledged: Unacknowledged,
    pub(crate) no_server: Throttle,
    pub(crate) no_room: Throttle,
    /// How each pool is forwarded to, by its number; beyond the end without transactions.
    pub(crate) modes: Vec<PoolMode>,
    /// The pool of what no rule and no dialog is for; the only one where there are no rules.
    pub(crate) first_pool: PoolId,
    /// Next hops: nodes of no pool to whose members dialogs belong. A request from one is handled like one from any caller.
    pub(crate) hops: Members,
    /// The pool that the dialogs with a node belong to, by its slot.
    pub(crate) pools_of_dialogs: Vec<PoolId>,
    /// What it was set up with last.
    pub(crate) setup: Arc<Setup>,
    pub(crate) stateful: Box<Stateful>,
    /// To which next hop requests went without a transaction lately: their copies, CANCEL and ACK follow, whatever has become
    /// of the hop (RFC 3261 §16.11). And when the first copy did.
    pub(crate) passed_to: Recent<u64, (Slot, Instant)>,
    /// The services of the home domain, if there is one.
    pub(crate) home: Option<Box<Home>>,
    /// The secret of those, of this process and shard alone.
    pub(crate) home_secret: [u8; 16],
    /// Where new calls wait for members with room, if a pool has such a queue.
    pub(crate) queues: Option<Box<Queues>>,
    /// Another one in each shard of each process.
    pub(crate) salt: u64,
    /// Its number, and of how many.
    pub(crate) place: (usize, usize),
}

impl Shard {
    /// A shard that nothing has come to yet.
    pub fn new(identity: ShardIdentity, setup: &Arc<Setup>) -> Self {
        let ShardIdentity { shard, shards, secret, serial, timers, call_limits, sent_calls } = identity;
        let settings = &setup.settings;
        let mut balancer =
            Balancer::new(settings.sessions.clone().share(shards), PolicyKind::RoundRobin.make(0));
        balancer.set_peers(shards as u32 - 1);
        if let Some(call_limits) = call_limits {
            balancer.set_call_limits(call_limits);
        }
        if let Some(sent_calls) = sent_calls {
            balancer.set_sent_calls(sent_calls);
        }
        let proxy = ProxySettings { timers, limits: settings.limits.share(shards) };
        let [one, other] = derive(TokenKey(secret), b"home").map(u64::to_le_bytes);
        let tokens = settings.tokens.as_ref().clone();
        let mut new = Self {
            edge: Edge::new(Arc::clone(&setup.topology), tokens, setup.pipeline()),
            balancer,
            searches: Searches::default(),
            search_limits: SearchLimits::default(),
            unacknowledged: Unacknowledged::default(),
            no_server: Throttle::default(),
            no_room: Throttle::default(),
            modes: Vec::new(),
            first_pool: PoolId::default(),
            hops: Members::default(),
            pools_of_dialogs: Vec::new(),
            setup: Arc::clone(setup),
            stateful: Box::new(Stateful::new(proxy, (secret, serial))),
            passed_to: Recent::new(PASSED),
            home: None,
            home_secret: core::array::from_fn(|at| if at < 8 { one[at] } else { other[at - 8] }),
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
        self.stateful.limit_memory();
        if self.queues.as_ref().is_some_and(|queues| queues.is_stale()) {
            self.serve_queues(out);
        }
        match input {
            ShardInput::Message { flow, bytes } => self.message(flow, bytes, out),
            ShardInput::Timer => self.expire(out),
            ShardInput::Period { length, utilisation } => {
                if let Some(sharing) = &mut self.edge.sharing {
                    sharing.period(now, length, utilisation);
                }
            }
            ShardInput::Unreachable { to, quoted } => self.unreachable(to, quoted, out),
            ShardInput::Name { name, answer } => self.edge.names.learn(now, name, answer),
            ShardInput::Answer { number, answer } => self.answered(number, *answer, out),
            ShardInput::Capacity { slot, capacity } => self.announce(slot, capacity),
            ShardInput::Learned { pool, node, capacity } => self.learned(pool, node, capacity),
            ShardInput::Judged(judgement) => self.hear(*judgement),
            ShardInput::OtherLoads(loads) => {
                for (slot, &load) in (0..).map(Slot).zip(loads) {
                    self.balancer.set_others(slot, load);
                }
            }
            ShardInput::SetUp(setup) => self.set_up(setup),
        }
        self.conclude(out);
    }

    /// Time has passed.
    fn expire(&mut self, out: &mut Outbox<ShardEvent>) {
        // Transactions first: what they find unanswered they can try elsewhere.
        if let Some((stateful, mut lent)) = self.transactions(out) {
            stateful.expire(&mut lent);
        }
        self.expire_waiting(out);
        for _ in 0..self.balancer.expire(self.edge.now) {
            self.edge.ledger.charge(Operation::Expire);
        }
    }

    /// Does what a step has made possible, and tells what it has found out.
    fn conclude(&mut self, out: &mut Outbox<ShardEvent>) {
        self.serve_queues(out);
        for sign in self.balancer.drain_signs() {
            out.event(ShardEvent::Sign(sign));
        }
        self.stateful.tell(out);
        if let Some((stateful, mut lent)) = self.transactions(out) {
            stateful.tell_calls(&mut lent);
        }
    }

    /// The transactions, if there may be any, and what they work with.
    pub(crate) fn transactions<'a>(
        &'a mut self,
        out: &'a mut Outbox<ShardEvent>,
    ) -> Option<(&'a mut Stateful, Lent<'a>)> {
        let Self { edge, balancer, stateful, queues, .. } = self;
        Some(stateful)
            .filter(|stateful| stateful.is_in_use())
            .map(|stateful| (&mut **stateful, Lent { edge, balancer, queues: queues.as_deref_mut(), out }))
    }

    fn message(&mut self, flow: Flow, bytes: &[u8], out: &mut Outbox<ShardEvent>) {
        self.search_limits.heard(self.edge.now);
        let message = self.edge.read(bytes);
        if let Some(message) = &message
            && !self.is_of_transactions(flow, message, out)
        {
            let branch = message.top_via().branch.filter(|_| message.status().is_some());
            if branch.is_some_and(is_hop_branch) {
                self.relay(flow, message, out);
            } else if message.status().is_some() {
                self.response(flow, message, out);
            } else {
                self.request(flow, message, out);
            }
        }
        self.edge.tell(flow, message.as_ref(), out);
    }

    /// Whether a message belongs to a transaction, or to a dialog that began with one and is not its member's alone. If so it
    /// has been dealt with.
    fn is_of_transactions(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox<ShardEvent>,
    ) -> bool {
        let Some((stateful, mut lent)) = self.transactions(out) else { return false };
        if stateful.takes(&mut lent, flow, message) {
            return true;
        }
        if message.status().is_some() || message.fault().is_some() {
            return false;
        }
        if let Some(refusal) = lent.edge.refusals.as_ref().and_then(|refusals| refusals.of(message)) {
            lent.edge.halt(flow, message, refusal.into(), lent.out);
            return true;
        }
        stateful.within(&mut lent, flow, message).unwrap_or_else(|halt| {
            lent.edge.halt(flow, message, halt, lent.out);
            true
        })
    }

    /// How a pool is forwarded to.
    pub(crate) fn mode(&self, pool: PoolId) -> PoolMode {
        self.modes.get(pool.index()).copied().unwrap_or_default()
    }

    /// The pool that the dialogs with a node belong to.
    pub(crate) fn pool_of(&self, slot: Slot) -> PoolId {
        self.pools_of_dialogs.get(slot.index()).copied().unwrap_or(self.first_pool)
    }

    /// The member at an address, unless that is a next hop only: it may be anybody's, and is a caller as any other.
    pub(crate) fn member_at(&self, address: SocketAddr) -> Option<Slot> {
        let slot = self.edge.topology.slot_at(address)?;
        (!self.has_hops() || !self.hops.has(slot)).then_some(slot)
    }

    fn has_hops(&self) -> bool {
        self.modes.iter().any(|mode| mode.dialogs == Dialogs::Route)
    }

    /// A datagram to this address, which began with `quoted`, did not arrive.
    fn unreachable(&mut self, to: SocketAddr, quoted: &[u8], out: &mut Outbox<ShardEvent>) {
        if let Some(queues) = &mut self.queues {
            queues.gone(to, quoted);
        }
        if let Some((stateful, mut lent)) = self.transactions(out) {
            stateful.unreachable(&mut lent, to, quoted);
        }
    }

    /// Whether it forwards with transactions and has none that this answers, or says of that it did not arrive.
    pub fn is_stray(&self, bytes: &[u8]) -> bool {
        self.stateful.is_stray(bytes)
    }

    /// When [`ShardInput::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let stateful = self.stateful.deadline();
        let home = self.home.as_ref().and_then(|home| home.deadline());
        let queues = self.queues.as_ref().and_then(|queues| queues.deadline());
        let waiting = Instant::earliest(home, queues);
        Instant::earliest(Instant::earliest(self.balancer.deadline(), stateful), waiting)
    }

    pub(crate) fn is_older_than_key(&self, request: &Request<'_>) -> bool {
        // One that is not in the table yet begins now.
        let created = || self.balancer.session_of(request).map_or(self.edge.now, |session| session.created);
        self.edge.rekeyed.is_some_and(|rekeyed| created() <= rekeyed)
    }
}
