//! Chooses the node of a request without changing anything.

use crate::lease::CallLease;
use crate::members::Members;
use crate::policy::{Candidate, Candidates, NewCall};
use crate::store::SessionStore;
use crate::transaction::TransactionId;
use crate::{Node, NodeDecision, NodeRefusal, Policy, RequestFacts, SessionState, Slot, Why};
use base::Instant;
use wire::Method;

/// Decision about a request, and the step that carries it out. It is computed without changes of state, so that
/// `explain` can also use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Assignment {
    pub(crate) decision: NodeDecision,
    /// Session of the request, if it is in the table.
    pub(crate) session: Option<u32>,
    pub(crate) step: Step,
}

impl Assignment {
    /// Whether the assignment opens a transaction.
    pub(crate) fn opens(&self) -> bool {
        matches!(self.step, Step::Open | Step::OpenInOtherPool | Step::Move(_))
    }

    /// Whether the assignment may need a new session.
    pub(crate) fn enters(&self) -> bool {
        self.session.is_none() && (self.opens() || self.step == Step::Acknowledge)
    }

    /// Decision if no session can be entered: a new request is refused, any other request is forwarded without being
    /// recorded.
    pub(crate) fn without_room(&self) -> NodeDecision {
        match self.decision {
            NodeDecision::Forward { why: Why::Policy | Why::Moved, .. } => NodeDecision::NoRoom,
            other => other,
        }
    }
}

/// Change that the session store has to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// No change: the request was seen before, or does not go to one node.
    Nothing,
    /// A new transaction.
    Open,
    /// A new transaction of a call whose node is in another pool. The session stays with its node.
    OpenInOtherPool,
    /// The unanswered transaction with this key goes to another node.
    Move(u32),
    /// An ACK to a 2xx, or an ACK of a call that is known from its token.
    Acknowledge,
    /// A CANCEL.
    Cancel,
}

/// The state that an assignment reads.
pub(crate) struct AssignmentInput<'a> {
    pub(crate) now: Instant,
    pub(crate) nodes: &'a [Node],
    pub(crate) store: &'a SessionStore,
    /// Nodes of the request's pool.
    pub(crate) members: &'a Members,
    /// Whether the measured limits of members apply.
    pub(crate) is_limited: bool,
}

