//! A shard: what comes in goes to the way of forwarding that it belongs to.

use crate::edge::Edge;
use crate::failure::{Failure, Throttle};
use crate::forward::stateful::{DialogSettings, Lent, ProxyLimits, ProxyReport, ProxySettings, Stateful};
use crate::forward::{SearchLimits, Searches, Unacknowledged};
use crate::home::WrongPassword;
use crate::home::{Home, Question};
use crate::names::{HopName, Resolved};
use crate::queue::Queues;
use crate::refusals::Refusals;
use crate::routes::Routes;
use crate::setup::{PoolMode, Setup};
use crate::sharing::{Distribution, Sharing, SharingReport};
use crate::token::branch::is_hop_branch;
use crate::token::{TokenKey, Tokens, derive};
use crate::{Drop, ShardCounters, Topology};
use ::route::{Dialogs, Forward, RateSettings};
use balance::{Balancer, CallKey, Members, PolicyKind, PoolId, Request, Sign, Slot};
use base::{Flow, Instant, Ledger, Operation, Outbox, Recent};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Message;

/// Requests without a transaction whose next hop is remembered, in each of two generations: of 32 s (64*T1) at 2,000 a second.
const PASSED: usize = 65_536;

/// What a request of an unknown dialog gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Orphans {
    /// 481 Call/Transaction Does Not Exist.
    #[default]
    Reject,
    /// It is balanced like a new one.
    Balance,
    /// Nothing.
    Drop,
}

/// How the pipeline behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PipelineSettings {
    /// What a request of an unknown dialog gets.
    pub orphans: Orphans,
    /// Unix time of [`Instant::ZERO`], in seconds: tokens outlive the process.
    pub epoch_unix: u64,
    /// New calls are refused with 503: the process is about to stop, by then at the latest.
    pub stopping: Option<Instant>,
    /// Whether requests that failed are told of one by one ([`ShardEvent::Failed`]), which costs memory for each.
    pub tell_failures: bool,
}

impl PipelineSettings {
    /// Unix time in seconds; it fits 32 bits until 2106.
    pub(crate) fn unix(&self, now: Instant) -> u32 {
        let seconds = self.epoch_unix + now.saturating_since(Instant::ZERO).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

/// Something that happened to a shard.
#[derive(Clone, Copy, Debug)]
pub enum ShardInput<'a> {
    /// A message came in.
    Message {
        /// What it came by.
        flow: Flow,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Time has passed: [`Shard::deadline`].
    Timer,
    /// A period is over, about once a second; only where the state of calls is shared out ([`Shard::shares_state`]).
    Period {
        /// How long it was.
        length: Duration,
        /// For which part of it the process has kept the processors busy that it may use, from 0 to 1.
        utilisation: f64,
    },
}

/// What a shard asks for besides messages to send.
#[derive(Clone, PartialEq, Debug)]
pub enum ShardEvent {
    /// What the traffic says about a node.
    Sign(Sign),
    /// The address of this name; the answer goes to `learn`.
    LookUp(HopName),
    /// A question to a store; the answer goes to [`Shard::answered`].
    Ask(Box<Question>),
    /// To be written before anything leaves that was sent in the same step: what acknowledges the end of the call is among it.
    Record(Box<dialog::CallRecord>),
    /// A request failed; only where [`PipelineSettings::tell_failures`] says so.
    Failed(Box<Failure>),
    /// A log-in failed.
    WrongPassword(Box<WrongPassword>),
    /// To be told to the other shards of the process ([`Shard::hear`]).
    Judged(Box<digest_auth::Judgement>),
    /// This node has answered an INVITE that begins a dialog without its Record-Route; told once.
    NoRecordRoute(SocketAddr),
    /// A REGISTER for a contact elsewhere came through this proxy without Path, and calls go back to the proxy; told once.
    NoPath(SocketAddr),
    /// No node took new calls: so many were refused since the last time that this was told, at most once a second.
    NoServer(u64),
    /// The session table had no room: so many new calls were refused since the last time, at most once a second.
    NoRoom(u64),
}

/// One shard: messages in, messages out. Each pool is forwarded to statelessly (RFC 3261 §16.11) or with a transaction for each
/// request (§16), both with session-aware assignment of calls.
///
/// - Setting up: [`pool`](Self::pool), [`proxy`](Self::proxy), [`with_transactions`](Self::with_transactions),
///   [`set_up`](Self::set_up), or one by one: [`set_topology`](Self::set_topology), [`balancer_mut`](Self::balancer_mut),
///   [`set_modes`](Self::set_modes), [`set_routes`](Self::set_routes), [`set_rates`](Self::set_rates),
///   [`set_settings`](Self::set_settings), [`set_limits`](Self::set_limits), [`set_tokens`](Self::set_tokens),
///   [`set_distribution`](Self::set_distribution), [`set_dialogs`](Self::set_dialogs).
/// - Running: [`handle`](Self::handle), [`unreachable`](Self::unreachable), [`learn`](Self::learn),
///   [`answered`](Self::answered), [`deadline`](Self::deadline).
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
    modes: Vec<PoolMode>,
    /// The pool of what no rule and no dialog is for; the only one where there are no rules.
    pub(crate) first_pool: PoolId,
    /// The nodes that are in no pool to whose members dialogs belong: what they send is as anybody's.
    hops: Members,
    /// The pool that the dialogs with a node belong to, by its slot.
    pools_of_dialogs: Vec<PoolId>,
    /// What it was set up with last.
    pub(crate) setup: Option<Arc<Setup>>,
    pub(crate) stateful: Option<Box<Stateful>>,
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
    salt: u64,
}

impl Shard {
    /// A shard in front of a pool; the balancer must have as many nodes as the topology.
    pub fn pool(
        balancer: Balancer,
        topology: Arc<Topology>,
        tokens: Tokens,
        settings: PipelineSettings,
    ) -> Self {
        Self {
            edge: Edge::new(topology, tokens, settings),
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
            setup: None,
            stateful: None,
            passed_to: Recent::new(PASSED),
            home: None,
            home_secret: [0; 16],
            queues: None,
            salt: 0,
        }
    }

