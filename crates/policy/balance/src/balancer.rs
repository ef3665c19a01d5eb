//! One shard's balancer: what a request or a response means for sessions, leases and pools.

use crate::assignment::{Assignment, Picture, carry_out, take_call};
use crate::evidence::Evidence;
use crate::node::HALF_OPEN;
use crate::policy::{Candidate, Only};
use crate::pool::{Pool, Pools};
use crate::store::SessionStore;
use crate::transaction::{FirstAnswer, Success, TransactionId};
use crate::{
    CallKey, CallLimits, Decision, EndReason, Health, Load, LoadCell, MemberRoom, Node, NodeRefusal,
    NodeStats, Policy, PoolId, Request, Response, SentCalls, SessionSettings, SessionView, Sign, Slot,
    TableCounts, Tags, Why,
};
use base::Instant;
use core::time::Duration;
use std::sync::Arc;
use wire::Method;

/// A candidate as `explain` shows it.
#[derive(Clone, Copy, Debug)]
pub struct CandidateVerdict {
    /// The node with its load and present capacity.
    pub candidate: Candidate,
    /// Why it does not take the request as a new one, if it does not.
    pub refusal: Option<NodeRefusal>,
    /// How its limits stand, where it has any.
    pub room: Option<MemberRoom>,
}

/// One shard's balancer: sessions, leases, and pools with their policies.
///
/// - Setting up: [`new`](Self::new), [`set_nodes`](Self::set_nodes), [`set_pools`](Self::set_pools),
///   [`set_peers`](Self::set_peers), [`set_call_limits`](Self::set_call_limits), [`set_epoch`](Self::set_epoch),
///   [`set_sent_calls`](Self::set_sent_calls), [`set_others`](Self::set_others).
/// - Traffic: [`request`](Self::request), [`response`](Self::response), [`answered`](Self::answered),
///   [`again`](Self::again), [`move_on`](Self::move_on),
///   [`move_back`](Self::move_back), [`pick`](Self::pick), [`watch`](Self::watch), [`is_passed_by`](Self::is_passed_by),
///   [`end_dialog`](Self::end_dialog), [`resume_dialog`](Self::resume_dialog), [`unanswered`](Self::unanswered),
///   [`pause`](Self::pause), [`count_request`](Self::count_request), [`count_response`](Self::count_response).
/// - Time: [`deadline`](Self::deadline), [`expire`](Self::expire).
/// - Looking: [`explain`](Self::explain), [`load`](Self::load), [`stats`](Self::stats), [`counts`](Self::counts),
///   [`audit`](Self::audit).
#[derive(Debug)]
pub struct Balancer {
    store: SessionStore,
    nodes: Vec<Node>,
    pools: Pools,
    sent_calls: Option<Arc<SentCalls>>,
}

impl Balancer {
    /// A balancer without nodes, and with one pool of whatever nodes there will be.
    pub fn new(settings: SessionSettings, policy: Box<dyn Policy>) -> Self {
        let pools = Pools::new(vec![Pool::of_all(policy)]);
        Self { store: SessionStore::new(settings), nodes: Vec::new(), pools, sent_calls: None }
    }

    /// Takes over the nodes as the cluster has them. Nodes that died since the last time lose their transactions, and
    /// those whose calls are lost their calls.
    pub fn set_nodes(&mut self, nodes: &[Node]) {
        self.store.leases.grow(nodes.len());
        let count = self.store.stats.len().max(nodes.len());
        self.store.stats.resize_with(count, NodeStats::default);
        self.store.evidence.resize_with(count, Evidence::default);
        self.store.guards.grow(count);
        for (index, node) in nodes.iter().enumerate() {
            self.store.leases.set_limit(Slot(index as u16), node.max_calls);
            let ended = self.store.leases.set_deaths(Slot(index as u16), node.deaths, node.lost);
            self.store.stats[index].ended[EndReason::NodeDied as usize] += u64::from(ended.transactions);
            if ended.calls > 0 {
                self.store.lost_from = Some(0);
            }
            if node.is_up() && node.deaths != 0 {
                self.store.evidence[index].returns(node.since);
            }
        }
        let before = core::mem::replace(&mut self.nodes, nodes.to_vec());
        for (index, (node, before)) in self.nodes.iter_mut().zip(before).enumerate() {
            if node.id != before.id {
                self.store.stats[index] = NodeStats::default();
                self.store.evidence[index] = Evidence::default();
                self.store.guards.forget(Slot(index as u16));
                self.store.watch_no_more(Slot(index as u16));
            } else if (node.deaths, node.health, node.wakes) == (before.deaths, before.health, before.wakes) {
                // A pause that was seen here may not have come round yet; one from before a death is over.
                node.pause_as(&before);
            } else {
                self.store.forget_refusals(Slot(index as u16));
            }
            self.store.guard(Slot(index as u16), &before, node);
        }
        self.on_change();
    }

