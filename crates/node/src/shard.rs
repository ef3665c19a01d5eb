use crate::failure::{Cause, Failure, Throttle};
use crate::names::{Name, Names, Resolved};
use crate::proxy::HopFailure;
use crate::removed::Unacknowledged;
use crate::search::{SearchLimits, Searches};
use crate::targets::Targets;
use crate::token::Tokens;
use crate::validate::{ADDED, LARGEST};
use crate::{Counters, Drop, Topology};
use balance::{Balancer, Request, Sign};
use base::{Flow, Instant, Ledger, Operation, Outbox};
use std::sync::Arc;
use wire::{Edits, Message};

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
pub struct Settings {
    /// What a request of an unknown dialog gets.
    pub orphans: Orphans,
    /// Unix time of [`Instant::ZERO`], in seconds: tokens outlive the process.
    pub epoch_unix: u64,
    /// New calls are refused with 503: the process is about to stop, by then at the latest.
    pub stopping: Option<Instant>,
    /// Whether requests that failed are told of one by one ([`Event::Failed`]), which costs memory for each.
    pub tell_failures: bool,
}

impl Settings {
    /// Unix time in seconds; it fits 32 bits until 2106.
    pub(crate) fn unix(&self, now: Instant) -> u32 {
        let seconds = self.epoch_unix + now.saturating_since(Instant::ZERO).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

/// Something that happened to a shard.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A message came in.
    Message {
        /// What it came by.
        flow: Flow,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Time has passed: [`Shard::deadline`].
    Timer,
}

/// What a shard asks for besides messages to send.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// What the traffic says about a node.
    Sign(Sign),
    /// The address of this name; the answer goes to `learn`.
    LookUp(Name),
    /// A request failed; only where [`Settings::tell_failures`] says so.
    Failed(Box<Failure>),
    /// No node took new calls: so many were refused since the last time that this was told, at most once a second.
    NoServer(u64),
    /// The session table had no room: so many new calls were refused since the last time, at most once a second.
    NoRoom(u64),
    /// A next hop has failed: the other shards are to know of it.
    HopFailed(HopFailure),
}

/// One shard of the balancer: the stateless proxy of RFC 3261 §16.11 with session-aware request assignment on top.
///
/// - Setting up: [`new`](Self::new), [`set_topology`](Self::set_topology), [`balancer_mut`](Self::balancer_mut),
///   [`set_settings`](Self::set_settings), [`set_tokens`](Self::set_tokens).
/// - Running: [`handle`](Self::handle), [`learn`](Self::learn), [`deadline`](Self::deadline).
/// - Looking: [`explain`](Self::explain), [`balancer`](Self::balancer), [`counters`](Self::counters),
///   [`ledger`](Self::ledger).
pub struct Shard {
    pub(crate) balancer: Balancer,
    pub(crate) topology: Arc<Topology>,
    pub(crate) tokens: Tokens,
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
    pub(crate) ledger: Ledger,
    pub(crate) names: Names,
    pub(crate) searches: Searches,
    pub(crate) search_limits: SearchLimits,
    pub(crate) targets: Targets,
    pub(crate) unacknowledged: Unacknowledged,
    pub(crate) edits: Edits,
    /// Texts of the headers being added, kept for their memory.
    pub(crate) scratch: Vec<u8>,
    /// The time of the last input.
    latest: Instant,
    /// When the key of new tokens changed, if it did.
    rekeyed: Option<Instant>,
    /// What the message in work failed of.
    pub(crate) failure: Option<Cause>,
    pub(crate) no_server: Throttle,
    pub(crate) no_room: Throttle,
}

impl Shard {
    /// A shard; the balancer must have as many nodes as the topology.
    pub fn new(balancer: Balancer, topology: Arc<Topology>, tokens: Tokens, settings: Settings) -> Self {
        Self {
            balancer,
            topology,
            tokens,
            settings,
            counters: Counters::default(),
            ledger: Ledger::default(),
            names: Names::default(),
            searches: Searches::default(),
            search_limits: SearchLimits::default(),
            targets: Targets::default(),
            unacknowledged: Unacknowledged::default(),
            edits: Edits::new(),
            scratch: Vec::new(),
            latest: Instant::ZERO,
            rekeyed: None,
            failure: None,
            no_server: Throttle::default(),
            no_room: Throttle::default(),
        }
    }

