//! Which node a request is assigned to, worked out without changing anything.

use crate::lease::CallLease;
use crate::members::Members;
use crate::policy::{Candidate, Candidates, NewCall};
use crate::store::SessionStore;
use crate::transaction::TransactionId;
use crate::{Decision, Node, NodeRefusal, Policy, Request, SessionState, Slot, Why};
use base::Instant;
use wire::Method;

/// What is to be done with a request, worked out without changing anything (so `explain` can ask too).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Assignment {
    pub(crate) decision: Decision,
    /// Its session, if it is in the table.
    pub(crate) session: Option<u32>,
    pub(crate) step: Step,
}

impl Assignment {
    /// Whether there is to be one more transaction.
    pub(crate) fn opens(&self) -> bool {
        matches!(self.step, Step::Open | Step::Beside | Step::Move(_))
    }

    /// Whether there may have to be one more session.
    pub(crate) fn enters(&self) -> bool {
        self.session.is_none() && (self.opens() || self.step == Step::Acknowledge)
    }

    /// What becomes of it where no session can be entered: only what is new is refused, all else goes its way
    /// uncounted.
    pub(crate) fn without_room(&self) -> Decision {
        match self.decision {
            Decision::Forward { why: Why::Policy | Why::Moved, .. } => Decision::NoRoom,
            other => other,
        }
    }
}

/// What the session store has to note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing: it was seen before, or it is not forwarded to one node.
    Nothing,
    /// A new transaction.
    Open,
    /// A new transaction of a call whose node is of another pool, where the call stays.
    Beside,
    /// The unanswered transaction with this key goes to another node.
    Move(u32),
    /// An ACK to a 2xx or of a call known from its token.
    Acknowledge,
    /// A CANCEL.
    Cancel,
}

/// Where the assignment looks things up.
pub(crate) struct Picture<'a> {
    pub(crate) now: Instant,
    pub(crate) nodes: &'a [Node],
    pub(crate) store: &'a SessionStore,
    /// Those of the request's pool.
    pub(crate) members: &'a Members,
    /// Whether the limits hold that are found of members.
    pub(crate) is_limited: bool,
}