    /// Pools or nodes have changed.
    fn on_change(&mut self) {
        self.pools.on_nodes(&self.nodes);
        for (slot, node) in (0..).map(Slot).zip(&self.nodes) {
            self.store.guards.configure(slot, self.pools.law_of(slot), node);
        }
    }

    /// Changes the pools, of which there is at least one; sessions and leases stay.
    pub fn set_pools(&mut self, pools: Vec<Pool>) {
        self.pools = Pools::new(pools);
        self.on_change();
    }

    /// Takes the pools out, so that their policies may go on in others: [`set_pools`](Self::set_pools) is to follow.
    pub fn take_pools(&mut self) -> Vec<Pool> {
        self.pools.take()
    }

    /// Changes the times and weights; what is open keeps those it was opened with.
    pub fn set_settings(&mut self, settings: SessionSettings) {
        self.store.settings = settings;
    }

    /// The times and weights.
    pub fn settings(&self) -> &SessionSettings {
        &self.store.settings
    }

    /// How many other shards share the nodes.
    pub fn set_peers(&mut self, peers: u32) {
        self.store.leases.set_peers(peers);
    }

    /// What all shards share of the nodes with a limit, before the first call.
    pub fn set_call_limits(&mut self, call_limits: Arc<CallLimits>) {
        self.store.leases.set_call_limits(call_limits);
    }

    /// The Unix time of [`Instant::ZERO`], before the first node. Balancers that agree on it measure together how fast
    /// members answer without load.
    pub fn set_epoch(&mut self, epoch: Duration) {
        self.store.guards.set_epoch(epoch);
    }

    /// Where new calls are counted by the node that they are sent to.
    pub fn set_sent_calls(&mut self, sent_calls: Arc<SentCalls>) {
        self.sent_calls = Some(sent_calls);
    }

    /// What the other shards have on a node.
    pub fn set_others(&mut self, slot: Slot, load: Load) {
        self.store.leases.set_others(slot, load);
    }

    /// Decides where a request goes and takes note of it.
    pub fn request(&mut self, now: Instant, request: &Request<'_>) -> Decision {
        let decision = self.carry_out(now, request, |picture, policy| picture.assignment(request, policy));
        self.note_held_back(now, request, decision)
    }

    /// The same with this node, if that still takes a new request, for one that begins something: wherever others of
    /// its session went, it is one more for the node that has room for it.
    pub fn request_to(&mut self, now: Instant, request: &Request<'_>, slot: Slot) -> Decision {
        self.carry_out(now, request, |picture, _| picture.anew(request, &mut Only(slot)))
    }

    /// The members of a pool that take a new call now, or get one as a trial request, if `trials` is set, or since no
    /// other member takes any.
    pub fn takers(&self, now: Instant, pool: PoolId, trials: bool) -> Vec<Candidate> {
        let picture = self.picture(now, pool);
        picture.takers((Method::Invite, false), &[], trials).iter().collect()
    }

    /// Whether there are any of those.
    pub fn has_takers(&self, now: Instant, pool: PoolId) -> bool {
        let picture = self.picture(now, pool);
        picture.takers((Method::Invite, false), &[], true).iter().next().is_some()
    }