    /// A shard in front of next hops, of which there are none yet: a pool with transactions. The two random values are of this
    /// process and shard alone: a secret, and the number that its branches begin at.
    pub fn proxy(
        topology: Arc<Topology>,
        tokens: Tokens,
        settings: PipelineSettings,
        proxy: ProxySettings,
        random: ([u8; 16], u64),
    ) -> Self {
        let hops = Balancer::new(balance::SessionSettings::default(), PolicyKind::Hash.make(0));
        let mut shard = Self::pool(hops, topology, tokens, settings).with_transactions(proxy, random);
        shard.set_modes(vec![PoolMode::HOPS], Members::All);
        shard
    }

    /// The same shard, which can forward with transactions as well.
    #[must_use]
    pub fn with_transactions(mut self, proxy: ProxySettings, random: ([u8; 16], u64)) -> Self {
        let [one, other] = derive(TokenKey(random.0), b"home").map(u64::to_le_bytes);
        self.home_secret = core::array::from_fn(|at| if at < 8 { one[at] } else { other[at - 8] });
        let mut stateful = Stateful::new(proxy, random);
        stateful.set_members(self.edge.topology.nodes());
        self.stateful = Some(Box::new(stateful));
        self.salt = random.1;
        self
    }

    /// One bounded step; all its effects are in `out` when it returns.
    pub fn handle(&mut self, now: Instant, input: ShardInput<'_>, out: &mut Outbox<ShardEvent>) {
        self.set_now(now);
        if self.queues.as_ref().is_some_and(|queues| queues.is_stale()) {
            self.serve_queues(out);
        }
        match input {
            ShardInput::Message { flow, bytes } => self.message(flow, bytes, out),
            ShardInput::Period { length, utilisation } => {
                if let Some(sharing) = &mut self.edge.sharing {
                    sharing.period(now, length, utilisation);
                }
            }
            ShardInput::Timer => {
                // Transactions first: what they find unanswered they can try elsewhere.
                if let Some((stateful, mut lent)) = self.transactions(out) {
                    stateful.expire(&mut lent);
                }
                self.expire_waiting(out);
                for _ in 0..self.balancer.expire(now) {
                    self.edge.ledger.charge(Operation::Expire);
                }
            }
        }
        self.conclude(out);
    }

