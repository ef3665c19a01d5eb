use crate::books::Books;
use crate::evidence::Evidence;
use crate::node::HALF_OPEN;
use crate::plan::{Picture, carry_out, take_place};
use crate::policy::{Candidate, Candidates};
use crate::session::NOBODY;
use crate::transaction::{Success, TransactionId};
use crate::{
    CallKey, EndReason, Health, Load, LoadCell, Node, NodeStats, Places, Policy, Refusal, SessionView, Slot,
    TableCounts, Tags, Tally, Weights,
};
use base::Instant;
use core::time::Duration;
use std::sync::Arc;
use wire::Method;

/// Times and weights of the books.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Work of a transaction by method.
    pub weights: Weights,
    /// An unanswered transaction ends after this: 64*T1 (RFC 3261 §17.1.1.2, §17.1.2.2).
    pub transaction_timeout: Duration,
    /// An INVITE with a provisional answer ends after this: Timer C, over 3 minutes (RFC 3261 §16.6 step 11).
    pub invite_timeout: Duration,
    /// A call in which no message is seen for this long has lost its BYE. One that is known from a token alone (after
    /// a restart) has at most half an hour, until an answer within it shows that it lives.
    pub call_lifetime: Duration,
    /// How long an ended session is kept after its last request, for later ones.
    pub linger: Duration,
    /// The longest rest after a 503, whatever Retry-After says.
    pub max_rest: Duration,
    /// Whether an INVITE that its node fails keeps its lease for as long as one takes that succeeds.
    pub hold_failures: bool,
    /// Most sessions; and so many transactions are open at most beside the first one of each session.
    pub max_sessions: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            weights: Weights::default(),
            transaction_timeout: Duration::from_secs(32),
            invite_timeout: Duration::from_secs(181),
            call_lifetime: Duration::from_hours(4),
            linger: Duration::from_secs(32),
            max_rest: Duration::from_mins(1),
            hold_failures: true,
            max_sessions: usize::MAX,
        }
    }
}

/// Which way a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From a client to a node.
    ToPool,
    /// From a node to a client.
    FromPool,
}

/// The facts of a request that balancing needs.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Key of its call.
    pub key: CallKey,
    /// Its Call-ID, for the policies that hash it.
    pub call_id: &'a [u8],
    /// Its method.
    pub method: Method,
    /// Its CSeq number.
    pub cseq: u32,
    /// Whether it has a To tag.
    pub in_dialog: bool,
    /// Which way it goes.
    pub direction: Direction,
    /// The node that a verified token names, or that it comes from.
    pub pinned: Option<Slot>,
    /// Whether a verified token names the node: then it belongs to a dialog that was begun through here.
    pub by_token: bool,
    /// A hash of what the client's Via calls the transaction (its branch). A request that was forked upstream comes
    /// several times with one CSeq and differs in this.
    pub branch: u32,
    /// Its tags. With the Call-ID, that of who began it is what a call is known by.
    pub tags: Tags,
}

impl Request<'_> {
    /// Key of the session that it begins, should it be in none.
    pub(crate) fn begins(&self) -> CallKey {
        let of_call = self.in_dialog || matches!(self.method, Method::Invite | Method::Ack | Method::Cancel);
        self.key.begun_by(if of_call { self.tags.from } else { NOBODY })
    }

    /// Its dialog, 0 if it is in none: what ends a call in the books is told by it.
    pub(crate) fn dialog(&self) -> u32 {
        if self.in_dialog { self.tags.dialog() } else { 0 }
    }
}

/// The facts of a response that balancing needs.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// Key of its call.
    pub key: CallKey,
    /// Method in its CSeq.
    pub method: Method,
    /// CSeq number.
    pub cseq: u32,
    /// Status code.
    pub status: u16,
    /// Which way its request went.
    pub direction: Direction,
    /// [`Request::branch`] of its request.
    pub branch: u32,
    /// Its tags. Another To tag in a 2xx to an INVITE is another dialog (RFC 3261 §13.2.2.4).
    pub tags: Tags,
}