    /// A node has failed a request. Another node is chosen, none of `except`, and the request's transaction counts
    /// with that one.
    pub fn again(&mut self, now: Instant, request: &Request<'_>, except: &[Slot]) -> Decision {
        let decision = self.carry_out(now, request, |picture, policy| picture.again(request, except, policy));
        self.note_held_back(now, request, decision)
    }

    /// A node has left an INVITE unanswered for so long that another one, none of `except`, gets it as well: there it
    /// counts from now on. The first one fails it like any other if it answers nothing at all within the time of a
    /// transaction.
    pub fn move_on(&mut self, now: Instant, request: &Request<'_>, except: &[Slot]) -> Decision {
        let left = self.store.unanswered_of(request);
        let decision = self.again(now, request, except);
        if let Decision::Forward { slot, .. } = decision {
            self.store.stats[slot.index()].moved += 1;
            self.store.watch(left);
        }
        decision
    }

    /// Of the nodes that a request has [moved on](Self::move_on) between, this one, which got it `since` then, has
    /// answered first: it counts there again. It has its place there whatever the limit of calls is, and even if
    /// another one has failed it since.
    pub fn move_back(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        (slot, since): (Slot, Instant),
        is_cancelled: bool,
    ) {
        let left = self.store.unanswered_of(request);
        let picture = self.picture(now, request.pool);
        let assignment = picture.back(request, slot);
        if self.store.has_room(&assignment) {
            self.store.make_room(&assignment);
            carry_out(&mut self.store, now, request, assignment, None);
            self.store.resume(request, since, is_cancelled);
            self.store.watch(left);
        }
    }

    /// Whether this node has had a request since then, and has answered nothing to it so far. Not where nobody takes
    /// note of its answer, since its session has too many transactions.
    pub fn is_unanswered(&self, request: &Request<'_>, by: (Slot, Instant)) -> bool {
        self.store.unanswered_of(request) == Some(by)
    }

    /// Chooses a node, none of these, for a request that nothing is remembered of: that is no call here, and no load.
    pub fn pick(&mut self, now: Instant, request: &Request<'_>, except: &[Slot]) -> Decision {
        let pool = self.pools.get_mut(request.pool);
        let (is_limited, Pool { policy, members, .. }) = (pool.law.is_some(), pool);
        let picture = Picture { now, nodes: &self.nodes, store: &self.store, members, is_limited };
        let why = if except.is_empty() { Why::Policy } else { Why::Moved };
        let Some(slot) = picture.choose(request, except, why, &mut **policy) else {
            return picture.refusal(request, except, why).map_or(Decision::NoServer, Decision::AtLimit);
        };
        let decision = Decision::Forward { slot, why };
        self.note_trial(now, decision);
        decision
    }

    /// A node has left a request without a response that was sent to it `since`; `noted` if that was taken note of.
    pub fn unanswered(&mut self, now: Instant, slot: Slot, since: Instant, noted: Option<&Request<'_>>) {
        match noted {
            Some(request) => self.store.unanswered(now, request),
            None => self.store.no_answer(slot, since),
        }
    }

    /// A request that nothing is remembered of goes to another node as well: reports this one, which got it `since`
    /// then, if it has answered nothing by the end of the time of a transaction.
    pub fn watch(&mut self, slot: Slot, since: Instant) {
        self.store.watch(Some((slot, since)));
    }

    /// Another node has answered an INVITE that this one, which got it `since` then, had left without a response when it
    /// moved on. That is a failure of the server unless it has answered other INVITEs meanwhile.
    pub fn is_passed_by(&mut self, now: Instant, slot: Slot, since: Instant) {
        self.store.is_passed_by(now, slot, since);
    }