impl AssignmentInput<'_> {
    /// Figure 4 of the TLWL digest, lines 1 to 13: finds the session; if there is none, selects a node.
    pub(crate) fn assignment(&self, request: &RequestFacts<'_>, policy: &mut dyn Policy) -> Assignment {
        let session = self.store.session_of(request);
        let open = session.and_then(|at| self.store.find(at, &TransactionId::served_by(request)));
        let known = self.known_node(request, session, open);
        let forward =
            |slot, why, step| Assignment { decision: NodeDecision::Forward { slot, why }, session, step };
        match (request.method, known) {
            (Method::Ack, Some((slot, why))) => forward(slot, why, Step::Acknowledge),
            (Method::Cancel, Some((slot, why))) => forward(slot, why, Step::Cancel),
            // An ACK or CANCEL of an initial INVITE has no token. The shard or balancer that has the INVITE knows the
            // node.
            (Method::Ack | Method::Cancel, None) => {
                Assignment { decision: NodeDecision::Search, session, step: Step::Nothing }
            }
            (_, Some((slot, why))) => self.known(request, session, open, (slot, why), policy),
            (_, None) if request.in_dialog => {
                Assignment { decision: NodeDecision::Orphan, session, step: Step::Nothing }
            }
            (_, None) => self.fresh(request, session, Step::Open, Why::Policy, policy),
        }
    }

    /// Assigns a new request to a node that takes new requests, whatever the node of its session. A request that a node
    /// already has stays there, since that node may be ringing.
    pub(crate) fn anew(&self, request: &RequestFacts<'_>, policy: &mut dyn Policy) -> Assignment {
        let session = self.store.session_of(request);
        let open = session.and_then(|at| self.store.find(at, &TransactionId::served_by(request)));
        if let Some(key) = open {
            let decision = NodeDecision::Forward { slot: self.store.slot_of(key), why: Why::Session };
            return Assignment { decision, session, step: Step::Nothing };
        }
        self.fresh(request, session, Step::Open, Why::Policy, policy)
    }

    /// Assigns a request that failed at a node to another node, which is none of `except`.
    pub(crate) fn again(
        &self,
        request: &RequestFacts<'_>,
        except: &[Slot],
        policy: &mut dyn Policy,
    ) -> Assignment {
        let session = self.store.session_of(request);
        let open = session.and_then(|at| self.store.find(at, &TransactionId::served_by(request)));
        let step = open.map_or(Step::Open, Step::Move);
        match self.choose(request, except, Why::Moved, policy) {
            Some(slot) => {
                Assignment { decision: NodeDecision::Forward { slot, why: Why::Moved }, session, step }
            }
            None => self.unassigned(request, session, except, Why::Moved),
        }
    }

    /// Assignment of a request that no node takes.
    fn unassigned(
        &self,
        request: &RequestFacts<'_>,
        session: Option<u32>,
        except: &[Slot],
        why: Why,
    ) -> Assignment {
        let decision =
            self.refusal(request, except, why).map_or(NodeDecision::NoServer, NodeDecision::AtLimit);
        Assignment { decision, session, step: Step::Nothing }
    }

    /// The limit because of which a new request does not go to nodes that would otherwise take it.
    pub(crate) fn refusal(
        &self,
        request: &RequestFacts<'_>,
        except: &[Slot],
        why: Why,
    ) -> Option<NodeRefusal> {
        self.candidates(request.method)
            .except(except)
            .with_priority(passes_twice(request, why))
            .load_refusal()
    }

    /// Nodes that refuse a new request only because of a limit, each with this limit. The chosen node is left out,
    /// since this request may have used its last place.
    pub(crate) fn held_back(
        &self,
        request: &RequestFacts<'_>,
        decision: NodeDecision,
    ) -> Vec<(Slot, NodeRefusal)> {
        let (chosen, why) = match decision {
            NodeDecision::Forward { slot, why: why @ (Why::Policy | Why::Moved) } => (Some(slot), why),
            NodeDecision::AtLimit(_) => (None, Why::Policy),
            _ => return Vec::new(),
        };
        let candidates = self.candidates(request.method).with_priority(passes_twice(request, why));
        let by_load = |(candidate, refusal): (Candidate, Option<NodeRefusal>)| {
            Some((candidate.slot, refusal.filter(|refusal| refusal.is_of_load())?))
        };
        candidates.all().filter_map(by_load).filter(|(slot, _)| Some(*slot) != chosen).collect()
    }

    /// Assigns a request back to a node that already has it, even if that node takes no new requests.
    pub(crate) fn back(&self, request: &RequestFacts<'_>, slot: Slot) -> Assignment {
        let session = self.store.session_of(request);
        let open = session.and_then(|at| self.store.find(at, &TransactionId::served_by(request)));
        let step = open.map_or(Step::Open, Step::Move);
        Assignment { decision: NodeDecision::Forward { slot, why: Why::Session }, session, step }
    }

    /// Node that a token or the session names. A token comes first, since it is bound to its dialog. Next comes the
    /// node of the open transaction to which this retransmission, CANCEL or ACK belongs. The node of the call comes
    /// last. These nodes differ when a call came in several branches and the node of one died.
    fn known_node(
        &self,
        request: &RequestFacts<'_>,
        session: Option<u32>,
        open: Option<u32>,
    ) -> Option<(Slot, Why)> {
        if let Some(slot) = request.pinned {
            return Some((slot, Why::Token));
        }
        let of_open = open.map(|key| self.store.slot_of(key));
        let of_branch = || session.and_then(|_| self.store.beside.of_branch(request));
        let slot = of_open.or_else(of_branch).or_else(|| session.map(|at| self.store.table.get(at).slot))?;
        Some((slot, Why::Session))
    }

    fn known(
        &self,
        request: &RequestFacts<'_>,
        session: Option<u32>,
        open: Option<u32>,
        (slot, why): (Slot, Why),
        policy: &mut dyn Policy,
    ) -> Assignment {
        let free = !request.in_dialog && request.pinned.is_none();
        let movable = free && !self.nodes[slot.index()].is_up() && !self.is_last_resort(slot, request.method);
        let stay = |step| Assignment { decision: NodeDecision::Forward { slot, why }, session, step };
        if let Some(key) = open {
            // Only an unanswered request may move to another node.
            if movable && self.may_move(key) {
                return self.fresh(request, session, Step::Move(key), Why::Moved, policy);
            }
            return stay(Step::Nothing);
        }
        if free
            && !self.members.has(slot)
            && let Some(at) = session
        {
            return self.to_other_pool(request, at, policy);
        }
        if session.is_some_and(|at| self.repeats_closed(at, request)) {
            return stay(Step::Nothing);
        }
        // A new transaction of the call, such as an INVITE sent again with credentials. It goes to the call's node,
        // with two exceptions for requests outside dialogs: the node is dead, or the call is over and the node takes no
        // new requests.
        if movable {
            self.fresh(request, session, Step::Open, Why::Moved, policy)
        } else if free && session.is_some_and(|at| self.is_done_with(at, slot, request.method)) {
            self.fresh(request, session, Step::Open, Why::Policy, policy)
        } else {
            stay(Step::Open)
        }
    }

    /// Assigns another branch of a call. The pool of this branch does not contain the call's node: the call was forked
    /// upstream, or spirals.
    fn to_other_pool(&self, request: &RequestFacts<'_>, at: u32, policy: &mut dyn Policy) -> Assignment {
        if matches!(self.store.table.get(at).state, SessionState::Plain | SessionState::Expired) {
            return self.fresh(request, Some(at), Step::Open, Why::Policy, policy);
        }
        let before = self.store.beside.of_call(request);
        match before.filter(|&slot| self.members.has(slot) && self.nodes[slot.index()].is_up()) {
            Some(slot) => {
                let decision = NodeDecision::Forward { slot, why: Why::Session };
                Assignment { decision, session: Some(at), step: Step::OpenInOtherPool }
            }
            None => self.fresh(request, Some(at), Step::OpenInOtherPool, Why::Policy, policy),
        }
    }

    /// Whether an open transaction is unanswered and may go to another node. A node that was already dead when it got
    /// the request, as a trial, is left only on the caller's retransmission after T1 (RFC 3261 §17.1.1.2). A copy that
    /// the network made comes earlier and does not count.
    fn may_move(&self, key: u32) -> bool {
        let open = self.store.transaction(key);
        let half_t1 = self.store.settings.transaction_timeout / 128;
        let died_since = !self.store.leases.is_live(&open.lease);
        !open.answered && (died_since || self.now.saturating_since(open.started) >= half_t1)
    }

    /// Whether a request outside open transactions repeats a closed one. A request forked upstream comes in several
    /// branches with one CSeq. While one branch is open, another branch does not count as a repetition. Later it does;
    /// then only one transaction is not counted.
    fn repeats_closed(&self, at: u32, request: &RequestFacts<'_>) -> bool {
        // Any sender may have sent a request with a higher CSeq. While the dialog lasts, no BYE of it has been
        // answered.
        if self.store.hangs_up(at, request) {
            return false;
        }
        let seen = self.store.table.get(at).seen[request.direction as usize];
        request.cseq < seen && !self.store.has_sibling(at, &request.into())
    }

    /// Whether a session is over and its node takes no new requests of this method. Without this check, a REGISTER
    /// every few seconds would keep a node from draining. A node that sent a challenge still gets the request with
    /// credentials.
    fn is_done_with(&self, at: u32, slot: Slot, method: Method) -> bool {
        let session = self.store.table.get(at);
        let over = session.state == SessionState::Expired && !session.challenged;
        over && self.candidates(method).get(slot).is_none()
    }

    /// Whether a node takes calls only because no other node does. Its requests stay there.
    fn is_last_resort(&self, slot: Slot, method: Method) -> bool {
        let candidates = self.candidates(method).or_last_resort();
        candidates.is_last_resort() && candidates.get(slot).is_some()
    }

    /// Nodes that take a new request, without those in `except`. `trials`: includes dead nodes that are due for a trial
    /// request.
    pub(crate) fn for_new<'a>(&'a self, method: Method, except: &'a [Slot], trials: bool) -> Candidates<'a> {
        let candidates = self.candidates(method).except(except);
        if trials { candidates.with_trials() } else { candidates }
    }

    pub(crate) fn candidates(&self, method: Method) -> Candidates<'_> {
        Candidates::takers(self.now, (self.nodes, self.members), self.store, method, self.is_limited)
    }

    fn fresh(
        &self,
        request: &RequestFacts<'_>,
        session: Option<u32>,
        step: Step,
        why: Why,
        policy: &mut dyn Policy,
    ) -> Assignment {
        match self.choose(request, &[], why, policy) {
            Some(slot) => Assignment { decision: NodeDecision::Forward { slot, why }, session, step },
            None => self.unassigned(request, session, &[], why),
        }
    }

    /// The node that the policy chooses for a new request among the takers, none of `except`.
    pub(crate) fn choose(
        &self,
        request: &RequestFacts<'_>,
        except: &[Slot],
        why: Why,
        policy: &mut dyn Policy,
    ) -> Option<Slot> {
        let has_priority = passes_twice(request, why);
        let candidates = self.takers((request.method, has_priority), except, why == Why::Policy);
        policy.choose(&NewCall { key: request.key, call_id: request.call_id }, &candidates)
    }

    /// Like [`for_new`](Self::for_new), or nodes of the last resort if there are none.
    pub(crate) fn takers<'a>(
        &'a self,
        (method, has_priority): (Method, bool),
        except: &'a [Slot],
        trials: bool,
    ) -> Candidates<'a> {
        let candidates = self.for_new(method, except, trials).with_priority(has_priority).or_last_resort();
        if trials { candidates.or_half_open() } else { candidates }
    }
}