/// Why a request goes to its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It is new: the policy chose.
    Policy,
    /// Its call is in the session table.
    Session,
    /// A verified token names the node, or it comes from there.
    Token,
    /// Its node is dead and nobody had answered it: the policy chose again.
    Moved,
}

impl Why {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 4] = [Self::Policy, Self::Session, Self::Token, Self::Moved];

    /// The word used by `explain` and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Session => "session",
            Self::Token => "token",
            Self::Moved => "moved",
        }
    }
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// To or from this node.
    Forward {
        /// The node.
        slot: Slot,
        /// Why this one.
        why: Why,
    },
    /// Nobody here knows its INVITE: every node is asked, the one that has it will act.
    Search,
    /// In a dialog that nobody here knows.
    Orphan,
    /// No node takes new calls.
    NoServer,
    /// The session table is full of calls that ring or have been answered.
    NoRoom,
}

/// What the traffic says about a node's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// A request got no response at all.
    NoAnswer {
        /// The node.
        slot: Slot,
        /// Whether the node has answered nothing else since, as far as this shard knows.
        silent: bool,
    },
    /// A node answered that is in doubt.
    Answer {
        /// The node.
        slot: Slot,
    },
    /// It answered 503 and rests for a while.
    Pause {
        /// The node.
        slot: Slot,
        /// Until when.
        until: Instant,
        /// Whether it named the time itself (Retry-After).
        asked: bool,
    },
    /// What became of new requests since the last time.
    Tally {
        /// The node.
        slot: Slot,
        /// Outcomes.
        tally: Tally,
    },
    /// It is back, and has answered a request of a call from before.
    Memory {
        /// The node.
        slot: Slot,
        /// Whether it knows the call; it does not if it says 481.
        knows: bool,
    },
    /// It rested, got a call all the same, and answered it.
    Recovered {
        /// The node.
        slot: Slot,
    },
}

/// A candidate as `explain` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// The node with its load and present capacity.
    pub candidate: Candidate,
    /// Why it does not take the request as a new one, if it does not.
    pub refusal: Option<Refusal>,
}

/// One shard's balancer: sessions, leases and the policy.
///
/// - Setting up: [`new`](Self::new), [`set_nodes`](Self::set_nodes), [`set_policy`](Self::set_policy),
///   [`set_peers`](Self::set_peers), [`set_places`](Self::set_places), [`set_others`](Self::set_others).
/// - Traffic: [`request`](Self::request), [`response`](Self::response), [`answered`](Self::answered),
///   [`pause`](Self::pause), [`count_request`](Self::count_request), [`count_response`](Self::count_response).
/// - Time: [`deadline`](Self::deadline), [`expire`](Self::expire).
/// - Looking: [`explain`](Self::explain), [`load`](Self::load), [`stats`](Self::stats), [`counts`](Self::counts),
///   [`audit`](Self::audit).
#[derive(Debug)]
pub struct Balancer {
    books: Books,
    nodes: Vec<Node>,
    policy: Box<dyn Policy>,
}

impl Balancer {
    /// A balancer without nodes.
    pub fn new(settings: Settings, policy: Box<dyn Policy>) -> Self {
        Self { books: Books::new(settings), nodes: Vec::new(), policy }
    }