    fn picture(&self, now: Instant, pool: PoolId) -> Picture<'_> {
        let pool = self.pools.get(pool);
        let members = &pool.members;
        Picture { now, nodes: &self.nodes, store: &self.store, members, is_limited: pool.law.is_some() }
    }

    fn carry_out(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        mut assignment: impl FnMut(&Picture<'_>, &mut dyn Policy) -> Assignment,
    ) -> Decision {
        // Chosen again when another shard was faster: it has got on meanwhile, so this does not go round for long.
        for _ in 0..=self.nodes.len() {
            let pool = self.pools.get_mut(request.pool);
            let (is_limited, Pool { policy, members, .. }) = (pool.law.is_some(), pool);
            let picture = Picture { now, nodes: &self.nodes, store: &self.store, members, is_limited };
            let assignment = assignment(&picture, &mut **policy);
            if !self.store.has_room(&assignment) {
                return assignment.without_room();
            }
            self.store.make_room(&assignment);
            if let Ok(place) = take_call(&mut self.store, request, assignment) {
                self.note_trial(now, assignment.decision);
                carry_out(&mut self.store, now, request, assignment, place);
                return assignment.decision;
            }
        }
        Decision::NoServer
    }

    /// Counts a new request at the nodes whose limits keep it away. Not where a node is asked for by name
    /// ([`request_to`](Self::request_to)): whoever asks chooses among the others.
    fn note_held_back(&mut self, now: Instant, request: &Request<'_>, decision: Decision) -> Decision {
        if self.store.guards.is_any() {
            for (slot, by) in self.picture(now, request.pool).held_back(request, decision) {
                self.store.stats[slot.index()].holds_back(by);
            }
        }
        decision
    }

    /// Notes a new request to a half-open node as a trial request.
    fn note_trial(&mut self, now: Instant, decision: Decision) {
        if let Decision::Forward { slot, why: Why::Policy | Why::Moved } = decision
            && let node = &self.nodes[slot.index()]
            && let Some(since) = node.tried_since(now)
        {
            let shards = self.store.leases.shards();
            self.store.evidence[slot.index()].half_open.begin(now, since, shards);
        }
    }

    /// Takes note of a response.
    pub fn response(&mut self, now: Instant, response: &Response) {
        let Some(Success { slot, started, begins }) = self.store.respond(now, response) else { return };
        for pool in self.pools.with(slot) {
            pool.policy.on_response(slot, response.method, now.saturating_since(started));
        }
        let node = &mut self.nodes[slot.index()];
        // In a pause that it asked for a node gets calls only as trials, from HALF_OPEN after the beginning on.
        if begins && now < node.asked_until && started >= node.paused_since + HALF_OPEN {
            node.wake();
            self.store.forget_refusals(slot);
            self.store.signs.push(Sign::Recovered { slot });
        }
    }

    /// The dialog of a call with these tags is over, though no answer to a BYE within it has said so: both sides were
    /// hung up on, or its requests do not come by here.
    pub fn end_dialog(&mut self, now: Instant, call: CallKey, tags: Tags) {
        self.store.end_dialog_of(now, call, tags);
    }

    /// A dialog that was over, as far as [`response`](Self::response) or [`end_dialog`](Self::end_dialog) has said,
    /// goes on: its call counts again.
    pub fn resume_dialog(&mut self, now: Instant, call: CallKey, tags: Tags) {
        self.store.resume_dialog_of(now, call, tags);
    }

    /// A node has answered a request, even one that counts with another node by now. A node that was taken for silent
    /// is up: in this shard at once, in the others when they hear of the [`Sign`], of which there are a few a second
    /// at most.
    pub fn answered(&mut self, now: Instant, slot: Slot) {
        let evidence = &mut self.store.evidence[slot.index()];
        evidence.answers(now);
        let node = &mut self.nodes[slot.index()];
        if node.doubted && evidence.is_to_be_told(now) {
            if node.health == Health::Silent {
                node.health = Health::Up;
                self.store.guards.returns(slot, now);
            }
            self.store.signs.push(Sign::Answer { slot });
        }
    }

    /// A request is sent to a node, again perhaps.
    pub fn count_request(&mut self, now: Instant, slot: Slot, request: &Request<'_>) {
        self.store.stats[slot.index()].requests[request.method as usize] += 1;
        if !request.in_dialog && !matches!(request.method, Method::Ack | Method::Cancel) {
            let SessionStore { evidence, leases, .. } = &mut self.store;
            let rested = self.nodes[slot.index()].paused_until;
            evidence[slot.index()].refusals.sends(now, rested, leases.shared(slot));
            if let Some(sent_calls) = self.sent_calls.as_deref().filter(|_| request.method == Method::Invite)
            {
                sent_calls.count(slot);
            }
        }
    }

    /// A response came from a node.
    pub fn count_response(&mut self, slot: Slot, status: u16) {
        self.store.stats[slot.index()].responses.count(status);
    }

    /// A node answered 503. If it lately refused at least half of its new requests so, it pauses `until` then, at
    /// most for [`SessionSettings::max_rest`]: in this shard at once, in the others when they hear of the [`Sign`].
    /// If it `asked` for the pause (Retry-After), it gets a new call only as a trial; if not, also where no other
    /// node takes any.
    pub fn pause(&mut self, now: Instant, slot: Slot, until: Instant, asked: bool) {
        let SessionStore { evidence, leases, .. } = &mut self.store;
        if !evidence[slot.index()].refusals.refuses(leases.shared(slot)) {
            return;
        }
        let until = until.min(now + self.store.settings.max_rest);
        if self.nodes[slot.index()].pause(now, until, asked) {
            self.store.signs.push(Sign::Pause { slot, until, asked });
        }
    }

    /// The network said that a request to a node did not arrive: until then it gets new calls only when no other node
    /// takes any.
    pub fn unreachable(&mut self, now: Instant, slot: Slot, until: Instant) {
        if self.nodes[slot.index()].pause(now, until, false) {
            self.store.signs.push(Sign::Unreachable { slot, until });
        }
    }

    /// Ends leases and sessions whose time is over; returns how many. Bounded work a call.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.store.expire(now)
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.store.deadline()
    }

    /// Whether [`first_answers`](Self::first_answers) are kept for whoever fetches them.
    pub fn keep_first_answers(&mut self, keeps: bool) {
        let kept = self.store.first_answers.take().filter(|_| keeps);
        self.store.first_answers = kept.or_else(|| keeps.then(Vec::new));
    }

    /// The first responses of nodes to INVITEs that begin calls, since the last time.
    pub fn first_answers(&mut self) -> impl Iterator<Item = FirstAnswer> + '_ {
        self.store.first_answers.iter_mut().flat_map(|answers| answers.drain(..))
    }

    /// What the traffic said about the health of nodes since the last time.
    pub fn drain_signs(&mut self) -> impl Iterator<Item = Sign> + '_ {
        self.store.signs.drain(..)
    }

    /// Whether some node of a request's pool would take it as a new one, but for a limit.
    pub fn is_full(&self, now: Instant, request: &Request<'_>) -> bool {
        let picture = self.picture(now, request.pool);
        let candidates = picture.candidates(request.method).with_priority(request.has_priority);
        let is_full = |refusal: NodeRefusal| refusal == NodeRefusal::Full || refusal.is_of_load();
        candidates.all().any(|(_, refusal)| refusal.is_some_and(is_full))
    }

    /// What [`request`](Self::request) would decide, and how every member of its pool stands. Changes nothing.
    pub fn explain(&self, now: Instant, request: &Request<'_>) -> (Decision, Vec<CandidateVerdict>) {
        let picture = self.picture(now, request.pool);
        let policy = &self.pools.get(request.pool).policy;
        let assignment = picture.assignment(request, &mut *policy.clone_box());
        let candidates = picture.candidates(request.method).with_priority(request.has_priority);
        let decision =
            if picture.store.has_room(&assignment) { assignment.decision } else { assignment.without_room() };
        let verdict = |(candidate, refusal): (Candidate, _)| {
            let room = self.room(now, candidate.slot);
            CandidateVerdict { candidate, refusal, room }
        };
        let verdicts = candidates.all().map(verdict).collect();
        (decision, verdicts)
    }

    /// The nodes as last taken over.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The members of a pool as the configuration has them, whether they take anything or not.
    pub fn members(&self, pool: PoolId) -> impl Iterator<Item = Slot> + '_ {
        self.nodes_of(pool).filter(|slot| self.nodes[slot.index()].member)
    }

    /// Whether a node is or was of a pool.
    pub fn is_of(&self, pool: PoolId, slot: Slot) -> bool {
        self.pools.get(pool).members.has(slot)
    }

    /// The nodes of a pool, those included that left.
    pub fn nodes_of(&self, pool: PoolId) -> impl Iterator<Item = Slot> + '_ {
        self.pools.get(pool).members.from(Slot(0), self.nodes.len())
    }

    /// Whether a member of a pool, none of `except`, takes a new request of this method as one that is known to live
    /// or, if `trials` is set, gets it as a trial. Where none does, those of the last resort may get it all the same.
    pub fn takes(&self, now: Instant, pool: PoolId, method: Method, except: &[Slot], trials: bool) -> bool {
        let picture = self.picture(now, pool);
        picture.for_new(method, except, trials).iter().next().is_some()
    }

    /// Whether the transaction of a request is open already.
    pub fn has_open(&self, request: &Request<'_>) -> bool {
        if self.is_idle() {
            return false;
        }
        let at = self.store.session_of(request);
        at.is_some_and(|at| self.store.find(at, &TransactionId::served_by(request)).is_some())
    }

    /// An INVITE was cancelled whose CANCEL is not this balancer's affair: it has until a transaction time-out to
    /// end.
    pub fn cancelled(&mut self, now: Instant, invite: &Request<'_>) {
        if let Some(at) = self.store.session_of(invite) {
            self.store.cancel(now, at, invite);
        }
    }

    /// Name of a pool's policy.
    pub fn policy_name(&self, pool: PoolId) -> &'static str {
        self.pools.get(pool).policy.name()
    }

    /// Load of a node: own leases, and what the other shards said.
    pub fn load(&self, slot: Slot) -> LoadCell {
        self.store.leases.cell(slot)
    }

    /// How the limits of a node stand, where it has any.
    pub fn room(&self, now: Instant, slot: Slot) -> Option<MemberRoom> {
        self.store.guards.room(now, slot)
    }

    /// What a node did.
    pub fn stats(&self, slot: Slot) -> &NodeStats {
        &self.store.stats[slot.index()]
    }

    /// Whether no session is known.
    pub fn is_idle(&self) -> bool {
        self.store.table.len() == 0
    }

    /// Entries in the session table.
    pub fn counts(&self) -> TableCounts {
        self.store.table.counts()
    }

    /// Transactions in progress.
    pub fn open_transactions(&self) -> usize {
        self.store.open_transactions()
    }

    /// Whether the node that a request comes from has begun the transaction that it is part of, and it is open.
    pub fn is_open(&self, request: &Request<'_>) -> bool {
        let Some(at) = self.store.session_of(request) else { return false };
        let open = self.store.find(at, &TransactionId::served_by(request));
        open.is_some_and(|key| Some(self.store.slot_of(key)) == request.pinned)
    }

    /// The session of a request.
    pub fn session_of(&self, request: &Request<'_>) -> Option<SessionView> {
        self.store.session_of(request).map(|at| self.store.view(self.store.table.get(at)))
    }

    /// Whether a request is of a dialog that has been answered, and whose call is in the table.
    pub fn has_dialog(&self, request: &Request<'_>) -> bool {
        let session = self.store.session_of(request).map(|at| self.store.table.get(at));
        session.is_some_and(|session| session.has_dialog(request.dialog()))
    }

    /// The session with this key ([`CallKey::begun_by`]).
    pub fn session(&self, key: CallKey) -> Option<SessionView> {
        self.store.table.find(key).map(|at| self.store.view(self.store.table.get(at)))
    }

    /// Up to `budget` sessions from key `from` on, and the key to go on with: for walks over a large table
    /// that must not hold up the traffic.
    pub fn sessions(&self, from: u32, budget: usize, mut visit: impl FnMut(SessionView)) -> Option<u32> {
        let mut walk = self.store.table.iter_from(from);
        for (_, session) in walk.by_ref().take(budget) {
            visit(self.store.view(session));
        }
        walk.next().map(|(key, _)| key)
    }

    /// Checks that every load equals the sum of its live leases.
    ///
    /// # Errors
    /// Says which node's load differs, and how.
    pub fn audit(&self) -> Result<(), String> {
        self.store.audit()
    }
}