/// Whether a request may exceed the limits of members up to twofold. A request that leaves a failed member was admitted
/// before.
fn passes_twice(request: &RequestFacts<'_>, why: Why) -> bool {
    request.has_priority || why == Why::Moved
}

/// Error: another shard took the last place on the chosen node.
pub(crate) struct PlaceTaken;

/// Takes the place of the call that the assignment starts, if any.
pub(crate) fn take_call(
    store: &mut SessionStore,
    request: &RequestFacts<'_>,
    assignment: Assignment,
) -> Result<Option<CallLease>, PlaceTaken> {
    match assignment.decision {
        NodeDecision::Forward { slot, why: Why::Policy | Why::Moved } if request.method == Method::Invite => {
            store.leases.new_call(slot).map(Some).ok_or(PlaceTaken)
        }
        _ => Ok(None),
    }
}

/// Enters the assignment into the session store, with the place taken for its call.
pub(crate) fn carry_out(
    store: &mut SessionStore,
    now: Instant,
    request: &RequestFacts<'_>,
    assignment: Assignment,
    place: Option<CallLease>,
) {
    let NodeDecision::Forward { slot, why } = assignment.decision else { return };
    if let Some(at) = assignment.session
        && !matches!(assignment.step, Step::Open | Step::OpenInOtherPool | Step::Move(_))
    {
        store.linger_on(now, at);
    }
    match assignment.step {
        Step::Nothing => {}
        Step::Open => open(store, now, request, (assignment.session, false), (slot, why), place),
        Step::OpenInOtherPool => {
            store.beside.note(request, slot);
            open(store, now, request, (assignment.session, true), (slot, why), place);
        }
        Step::Move(key) => {
            store.withdraw(now, key);
            open(store, now, request, (assignment.session, false), (slot, why), place);
        }
        Step::Acknowledge => acknowledge(store, now, request, assignment.session, slot),
        Step::Cancel => {
            if let Some(at) = assignment.session
                && store.cancel(now, at, request)
            {
                store.open(now, at, request, slot);
            }
        }
    }
}