    /// Does what a step has made possible, and tells what it has found out.
    pub(crate) fn conclude(&mut self, out: &mut Outbox<ShardEvent>) {
        self.serve_queues(out);
        for sign in self.balancer.drain_signs() {
            out.event(ShardEvent::Sign(sign));
        }
        if let Some(stateful) = &mut self.stateful {
            stateful.tell(out);
        }
        if let Some((stateful, mut lent)) = self.transactions(out) {
            stateful.tell_calls(&mut lent);
        }
    }

    pub(crate) fn set_now(&mut self, now: Instant) {
        self.edge.now = now;
        if let Some(stateful) = &mut self.stateful {
            stateful.limit_memory();
        }
    }

    /// The transactions, if there may be any, and what they work with.
    pub(crate) fn transactions<'a>(
        &'a mut self,
        out: &'a mut Outbox<ShardEvent>,
    ) -> Option<(&'a mut Stateful, Lent<'a>)> {
        let Self { edge, balancer, stateful, queues, .. } = self;
        let stateful = stateful.as_deref_mut().filter(|stateful| stateful.is_in_use())?;
        Some((stateful, Lent { edge, balancer, queues: queues.as_deref_mut(), out }))
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

    /// How the pools are forwarded to, by their number.
    pub(crate) fn modes(&self) -> &[PoolMode] {
        &self.modes
    }

    /// How a pool is forwarded to.
    pub(crate) fn mode(&self, pool: PoolId) -> PoolMode {
        self.modes.get(pool.index()).copied().unwrap_or_default()
    }

    /// The member at an address, unless that is a next hop only: it may be anybody's, and is a caller as any other.
    pub(crate) fn member_at(&self, address: SocketAddr) -> Option<Slot> {
        let slot = self.edge.topology.slot_at(address)?;
        (!self.has_hops() || !self.hops.has(slot)).then_some(slot)
    }

    fn has_hops(&self) -> bool {
        self.modes.iter().any(|mode| mode.dialogs == Dialogs::Route)
    }

    /// ICMP says that a datagram to this address, which began with `quoted`, did not arrive (RFC 3261 §16.9).
    pub fn unreachable(&mut self, now: Instant, to: SocketAddr, quoted: &[u8], out: &mut Outbox<ShardEvent>) {
        self.set_now(now);
        if let Some(queues) = &mut self.queues {
            queues.gone(to, quoted);
        }
        if let Some((stateful, mut lent)) = self.transactions(out) {
            stateful.unreachable(&mut lent, to, quoted);
        }
        self.conclude(out);
    }

    /// Whether it forwards with transactions and has none that this answers, or says of that it did not arrive.
    pub fn is_stray(&self, bytes: &[u8]) -> bool {
        self.stateful.as_ref().is_some_and(|stateful| stateful.is_stray(bytes))
    }

    /// Takes the answer to [`ShardEvent::LookUp`].
    pub fn learn(&mut self, now: Instant, name: &HopName, answer: &Resolved) {
        self.edge.names.learn(now, name, answer);
    }

    /// When [`ShardInput::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let stateful = self.stateful.as_ref().and_then(|stateful| stateful.deadline());
        let home = self.home.as_ref().and_then(|home| home.deadline());
        let queues = self.queues.as_ref().and_then(|queues| queues.deadline());
        let waiting = Instant::earliest(home, queues);
        Instant::earliest(Instant::earliest(self.balancer.deadline(), stateful), waiting)
    }

    /// Takes over addresses; the balancer must be given the nodes of the same moment.
    pub fn set_topology(&mut self, topology: Arc<Topology>) {
        self.edge.topology = topology;
        if let Some(stateful) = &mut self.stateful {
            stateful.set_members(self.edge.topology.nodes());
        }
    }

