//! The balancer of one shard: updates sessions, leases and pools for each request and response.

use crate::assignment::{Assignment, AssignmentInput, carry_out, take_call};
use crate::evidence::Evidence;
use crate::node::HALF_OPEN;
use crate::policy::{Candidate, Only};
use crate::pool::{Pool, Pools};
use crate::store::SessionStore;
use crate::transaction::{FirstAnswer, Success, TransactionId};
use crate::{
    CallKey, CallLimits, EndReason, Health, Load, LoadCell, MemberRoom, Node, NodeDecision, NodeHistograms,
    NodeRefusal, NodeStats, Policy, PoolId, RequestFacts, Response, SentCalls, SessionSettings, SessionView,
    Sign, Slot, TableCounts, Tags, Why,
};
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::Method;

/// A member of a pool as `explain` shows it.
#[derive(Clone, Copy, Debug)]
pub struct CandidateVerdict {
    /// The node with its load and present capacity.
    pub candidate: Candidate,
    /// Reason why the node does not take the request as a new one; `None` if it does.
    pub refusal: Option<NodeRefusal>,
    /// State of the node's limits; `None` if it has no limits.
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
/// - Reading: [`explain`](Self::explain), [`load`](Self::load), [`stats`](Self::stats), [`counts`](Self::counts),
///   [`audit`](Self::audit).
#[derive(Debug)]
pub struct Balancer {
    store: SessionStore,
    nodes: Vec<Node>,
    pools: Pools,
    sent_calls: Option<Arc<SentCalls>>,
}

impl Balancer {
    /// Creates a balancer without nodes, with one pool that contains every later node.
    pub fn new(settings: SessionSettings, policy: Box<dyn Policy>) -> Self {
        let pools = Pools::new(vec![Pool::of_all(policy)]);
        Self { store: SessionStore::new(settings), nodes: Vec::new(), pools, sent_calls: None }
    }