impl Picture<'_> {
    /// Figure 4 of the TLWL digest, lines 1 to 13: find the session, else select a node.
    pub(crate) fn assignment(&self, request: &Request<'_>, policy: &mut dyn Policy) -> Assignment {
        let session = self.store.session_of(request);
        let open = session.and_then(|at| self.store.find(at, &TransactionId::served_by(request)));
        let known = self.known_node(request, session, open);
        let forward =
            |slot, why, step| Assignment { decision: Decision::Forward { slot, why }, session, step };
        match (request.method, known) {
            (Method::Ack, Some((slot, why))) => forward(slot, why, Step::Acknowledge),
            (Method::Cancel, Some((slot, why))) => forward(slot, why, Step::Cancel),
            // Neither carries a token when it belongs to an initial INVITE: whoever has that INVITE will know.
            (Method::Ack | Method::Cancel, None) => {
                Assignment { decision: Decision::Search, session, step: Step::Nothing }
            }
            (_, Some((slot, why))) => self.known(request, session, open, (slot, why), policy),
            (_, None) if request.in_dialog => {
                Assignment { decision: Decision::Orphan, session, step: Step::Nothing }
            }
            (_, None) => self.fresh(request, session, Step::Open, Why::Policy, policy),
        }
    }

    /// A request that begins something goes to a node that takes new ones, whatever is known of its session. One that
    /// a node has already stays there: that node may ring.
    pub(crate) fn anew(&self, request: &Request<'_>, policy: &mut dyn Policy) -> Assignment {
        let session = self.store.session_of(request);
        let open = session.and_then(|at| self.store.find(at, &TransactionId::served_by(request)));
        if let Some(key) = open {
            let decision = Decision::Forward { slot: self.store.slot_of(key), why: Why::Session };
            return Assignment { decision, session, step: Step::Nothing };
        }
        self.fresh(request, session, Step::Open, Why::Policy, policy)
    }

    /// A request that a node has failed goes to another one, none of these.
    pub(crate) fn again(
        &self,
        request: &Request<'_>,
        except: &[Slot],
        policy: &mut dyn Policy,
    ) -> Assignment {
        let session = self.store.session_of(request);
        let open = session.and_then(|at| self.store.find(at, &TransactionId::served_by(request)));
        let step = open.map_or(Step::Open, Step::Move);
        match self.choose(request, except, Why::Moved, policy) {
            Some(slot) => Assignment { decision: Decision::Forward { slot, why: Why::Moved }, session, step },
            None => self.unassigned(request, session, except, Why::Moved),
        }
    }

    /// Nobody takes a request.
    fn unassigned(
        &self,
        request: &Request<'_>,
        session: Option<u32>,
        except: &[Slot],
        why: Why,
    ) -> Assignment {
        let decision = self.refusal(request, except, why).map_or(Decision::NoServer, Decision::AtLimit);
        Assignment { decision, session, step: Step::Nothing }
    }

    /// The limit that keeps a new request from the nodes that would take it.
    pub(crate) fn refusal(&self, request: &Request<'_>, except: &[Slot], why: Why) -> Option<NodeRefusal> {
        self.candidates(request.method)
            .except(except)
            .with_priority(passes_twice(request, why))
            .load_refusal()
    }

    /// The nodes that would have taken a new request but for their limits, and those. The node that has got it may have
    /// reached its own by that.
    pub(crate) fn held_back(&self, request: &Request<'_>, decision: Decision) -> Vec<(Slot, NodeRefusal)> {
        let (chosen, why) = match decision {
            Decision::Forward { slot, why: why @ (Why::Policy | Why::Moved) } => (Some(slot), why),
            Decision::AtLimit(_) => (None, Why::Policy),
            _ => return Vec::new(),
        };
        let candidates = self.candidates(request.method).with_priority(passes_twice(request, why));
        let by_load = |(candidate, refusal): (Candidate, Option<NodeRefusal>)| {
            Some((candidate.slot, refusal.filter(|refusal| refusal.is_of_load())?))
        };
        candidates.all().filter_map(by_load).filter(|(slot, _)| Some(*slot) != chosen).collect()
    }

    /// A request goes back to a node that has it, whether that takes new ones or not: it is no new one there.
    pub(crate) fn back(&self, request: &Request<'_>, slot: Slot) -> Assignment {
        let session = self.store.session_of(request);
        let open = session.and_then(|at| self.store.find(at, &TransactionId::served_by(request)));
        let step = open.map_or(Step::Open, Step::Move);
        Assignment { decision: Decision::Forward { slot, why: Why::Session }, session, step }
    }

    /// The node that a token or the session names. A token is bound to its dialog and so comes first. Then comes the
    /// node that has the open transaction of which this is a repetition, a CANCEL or an ACK; else that of the call.
    /// They differ where a call came in several branches and a node of one of them died.
    fn known_node(
        &self,
        request: &Request<'_>,
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
        request: &Request<'_>,
        session: Option<u32>,
        open: Option<u32>,
        (slot, why): (Slot, Why),
        policy: &mut dyn Policy,
    ) -> Assignment {
        let free = !request.in_dialog && request.pinned.is_none();
        let movable = free && !self.nodes[slot.index()].is_up() && !self.is_last_resort(slot, request.method);
        let stay = |step| Assignment { decision: Decision::Forward { slot, why }, session, step };
        if let Some(key) = open {
            // A retransmission that nobody answered: the only kind that may move.
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
        // A new transaction of the call (also an INVITE that comes again with credentials): on its node, unless no
        // dialog ties it there and that is dead, or takes nothing new and the last one is over.
        if movable {
            self.fresh(request, session, Step::Open, Why::Moved, policy)
        } else if free && session.is_some_and(|at| self.is_done_with(at, slot, request.method)) {
            self.fresh(request, session, Step::Open, Why::Policy, policy)
        } else {
            stay(Step::Open)
        }
    }

    /// Another branch of a call, which is for another pool than that of the call's node: it was forked upstream, or
    /// spirals.
    fn to_other_pool(&self, request: &Request<'_>, at: u32, policy: &mut dyn Policy) -> Assignment {
        if matches!(self.store.table.get(at).state, SessionState::Plain | SessionState::Expired) {
            return self.fresh(request, Some(at), Step::Open, Why::Policy, policy);
        }
        let before = self.store.beside.of_call(request);
        match before.filter(|&slot| self.members.has(slot) && self.nodes[slot.index()].is_up()) {
            Some(slot) => {
                let decision = Decision::Forward { slot, why: Why::Session };
                Assignment { decision, session: Some(at), step: Step::Beside }
            }
            None => self.fresh(request, Some(at), Step::Beside, Why::Policy, policy),
        }
    }

    /// Whether nobody has answered an open transaction, and it is known by now that nobody will. If its node was dead
    /// when it came, as in a trial, a copy that the network made is no reason to go elsewhere, but the caller's
    /// retransmission after T1 is (RFC 3261 §17.1.1.2).
    fn may_move(&self, key: u32) -> bool {
        let open = self.store.transaction(key);
        let half_t1 = self.store.settings.transaction_timeout / 128;
        let died_since = !self.store.leases.is_live(&open.lease);
        !open.answered && (died_since || self.now.saturating_since(open.started) >= half_t1)
    }

    /// Whether a request that is part of no open transaction repeats one that is over. What was forked upstream comes
    /// with one CSeq in several branches: another branch is told from a repetition while one of them is open. Later
    /// it counts as a late repetition, which costs no more than one transaction that is not counted.
    fn repeats_closed(&self, at: u32, request: &Request<'_>) -> bool {
        // Anybody can have sent a request with a higher CSeq. A dialog that has not ended has seen no BYE answered.
        if self.store.hangs_up(at, request) {
            return false;
        }
        let seen = self.store.table.get(at).seen[request.direction as usize];
        request.cseq < seen && !self.store.has_sibling(at, &request.into())
    }

    /// Whether a session is over and its node takes nothing new of this method: a REGISTER that comes every few
    /// seconds must not keep a node from draining. Who asked for credentials gets the request again all the same.
    fn is_done_with(&self, at: u32, slot: Slot, method: Method) -> bool {
        let session = self.store.table.get(at);
        let over = session.state == SessionState::Expired && !session.challenged;
        over && self.candidates(method).get(slot).is_none()
    }

    /// Whether a node takes calls because no other one does: what it has got stays there.
    fn is_last_resort(&self, slot: Slot, method: Method) -> bool {
        let candidates = self.candidates(method).or_last_resort();
        candidates.is_last_resort() && candidates.get(slot).is_some()
    }

    /// Who takes a new request, none of `except`. `trials`: a dead node may get it as a trial. What one node has left
    /// unanswered is no request to try another with.
    pub(crate) fn for_new<'a>(&'a self, method: Method, except: &'a [Slot], trials: bool) -> Candidates<'a> {
        let candidates = self.candidates(method).except(except);
        if trials { candidates.with_trials() } else { candidates }
    }

    pub(crate) fn candidates(&self, method: Method) -> Candidates<'_> {
        Candidates::takers(self.now, (self.nodes, self.members), self.store, method, self.is_limited)
    }

    fn fresh(
        &self,
        request: &Request<'_>,
        session: Option<u32>,
        step: Step,
        why: Why,
        policy: &mut dyn Policy,
    ) -> Assignment {
        match self.choose(request, &[], why, policy) {
            Some(slot) => Assignment { decision: Decision::Forward { slot, why }, session, step },
            None => self.unassigned(request, session, &[], why),
        }
    }

    /// Whom the policy chooses for a new request among those that take it, and that are none of these.
    pub(crate) fn choose(
        &self,
        request: &Request<'_>,
        except: &[Slot],
        why: Why,
        policy: &mut dyn Policy,
    ) -> Option<Slot> {
        let has_priority = passes_twice(request, why);
        let candidates = self.takers((request.method, has_priority), except, why == Why::Policy);
        policy.choose(&NewCall { key: request.key, call_id: request.call_id }, &candidates)
    }

    /// The same as [`for_new`](Self::for_new), or those of the last resort where there are none.
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