fn open(
    store: &mut SessionStore,
    now: Instant,
    request: &RequestFacts<'_>,
    (session, is_beside): (Option<u32>, bool),
    (slot, why): (Slot, Why),
    place: Option<CallLease>,
) {
    let at = session.unwrap_or_else(|| store.enter(now, request, slot));
    let hangs_up = store.hangs_up(at, request);
    if matches!(why, Why::Policy | Why::Moved) {
        store.stats[slot.index()].assigned += 1;
    }
    // After a restart or a fork upstream, a token may name another node than the session has: the node of a second
    // branch. The session stays with its node, and so does the path of its CANCEL. A BYE only ends a dialog.
    let stays = store.counts_call(at) || request.method == Method::Bye;
    let is_other_branch = is_beside || (why == Why::Token && stays);
    let entry = store.table.get_mut(at);
    if !is_other_branch {
        entry.slot = slot;
    }
    let over = matches!(entry.state, SessionState::Plain | SessionState::Expired);
    // A late copy of a re-INVITE does not restart a call that has ended here.
    let begins = request.method == Method::Invite && (!request.in_dialog || entry.was_never_answered());
    let state = match (request.method, entry.state) {
        (Method::Invite, SessionState::Plain | SessionState::Expired | SessionState::Invited)
            if !request.in_dialog =>
        {
            SessionState::Invited
        }
        (Method::Bye, SessionState::Answered | SessionState::Confirmed) if hangs_up => SessionState::Closing,
        // The dialog is known only from a token. A re-INVITE follows only an answered INVITE (RFC 3261 §14.1). An
        // UPDATE or PRACK may belong to a call that is never answered, so it proves nothing.
        (_, SessionState::Plain | SessionState::Expired) if begins => SessionState::Confirmed,
        (_, SessionState::Expired) => SessionState::Plain,
        (_, other) => other,
    };
    if over && begins {
        entry.proven = false;
    }
    if over && state == SessionState::Confirmed {
        entry.add_dialog(request.dialog());
    }
    let is_of_call = !request.in_dialog || entry.has_dialog(request.dialog());
    store.set_state(now, at, state);
    if is_of_call && matches!(state, SessionState::Invited | SessionState::Confirmed) {
        store.take_call(at, place);
    } else {
        store.leave(place);
    }
    store.open(now, at, request, slot);
}