    /// One bounded step; all its effects are in `out` when it returns.
    pub fn handle(&mut self, now: Instant, input: Input<'_>, out: &mut Outbox<Event>) {
        self.latest = now;
        match input {
            Input::Message { flow, bytes } => {
                self.search_limits.heard(now);
                self.message(now, flow, bytes, out);
            }
            Input::Timer => {
                for _ in 0..self.balancer.expire(now) {
                    self.ledger.charge(Operation::Expire);
                }
            }
        }
        for sign in self.balancer.drain_signs() {
            out.event(Event::Sign(sign));
        }
    }

    fn message(&mut self, now: Instant, flow: Flow, bytes: &[u8], out: &mut Outbox<Event>) {
        self.ledger.charge(Operation::Scan);
        let scanned = wire::scan(bytes);
        match &scanned {
            Err(discard) => self.discard(Drop::Unreadable(*discard)),
            Ok(message) if message.status().is_some() => self.response(now, flow, message, out),
            Ok(message) => self.request(now, flow, message, out),
        }
        if let Some(cause) = self.failure.take() {
            out.event(Event::Failed(Box::new(Failure::new(scanned.as_ref().ok(), flow.peer, cause))));
        }
    }

    /// Takes the answer to [`Event::LookUp`].
    pub fn learn(&mut self, now: Instant, name: &Name, answer: &Resolved) {
        self.names.learn(now, name, answer);
    }

    /// When [`Input::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.balancer.deadline()
    }

    /// Takes over addresses; the balancer must be given the nodes of the same moment.
    pub fn set_topology(&mut self, topology: Arc<Topology>) {
        self.topology = topology;
    }

    /// Changes the behaviour.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Changes the secrets of new tokens. The calls in the table keep the branches that they began with: a CANCEL
    /// or a retransmission has to match what its node knows (RFC 3261 §16.11).
    pub fn set_tokens(&mut self, tokens: &Tokens) {
        if !self.tokens.same_key(tokens) {
            self.rekeyed = Some(self.latest);
        }
        self.tokens = self.tokens.rekeyed(tokens);
    }

    pub(crate) fn is_older_than_key(&self, request: &Request<'_>) -> bool {
        // One that is not in the table yet begins now.
        let created = || self.balancer.session_of(request).map_or(self.latest, |session| session.created);
        self.rekeyed.is_some_and(|rekeyed| created() <= rekeyed)
    }

    /// The addresses in use.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How the pipeline behaves.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The tokens in use.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
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
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What it cost so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// As [`Settings::unix`].
    pub(crate) fn unix(&self, now: Instant) -> u32 {
        self.settings.unix(now)
    }

    pub(crate) fn discard(&mut self, drop: Drop) {
        self.ledger.charge(Operation::Discard);
        self.counters.dropped(drop);
        self.failed(Cause::Dropped(drop));
    }

    pub(crate) fn failed(&mut self, cause: Cause) {
        if self.settings.tell_failures && cause.is_news() {
            self.failure = Some(cause);
        }
    }

    /// Sends `message` with the edits collected for it.
    pub(crate) fn forward(&mut self, message: &Message<'_>, way: Flow, out: &mut Outbox<Event>) {
        self.ledger.charge(Operation::Forward);
        let edits = &self.edits;
        out.send(way, |buffer| {
            let start = buffer.len();
            edits.render(message, buffer);
            // A response has lost a Via; a request had to leave room.
            debug_assert!(buffer.len() - start <= (message.bytes().len() + ADDED).min(LARGEST));
        });
    }
}