/// Whether a request passes the limits of members up to twice. One that leaves a member that failed it has been let in
/// before.
fn passes_twice(request: &Request<'_>, why: Why) -> bool {
    request.has_priority || why == Why::Moved
}

/// Another shard has taken the last place on the node that was chosen.
pub(crate) struct Gone;

/// Takes the place of the call that the assignment begins, if it begins one.
pub(crate) fn take_call(
    store: &mut SessionStore,
    request: &Request<'_>,
    assignment: Assignment,
) -> Result<Option<CallLease>, Gone> {
    match assignment.decision {
        Decision::Forward { slot, why: Why::Policy | Why::Moved } if request.method == Method::Invite => {
            store.leases.new_call(slot).map(Some).ok_or(Gone)
        }
        _ => Ok(None),
    }
}

/// Enters what was planned into the session store, and the call in its place.
pub(crate) fn carry_out(
    store: &mut SessionStore,
    now: Instant,
    request: &Request<'_>,
    assignment: Assignment,
    place: Option<CallLease>,
) {
    let Decision::Forward { slot, why } = assignment.decision else { return };
    if let Some(at) = assignment.session
        && !matches!(assignment.step, Step::Open | Step::Beside | Step::Move(_))
    {
        store.linger_on(now, at);
    }
    match assignment.step {
        Step::Nothing => {}
        Step::Open => open(store, now, request, (assignment.session, false), (slot, why), place),
        Step::Beside => {
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
    request: &Request<'_>,
    (session, is_beside): (Option<u32>, bool),
    (slot, why): (Slot, Why),
    place: Option<CallLease>,
) {
    let at = session.unwrap_or_else(|| store.enter(now, request, slot));
    let hangs_up = store.hangs_up(at, request);
    if matches!(why, Why::Policy | Why::Moved) {
        store.stats[slot.index()].assigned += 1;
    }
    // A token may lead to another node than that of the call: to a second branch, which a restart or a fork upstream
    // has begun. The call stays where it counts, and so does the way of its CANCEL. A BYE only ends something.
    let stays = store.counts_call(at) || request.method == Method::Bye;
    let is_other_branch = is_beside || (why == Why::Token && stays);
    let entry = store.table.get_mut(at);
    if !is_other_branch {
        entry.slot = slot;
    }
    let over = matches!(entry.state, SessionState::Plain | SessionState::Expired);
    // A late copy of a re-INVITE does not begin a call again that has ended here.
    let begins = request.method == Method::Invite && (!request.in_dialog || entry.was_never_answered());
    let state = match (request.method, entry.state) {
        (Method::Invite, SessionState::Plain | SessionState::Expired | SessionState::Invited)
            if !request.in_dialog =>
        {
            SessionState::Invited
        }
        (Method::Bye, SessionState::Answered | SessionState::Confirmed) if hangs_up => SessionState::Closing,
        // In a dialog that only the token knew of: one INVITE follows another only when that was answered (RFC 3261
        // §14.1). An UPDATE or PRACK may belong to a call that never gets so far, and proves nothing.
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
    request: &Request<'_>,
    session: Option<u32>,
    slot: Slot,
) {
    let is_proof = request.by_token && request.in_dialog;
    match session {
        Some(at) if store.table.get(at).state == SessionState::Answered => {
            store.set_state(now, at, SessionState::Confirmed);
        }
        // Its INVITE had been given up here, or the process has restarted. Only the ACK to a 2xx, or to a re-INVITE,
        // carries a token: it is an answered call of ours. The call that it was part of may be over (a replay), so it
        // counts for a shorter time until more is heard of it.
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

/// Counts a call whose beginning was not seen.
fn adopt(store: &mut SessionStore, now: Instant, at: u32, request: &Request<'_>, slot: Slot) {
    let session = store.table.get_mut(at);
    session.slot = slot;
    session.add_dialog(request.dialog());
    store.set_state(now, at, SessionState::Confirmed);
    store.take_call(at, None);
}