    /// Takes over the nodes as the cluster has them. Nodes that died since the last time lose their transactions, and those
    /// whose calls are lost their calls.
    pub fn set_nodes(&mut self, nodes: &[Node]) {
        self.books.leases.grow(nodes.len());
        let count = self.books.stats.len().max(nodes.len());
        self.books.stats.resize_with(count, NodeStats::default);
        self.books.evidence.resize_with(count, Evidence::default);
        for (index, node) in nodes.iter().enumerate() {
            self.books.leases.set_limit(Slot(index as u16), node.max_calls);
            let ended = self.books.leases.set_deaths(Slot(index as u16), node.deaths, node.lost);
            self.books.stats[index].ended[EndReason::NodeDied as usize] += u64::from(ended);
            if node.is_up() && node.deaths != 0 {
                self.books.evidence[index].returns(node.since);
            }
        }
        let before = core::mem::replace(&mut self.nodes, nodes.to_vec());
        for (index, (node, before)) in self.nodes.iter_mut().zip(before).enumerate() {
            if node.id != before.id {
                self.books.stats[index] = NodeStats::default();
                self.books.evidence[index] = Evidence::default();
            } else if (node.deaths, node.health, node.wakes) == (before.deaths, before.health, before.wakes) {
                // A rest that was seen here may not have come round yet; one from before a death is over.
                node.rest_as(&before);
            }
        }
        self.policy.on_nodes(&self.nodes);
    }

    /// Changes the times and weights; what is open keeps those it was opened with.
    pub fn set_settings(&mut self, settings: Settings) {
        self.books.settings = settings;
    }

    /// The times and weights.
    pub fn settings(&self) -> &Settings {
        &self.books.settings
    }