fn acknowledge(
    store: &mut SessionStore,
    now: Instant,
    request: &RequestFacts<'_>,
    session: Option<u32>,
    slot: Slot,
) {
    let is_proof = request.by_token && request.in_dialog;
    match session {
        Some(at) if store.table.get(at).state == SessionState::Answered => {
            store.set_state(now, at, SessionState::Confirmed);
        }
        // The INVITE was given up here, or the process has restarted. Only the ACK to a 2xx, or to a re-INVITE, has a
        // token, so this ACK belongs to an answered call of this site. The call may be over (a replay), so it has a
        // shorter lifetime until another message confirms it.
        Some(at) if is_proof && store.table.get(at).was_never_answered() => {
            adopt(store, now, at, request, slot);
        }
        None if is_proof => {
            let at = store.enter(now, request, slot);
            adopt(store, now, at, request, slot);
        }
        _ => {}
    }
}

/// Enters an answered call whose INVITE this process has not seen.
fn adopt(store: &mut SessionStore, now: Instant, at: u32, request: &RequestFacts<'_>, slot: Slot) {
    let session = store.table.get_mut(at);
    session.slot = slot;
    session.add_dialog(request.dialog());
    store.set_state(now, at, SessionState::Confirmed);
    store.take_call(at, None);
}