    /// Replaces the nodes by those of the cluster. Ends the transaction leases of nodes that died since the last call,
    /// and the calls of nodes that lost them.
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
            // The histograms of a pool never lose a value.
            let is_other = (node.id, node.pool) != (before.id, before.pool);
            if let Some(histograms) = is_other.then(|| self.store.stats[index].histograms.take()).flatten() {
                self.store.former.entry(before.pool).or_default().merge(&histograms);
            }
            if node.id != before.id {
                self.store.stats[index] = NodeStats::default();
                self.store.evidence[index] = Evidence::default();
                self.store.guards.forget(Slot(index as u16));
                self.store.watch_no_more(Slot(index as u16));
            } else if (node.deaths, node.health, node.wakes) == (before.deaths, before.health, before.wakes) {
                // This shard may have seen a pause that the cluster does not know yet. A pause that began before a
                // death of the node is over.
                node.pause_as(&before);
            } else {
                self.store.forget_refusals(Slot(index as u16));
            }
            self.store.guard(Slot(index as u16), &before, node);
        }
        self.on_change();
    }

    /// Updates policies and guards after a change of pools or nodes.
    fn on_change(&mut self) {
        self.pools.on_nodes(&self.nodes);
        for (slot, node) in (0..).map(Slot).zip(&self.nodes) {
            self.store.guards.configure(slot, self.pools.law_of(slot), node);
        }
    }

    /// Replaces the pools, at least one. Sessions and leases stay.
    pub fn set_pools(&mut self, pools: Vec<Pool>) {
        self.pools = Pools::new(pools);
        self.on_change();
    }

    /// Removes and returns the pools, so that new pools can reuse their policies. Call [`set_pools`](Self::set_pools)
    /// afterwards.
    pub fn take_pools(&mut self) -> Vec<Pool> {
        self.pools.take()
    }

    /// Changes times and weights. Open transactions and sessions keep the values with which they were opened.
    pub fn set_settings(&mut self, settings: SessionSettings) {
        self.store.settings = settings;
    }

    /// Times and weights.
    pub fn settings(&self) -> &SessionSettings {
        &self.store.settings
    }

    /// Sets the number of other shards that share the nodes.
    pub fn set_peers(&mut self, peers: u32) {
        self.store.leases.set_peers(peers);
    }

    /// Sets the counters that all shards share for nodes with a limit. Call it before the first call.
    pub fn set_call_limits(&mut self, call_limits: Arc<CallLimits>) {
        self.store.leases.set_call_limits(call_limits);
    }

    /// Sets the Unix time of [`Instant::ZERO`]. Call it before the first node. Balancers with the same epoch measure
    /// the latency of members without load at the same times.
    pub fn set_epoch(&mut self, epoch: Duration) {
        self.store.guards.set_epoch(epoch);
    }

    /// Sets how long the next messages have waited for this process since they arrived. The response times of members
    /// do not include it.
    pub fn on_waited(&mut self, waited: Duration) {
        self.store.guards.set_waited(waited);
    }

    /// Sets the shared counters of new calls by node.
    pub fn set_sent_calls(&mut self, sent_calls: Arc<SentCalls>) {
        self.sent_calls = Some(sent_calls);
    }

    /// Sets the load that the other shards have on a node.
    pub fn set_others(&mut self, slot: Slot, load: Load) {
        self.store.leases.set_others(slot, load);
    }

    /// Decides where a request goes, and enters it into the session table.
    pub fn request(&mut self, now: Instant, request: &RequestFacts<'_>) -> NodeDecision {
        let decision = self.carry_out(now, request, |picture, policy| picture.assignment(request, policy));
        self.note_held_back(now, request, decision)
    }

    /// Like [`request`](Self::request), for a new request that must go to this node. The node must take new requests.
    /// The node of the request's session is ignored.
    pub fn request_to(&mut self, now: Instant, request: &RequestFacts<'_>, slot: Slot) -> NodeDecision {
        self.carry_out(now, request, |picture, _| picture.anew(request, &mut Only(slot)))
    }

    /// Members of a pool that take a new call now. With `trials`, also members that are due for a trial request. If
    /// there are none, returns the members of the last resort.
    pub fn takers(&self, now: Instant, pool: PoolId, trials: bool) -> Vec<Candidate> {
        let picture = self.assignment_input(now, pool);
        picture.takers((Method::Invite, false), &[], trials).iter().collect()
    }

    /// Whether [`takers`](Self::takers) with `trials` has any member.
    pub fn has_takers(&self, now: Instant, pool: PoolId) -> bool {
        let picture = self.assignment_input(now, pool);
        picture.takers((Method::Invite, false), &[], true).iter().next().is_some()
    }

    /// Chooses another node, none of `except`, for a request that failed at a node. The transaction counts at the new
    /// node.
    pub fn again(&mut self, now: Instant, request: &RequestFacts<'_>, except: &[Slot]) -> NodeDecision {
        let decision = self.carry_out(now, request, |picture, policy| picture.again(request, except, policy));
        self.note_held_back(now, request, decision)
    }

    /// Chooses a second node, none of `except`, for an INVITE that a node has left unanswered for long. The transaction
    /// counts at the second node from now on. If the first node answers nothing within the transaction time-out, this
    /// counts as a failure of the first node.
    pub fn move_on(&mut self, now: Instant, request: &RequestFacts<'_>, except: &[Slot]) -> NodeDecision {
        let left = self.store.unanswered_of(request);
        let decision = self.again(now, request, except);
        if let NodeDecision::Forward { slot, .. } = decision {
            self.store.stats[slot.index()].moved += 1;
            self.store.watch(left);
        }
        decision
    }

    /// Assigns a request that [moved on](Self::move_on) back to the node `slot`, which got it at `since` and answered
    /// first. The request counts there again, whatever the limit of calls, even if another node has failed it since.
    pub fn move_back(
        &mut self,
        now: Instant,
        request: &RequestFacts<'_>,
        (slot, since): (Slot, Instant),
        is_cancelled: bool,
    ) {
        let left = self.store.unanswered_of(request);
        let picture = self.assignment_input(now, request.pool);
        let assignment = picture.back(request, slot);
        if self.store.has_room(&assignment) {
            self.store.make_room(&assignment);
            carry_out(&mut self.store, now, request, assignment, None);
            self.store.resume(request, since, is_cancelled);
            self.store.watch(left);
        }
    }

    /// Whether the node of `by` got this request at the time of `by`, and has answered nothing so far. False if the
    /// transaction was not recorded because its session has too many transactions.
    pub fn is_unanswered(&self, request: &RequestFacts<'_>, by: (Slot, Instant)) -> bool {
        self.store.unanswered_of(request) == Some(by)
    }

    /// Chooses a node, none of `except`, for a request without session. It counts neither as a call nor as load.
    pub fn pick(&mut self, now: Instant, request: &RequestFacts<'_>, except: &[Slot]) -> NodeDecision {
        let pool = self.pools.get_mut(request.pool);
        let (is_limited, Pool { policy, members, .. }) = (pool.law.is_some(), pool);
        let picture = AssignmentInput { now, nodes: &self.nodes, store: &self.store, members, is_limited };
        let why = if except.is_empty() { Why::Policy } else { Why::Moved };
        let Some(slot) = picture.choose(request, except, why, &mut **policy) else {
            return picture
                .refusal(request, except, why)
                .map_or(NodeDecision::NoServer, NodeDecision::AtLimit);
        };
        let decision = NodeDecision::Forward { slot, why };
        self.note_trial(now, decision);
        decision
    }

    /// Reports that a node gave no response to a request sent at `since`. `noted`: the request, if it was recorded.
    pub fn unanswered(&mut self, now: Instant, slot: Slot, since: Instant, noted: Option<&RequestFacts<'_>>) {
        match noted {
            Some(request) => self.store.unanswered(now, request),
            None => self.store.no_answer(slot, since),
        }
    }

    /// Watches a request without transaction that goes to a second node as well. If `slot`, which got the request at
    /// `since`, answers nothing within the transaction time-out, a [`Sign`] reports it.
    pub fn watch(&mut self, slot: Slot, since: Instant) {
        self.store.watch(Some((slot, since)));
    }

    /// Reports that a second node answered an INVITE which `slot`, sent at `since`, had left without a response. Counts
    /// as a server failure of `slot`, unless `slot` has answered other INVITEs meanwhile.
    pub fn is_passed_by(&mut self, now: Instant, slot: Slot, since: Instant) {
        self.store.is_passed_by(now, slot, since);
    }

    fn assignment_input(&self, now: Instant, pool: PoolId) -> AssignmentInput<'_> {
        let pool = self.pools.get(pool);
        let members = &pool.members;
        AssignmentInput {
            now,
            nodes: &self.nodes,
            store: &self.store,
            members,
            is_limited: pool.law.is_some(),
        }
    }

    fn carry_out(
        &mut self,
        now: Instant,
        request: &RequestFacts<'_>,
        mut assignment: impl FnMut(&AssignmentInput<'_>, &mut dyn Policy) -> Assignment,
    ) -> NodeDecision {
        // If another shard has taken the last place, the choice is repeated. Each repetition means that another shard
        // has taken a place, so the loop ends soon.
        for _ in 0..=self.nodes.len() {
            let pool = self.pools.get_mut(request.pool);
            let (is_limited, Pool { policy, members, .. }) = (pool.law.is_some(), pool);
            let picture =
                AssignmentInput { now, nodes: &self.nodes, store: &self.store, members, is_limited };
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
        NodeDecision::NoServer
    }

    /// Counts a new request at the nodes that refuse it because of a limit. [`request_to`](Self::request_to) does not
    /// count, since its caller chose the node.
    fn note_held_back(
        &mut self,
        now: Instant,
        request: &RequestFacts<'_>,
        decision: NodeDecision,
    ) -> NodeDecision {
        if self.store.guards.is_any() {
            for (slot, by) in self.assignment_input(now, request.pool).held_back(request, decision) {
                self.store.stats[slot.index()].holds_back(by);
            }
        }
        decision
    }

    /// Notes a new request to a half-open node as a trial request.
    fn note_trial(&mut self, now: Instant, decision: NodeDecision) {
        if let NodeDecision::Forward { slot, why: Why::Policy | Why::Moved } = decision
            && let node = &self.nodes[slot.index()]
            && let Some(since) = node.tried_since(now)
        {
            let shards = self.store.leases.shards();
            self.store.evidence[slot.index()].half_open.begin(now, since, shards);
        }
    }

    /// Records a response.
    pub fn response(&mut self, now: Instant, response: &Response) {
        let Some(Success { slot, started, begins }) = self.store.respond(now, response) else { return };
        for pool in self.pools.with(slot) {
            pool.policy.on_response(slot, response.method, now.saturating_since(started));
        }
        let node = &mut self.nodes[slot.index()];
        // A node that asked for a pause gets calls only as trials, from `HALF_OPEN` after the start of the pause.
        if begins && now < node.asked_until && started >= node.paused_since + HALF_OPEN {
            node.wake();
            self.store.forget_refusals(slot);
            self.store.signs.push(Sign::Recovered { slot });
        }
    }

    /// Ends the dialog of a call with these tags although no response to a BYE was seen. This happens if the proxy has
    /// sent BYEs to both sides, or if requests within the dialog take another path.
    pub fn end_dialog(&mut self, now: Instant, call: CallKey, tags: Tags) {
        self.store.end_dialog_of(now, call, tags);
    }

    /// Reopens a dialog that [`response`](Self::response) or [`end_dialog`](Self::end_dialog) had ended. Its call
    /// counts again.
    pub fn resume_dialog(&mut self, now: Instant, call: CallKey, tags: Tags) {
        self.store.resume_dialog_of(now, call, tags);
    }

    /// Records that a node answered a request, even if the request now counts at another node. A silent node is then up
    /// again: in this shard at once, in the other shards through the [`Sign`]. This sign is emitted at most a few times
    /// a second.
    pub fn answered(&mut self, now: Instant, slot: Slot) {
        let evidence = &mut self.store.evidence[slot.index()];
        evidence.answers(now);
        let node = &mut self.nodes[slot.index()];
        if node.doubted && evidence.is_report_due(now) {
            if node.health == Health::Silent {
                node.health = Health::Up;
                self.store.guards.returns(slot, now);
            }
            self.store.signs.push(Sign::Answer { slot });
        }
    }

    /// Counts a request that is sent to a node, retransmissions included.
    pub fn count_request(&mut self, now: Instant, slot: Slot, request: &RequestFacts<'_>) {
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

    /// Counts a response from a node.
    pub fn count_response(&mut self, slot: Slot, status: u16) {
        self.store.stats[slot.index()].responses.count(status);
    }

    /// Handles a 503 of a node. If the node lately refused at least half of its new requests with 503, it pauses until
    /// `until`, but for at most [`SessionSettings::max_rest`]. The pause starts at once in this shard, and in the other
    /// shards through the [`Sign`]. A node that `asked` for the pause (Retry-After) gets new calls only as trials.
    /// Otherwise it also gets calls when no other node takes any.
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

    /// Handles an ICMP error for a request to a node. Until `until` the node gets new calls only when no other node
    /// takes any.
    pub fn unreachable(&mut self, now: Instant, slot: Slot, until: Instant) {
        if self.nodes[slot.index()].pause(now, until, false) {
            self.store.signs.push(Sign::Unreachable { slot, until });
        }
    }

    /// Ends leases and sessions whose time is over; returns their number. One call ends only a limited number.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.store.expire(now)
    }

    /// Time at which [`expire`](Self::expire) is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.store.deadline()
    }

    /// Sets whether [`first_answers`](Self::first_answers) are recorded.
    pub fn keep_first_answers(&mut self, keeps: bool) {
        let kept = self.store.first_answers.take().filter(|_| keeps);
        self.store.first_answers = kept.or_else(|| keeps.then(Vec::new));
    }

    /// Drains the first responses to INVITEs that start calls.
    pub fn first_answers(&mut self) -> impl Iterator<Item = FirstAnswer> + '_ {
        self.store.first_answers.iter_mut().flat_map(|answers| answers.drain(..))
    }

    /// Drains the signs about the health of nodes.
    pub fn drain_signs(&mut self) -> impl Iterator<Item = Sign> + '_ {
        self.store.signs.drain(..)
    }

    /// Whether some node of the request's pool would take the request as a new one if the node had no limit.
    pub fn is_full(&self, now: Instant, request: &RequestFacts<'_>) -> bool {
        let picture = self.assignment_input(now, request.pool);
        let candidates = picture.candidates(request.method).with_priority(request.has_priority);
        let is_full = |refusal: NodeRefusal| refusal == NodeRefusal::Full || refusal.is_of_load();
        candidates.all().any(|(_, refusal)| refusal.is_some_and(is_full))
    }

    /// Returns the decision that [`request`](Self::request) would make, and the state of every member of the pool.
    /// Changes nothing.
    pub fn explain(&self, now: Instant, request: &RequestFacts<'_>) -> (NodeDecision, Vec<CandidateVerdict>) {
        let picture = self.assignment_input(now, request.pool);
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

    /// The nodes as of the last [`set_nodes`](Self::set_nodes).
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Configured members of a pool, whether or not they take requests.
    pub fn members(&self, pool: PoolId) -> impl Iterator<Item = Slot> + '_ {
        self.nodes_of(pool).filter(|slot| self.nodes[slot.index()].member)
    }

    /// Whether a node is or was a member of a pool.
    pub fn is_of(&self, pool: PoolId, slot: Slot) -> bool {
        self.pools.get(pool).members.has(slot)
    }

    /// Nodes of a pool, including former members.
    pub fn nodes_of(&self, pool: PoolId) -> impl Iterator<Item = Slot> + '_ {
        self.pools.get(pool).members.from(Slot(0), self.nodes.len())
    }

    /// Whether a live member of a pool, none of `except`, takes a new request of this method. With `trials`, also a
    /// member that is due for a trial request. Nodes of the last resort do not count.
    pub fn takes(&self, now: Instant, pool: PoolId, method: Method, except: &[Slot], trials: bool) -> bool {
        let picture = self.assignment_input(now, pool);
        picture.for_new(method, except, trials).iter().next().is_some()
    }

    /// Whether the transaction of a request is open.
    pub fn has_open(&self, request: &RequestFacts<'_>) -> bool {
        if self.is_idle() {
            return false;
        }
        let at = self.store.session_of(request);
        at.is_some_and(|at| self.store.find(at, &TransactionId::served_by(request)).is_some())
    }

    /// Records that an INVITE was cancelled by a CANCEL that does not pass this balancer. The INVITE ends within a
    /// transaction time-out.
    pub fn cancelled(&mut self, now: Instant, invite: &RequestFacts<'_>) {
        if let Some(at) = self.store.session_of(invite) {
            self.store.cancel(now, at, invite);
        }
    }

    /// Name of a pool's policy.
    pub fn policy_name(&self, pool: PoolId) -> &'static str {
        self.pools.get(pool).policy.name()
    }

    /// Load of a node: leases of this shard, and the last report of the other shards.
    pub fn load(&self, slot: Slot) -> LoadCell {
        self.store.leases.cell(slot)
    }

    /// State of a node's limits; `None` if the node has no limits.
    pub fn room(&self, now: Instant, slot: Slot) -> Option<MemberRoom> {
        self.store.guards.room(now, slot)
    }

    /// Counters of a node.
    pub fn stats(&self, slot: Slot) -> &NodeStats {
        &self.store.stats[slot.index()]
    }

    /// Histograms by pool of nodes that were in it: another node has the slot, or the node has another first pool.
    pub fn former_histograms(&self) -> &BTreeMap<PoolId, NodeHistograms> {
        &self.store.former
    }

    /// Whether the session table is empty.
    pub fn is_idle(&self) -> bool {
        self.store.table.len() == 0
    }

    /// Numbers of entries in the session table.
    pub fn counts(&self) -> TableCounts {
        self.store.table.counts()
    }

    /// Number of open transactions.
    pub fn open_transactions(&self) -> usize {
        self.store.open_transactions()
    }

    /// Whether the transaction of a request is open and belongs to the node that sent the request.
    pub fn is_open(&self, request: &RequestFacts<'_>) -> bool {
        let Some(at) = self.store.session_of(request) else { return false };
        let open = self.store.find(at, &TransactionId::served_by(request));
        open.is_some_and(|key| Some(self.store.slot_of(key)) == request.pinned)
    }

    /// Session of a request.
    pub fn session_of(&self, request: &RequestFacts<'_>) -> Option<SessionView> {
        self.store.session_of(request).map(|at| self.store.view(self.store.table.get(at)))
    }

    /// Whether a request belongs to an answered dialog whose call is in the table.
    pub fn has_dialog(&self, request: &RequestFacts<'_>) -> bool {
        let session = self.store.session_of(request).map(|at| self.store.table.get(at));
        session.is_some_and(|session| session.has_dialog(request.dialog()))
    }

    /// Session with this key ([`CallKey::with_initiator`]).
    pub fn session(&self, key: CallKey) -> Option<SessionView> {
        self.store.table.find(key).map(|at| self.store.view(self.store.table.get(at)))
    }

    /// Visits up to `budget` sessions from key `from` on, and returns the key to continue with. For walks over a large
    /// table that must not delay the traffic.
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
    /// The text names the node whose load differs, with both values.
    pub fn audit(&self) -> Result<(), String> {
        self.store.audit()
    }
}