    /// Changes the policy; sessions and leases stay.
    pub fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.policy = policy;
        self.policy.on_nodes(&self.nodes);
    }

    /// How many other shards share the nodes.
    pub fn set_peers(&mut self, peers: u32) {
        self.books.leases.set_peers(peers);
    }

    /// What all shards share of the nodes with a limit, before the first call.
    pub fn set_places(&mut self, places: Arc<Places>) {
        self.books.leases.set_places(places);
    }

    /// What the other shards have on a node.
    pub fn set_others(&mut self, slot: Slot, load: Load) {
        self.books.leases.set_others(slot, load);
    }

    /// Decides where a request goes and takes note of it.
    pub fn request(&mut self, now: Instant, request: &Request<'_>) -> Decision {
        // Chosen again when another shard was faster: it has got on meanwhile, so this does not go round for long.
        for _ in 0..=self.nodes.len() {
            let picture = Picture { now, nodes: &self.nodes, books: &self.books };
            let plan = picture.plan(request, &mut *self.policy);
            if !self.books.has_room(&plan) {
                return plan.without_room();
            }
            self.books.make_room(&plan);
            if let Ok(place) = take_place(&mut self.books, request, plan) {
                self.note_trial(now, plan.decision);
                carry_out(&mut self.books, now, request, plan, place);
                return plan.decision;
            }
        }
        Decision::NoServer
    }

    /// A new request to a node that is on trial is one.
    fn note_trial(&mut self, now: Instant, decision: Decision) {
        if let Decision::Forward { slot, why: Why::Policy | Why::Moved } = decision
            && let node = &self.nodes[slot.index()]
            && let Some(since) = node.tried_since(now)
        {
            let shards = self.books.leases.shards();
            self.books.evidence[slot.index()].trial.begin(now, since, shards);
        }
    }

    /// Takes note of a response.
    pub fn response(&mut self, now: Instant, response: &Response) {
        let Some(Success { slot, started, begins }) = self.books.respond(now, response) else { return };
        self.policy.on_response(slot, response.method, now.saturating_since(started));
        let node = &mut self.nodes[slot.index()];
        // Only a trial begins as late in a rest.
        if begins && now < node.asked_until && started >= node.rests_since + HALF_OPEN {
            node.wake();
            self.books.signs.push(Sign::Recovered { slot });
        }
    }

    /// A node has answered a request, whoever has its lease by now. One in doubt lives, here at once and elsewhere by the
    /// sign, of which there are a few a second at most.
    pub fn answered(&mut self, now: Instant, slot: Slot) {
        let evidence = &mut self.books.evidence[slot.index()];
        evidence.answers(now);
        let node = &mut self.nodes[slot.index()];
        if node.doubted && evidence.is_to_be_told(now) {
            if node.health == Health::Silent {
                node.health = Health::Up;
            }
            self.books.signs.push(Sign::Answer { slot });
        }
    }

    /// A request is sent to a node, again perhaps.
    pub fn count_request(&mut self, slot: Slot, method: Method) {
        self.books.stats[slot.index()].requests[method as usize] += 1;
    }

    /// A response came from a node.
    pub fn count_response(&mut self, slot: Slot, status: u16) {
        self.books.stats[slot.index()].responses.count(status);
    }

    /// A node answered 503: it rests until then, here at once and elsewhere by the sign. If it asked for the time
    /// (Retry-After) it gets no new calls at all; if not, only when no other node takes any.
    pub fn pause(&mut self, now: Instant, slot: Slot, until: Instant, asked: bool) {
        let until = until.min(now + self.books.settings.max_rest);
        if self.nodes[slot.index()].pause(now, until, asked) {
            self.books.signs.push(Sign::Pause { slot, until, asked });
        }
    }

    /// Ends leases and sessions whose time is over; returns how many. Bounded work a call.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.books.expire(now)
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.books.deadline()
    }

    /// What the traffic said about the health of nodes since the last time.
    pub fn drain_signs(&mut self) -> impl Iterator<Item = Sign> + '_ {
        self.books.signs.drain(..)
    }

    /// What [`request`](Self::request) would decide, and how every member stands. Changes nothing.
    pub fn explain(&self, now: Instant, request: &Request<'_>) -> (Decision, Vec<Verdict>) {
        let picture = Picture { now, nodes: &self.nodes, books: &self.books };
        let plan = picture.plan(request, &mut *self.policy.clone_box());
        let candidates = Candidates::takers(now, &self.nodes, &self.books, request.method);
        let decision = if picture.books.has_room(&plan) { plan.decision } else { plan.without_room() };
        let verdicts = candidates.all().map(|(candidate, refusal)| Verdict { candidate, refusal }).collect();
        (decision, verdicts)
    }

    /// The nodes as last taken over.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Name of the policy.
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// Load of a node: own leases, and what the other shards said.
    pub fn load(&self, slot: Slot) -> LoadCell {
        self.books.leases.cell(slot)
    }

    /// What a node did.
    pub fn stats(&self, slot: Slot) -> &NodeStats {
        &self.books.stats[slot.index()]
    }

    /// Entries in the session table.
    pub fn counts(&self) -> TableCounts {
        self.books.table.counts()
    }

    /// Transactions in progress.
    pub fn open_transactions(&self) -> usize {
        self.books.open_transactions()
    }

    /// Whether the node that a request comes from has begun the transaction that it is part of, and it is open.
    pub fn is_open(&self, request: &Request<'_>) -> bool {
        let Some(at) = self.books.session_of(request) else { return false };
        let open = self.books.find(at, &TransactionId::served_by(request));
        open.is_some_and(|key| Some(self.books.slot_of(key)) == request.pinned)
    }

    /// The session of a request.
    pub fn session_of(&self, request: &Request<'_>) -> Option<SessionView> {
        self.books.session_of(request).map(|at| self.books.view(self.books.table.get(at)))
    }

    /// The session with this key ([`CallKey::begun_by`]).
    pub fn session(&self, key: CallKey) -> Option<SessionView> {
        self.books.table.find(key).map(|at| self.books.view(self.books.table.get(at)))
    }

    /// Up to `budget` sessions from key `from` on, and the key to go on with: for walks over a large table
    /// that must not hold up the traffic.
    pub fn sessions(&self, from: u32, budget: usize, mut visit: impl FnMut(SessionView)) -> Option<u32> {
        let mut walk = self.books.table.iter_from(from);
        for (_, session) in walk.by_ref().take(budget) {
            visit(self.books.view(session));
        }
        walk.next().map(|(key, _)| key)
    }

    /// Checks that every load equals the sum of its live leases.
    ///
    /// # Errors
    /// Says which node's load differs, and how.
    pub fn audit(&self) -> Result<(), String> {
        self.books.audit()
    }
}