    /// Changes how pools are forwarded to, after pools and nodes; `hops` are the nodes that are in no pool to whose members
    /// dialogs belong.
    pub fn set_modes(&mut self, modes: Vec<PoolMode>, hops: Members) {
        if let Some(stateful) = &mut self.stateful {
            let has_pool = modes.iter().any(|mode| mode.forward != Forward::Stateless || mode.is_by_route());
            let of_hops = || (0..).map(PoolId).zip(&modes).filter(|(_, mode)| mode.dialogs == Dialogs::Route);
            let named = of_hops().flat_map(|(pool, _)| self.balancer.members(pool));
            // Those that left may have calls.
            let counted = of_hops().filter(|(_, mode)| !mode.is_sessionless);
            let counted = counted.flat_map(|(pool, _)| self.balancer.nodes_of(pool));
            stateful.set_pools(has_pool, Members::of(named), Members::of(counted));
        }
        self.remember_refusals();
        (self.modes, self.hops) = (modes, hops);
        self.pools_of_dialogs =
            (0..self.balancer.nodes().len()).map(|slot| self.pool_of_dialogs(Slot(slot as u16))).collect();
    }

    /// The pool to whose members the dialogs belong that are with a node: of several one whose calls are remembered.
    fn pool_of_dialogs(&self, slot: Slot) -> PoolId {
        let with_it = |(pool, _): &(PoolId, &PoolMode)| self.balancer.nodes_of(*pool).any(|of| of == slot);
        let fits = |(_, mode): &(PoolId, &PoolMode)| (mode.dialogs == Dialogs::Route, mode.is_sessionless);
        let best = (0..).map(PoolId).zip(&self.modes).filter(with_it).min_by_key(fits);
        best.map_or(self.first_pool, |(pool, _)| pool)
    }

    /// The pool that the dialogs with a node belong to.
    pub(crate) fn pool_of(&self, slot: Slot) -> PoolId {
        self.pools_of_dialogs.get(slot.index()).copied().unwrap_or(self.first_pool)
    }

    /// From when on requests are forwarded with transactions, copies of INVITEs that were refused are, too.
    pub(crate) fn remember_refusals(&mut self) {
        if self.has_transactions() {
            let secret = self.home_secret;
            self.edge.refusals.get_or_insert_with(|| Box::new(Refusals::new(secret)));
        }
    }

    /// Changes the behaviour.
    pub fn set_settings(&mut self, settings: PipelineSettings) {
        self.edge.settings = settings;
    }

    /// Changes the routes and access lists, of one of so many shards.
    pub fn set_routes(&mut self, routes: Arc<Routes>, shards: usize) {
        if let Some(stateful) = &mut self.stateful {
            stateful.set_routes(&routes, shards);
        }
        self.edge.routes = routes;
    }

    /// Changes how much each source may begin, at this shard.
    pub fn set_rates(&mut self, rates: RateSettings) {
        self.edge.rates.configure(rates);
    }

    /// Changes how calls are kept whose dialogs are, at one of so many shards. Those that go on are kept on.
    pub fn set_dialogs(&mut self, settings: &DialogSettings, shards: usize) {
        if let Some(stateful) = &mut self.stateful {
            stateful.set_dialogs(settings, shards);
        }
    }

    /// Changes with whom the state of calls is shared out, if with anybody, at one of so many shards.
    pub fn set_distribution(&mut self, distribution: Option<&Distribution>, shards: usize) {
        let (salt, report) = (self.salt, self.sharing_report().unwrap_or_default());
        let sharing = |distribution| Box::new(Sharing::new(distribution, shards, salt, report));
        self.edge.sharing = distribution.map(sharing);
    }

    /// Whether the state of calls is shared out, so that it has to hear of each period.
    pub fn shares_state(&self) -> bool {
        self.edge.sharing.is_some()
    }

    fn sharing_report(&self) -> Option<SharingReport> {
        self.edge.sharing.as_ref().map(|sharing| sharing.report())
    }

    /// Changes how much the transactions may hold.
    pub fn set_limits(&mut self, limits: ProxyLimits) {
        if let Some(stateful) = &mut self.stateful {
            stateful.set_limits(limits);
        }
    }

    /// Changes the secrets of new tokens. The calls in the table keep the branches that they began with: a CANCEL
    /// or a retransmission has to match what its node knows (RFC 3261 §16.11).
    pub fn set_tokens(&mut self, tokens: &Tokens) {
        if !self.edge.tokens.same_key(tokens) {
            self.edge.rekeyed = Some(self.edge.now);
        }
        self.edge.tokens = self.edge.tokens.rekeyed(tokens);
    }

    pub(crate) fn is_older_than_key(&self, request: &Request<'_>) -> bool {
        // One that is not in the table yet begins now.
        let created = || self.balancer.session_of(request).map_or(self.edge.now, |session| session.created);
        self.edge.rekeyed.is_some_and(|rekeyed| created() <= rekeyed)
    }

    /// The addresses in use.
    pub fn topology(&self) -> &Topology {
        &self.edge.topology
    }

    /// How the pipeline behaves.
    pub fn settings(&self) -> PipelineSettings {
        self.edge.settings
    }

    /// The tokens in use.
    pub fn tokens(&self) -> &Tokens {
        &self.edge.tokens
    }

    /// Sessions, leases and the policy.
    pub fn balancer(&self) -> &Balancer {
        &self.balancer
    }

    /// Sessions, leases and the policy, to be set up.
    pub fn balancer_mut(&mut self) -> &mut Balancer {
        &mut self.balancer
    }

    /// What was done so far.
    pub fn counters(&self) -> ShardCounters {
        let mut counters = self.edge.counters.clone();
        counters.requests_forwarded += self.edge.passed.requests;
        counters.responses_forwarded += self.edge.passed.responses;
        if let Some(stateful) = &self.stateful {
            let core = stateful.counters();
            counters.requests_forwarded += core.forwarded + core.retried + core.stateless;
            counters.responses_forwarded += core.relayed;
            if core.stray > 0 {
                *counters.drops.entry(Drop::ForeignResponse.reason()).or_default() += core.stray;
            }
        }
        counters
    }

    /// What it cost so far.
    pub fn ledger(&self) -> Ledger {
        let stateful = self.stateful.as_ref().map(|stateful| stateful.ledger());
        self.edge.ledger + stateful.unwrap_or_default()
    }

    /// What is kept of transactions, if a pool is forwarded to with them, or has next hops.
    pub fn proxy_report(&self) -> Option<ProxyReport> {
        let stateful = self.stateful.as_ref().filter(|stateful| stateful.is_in_use())?;
        let mut report = ProxyReport { sharing: self.sharing_report(), ..stateful.report() };
        report.counters.stateless += self.edge.passed.requests;
        report.counters.relayed += self.edge.passed.responses;
        Some(report)
    }

    /// Transactions without a final response. Of those that are kept and counted for a member as well, both know.
    pub fn open_transactions(&self) -> usize {
        let (noted, kept) =
            (self.balancer.open_transactions(), self.stateful.as_ref().map_or(0, |kept| kept.unanswered()));
        let are_both = self.modes.iter().any(|mode| mode.forward.has_transactions() && !mode.is_sessionless);
        let at_home = self.home.as_ref().map_or(0, |home| home.waiting().requests().len());
        let waiting = at_home + self.queues.as_ref().map_or(0, |queues| queues.waiting().count());
        waiting + if are_both { noted.max(kept) } else { noted + kept }
    }

    /// The calls and transactions that are kept here, some more than once.
    pub fn calls(&self, mut visit: impl FnMut(CallKey)) {
        self.balancer.sessions(0, usize::MAX, |session| visit(session.key));
        let at_home = self.home.iter().flat_map(|home| home.waiting().requests());
        for request in at_home.chain(self.queues.iter().flat_map(|queues| queues.waiting())) {
            visit(self.edge.tokens.call_key(wire::peek_call_id(request).unwrap_or_default()));
        }
        if let Some(stateful) = &self.stateful {
            stateful.calls(&self.edge).for_each(visit);
        }
    }

    /// Whether it keeps transactions, which are to hear of datagrams that did not arrive ([`Self::unreachable`]).
    pub fn has_transactions(&self) -> bool {
        self.stateful.as_ref().is_some_and(|stateful| stateful.is_in_use())
    }
}
