use crate::books::Books;
use crate::policy::{Candidates, NewCall};
use crate::{Decision, Direction, Node, Policy, Request, Slot, State, Why};
use base::Instant;
use wire::Method;

/// What is to be done with a request, worked out without changing anything (so `explain` can ask too).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) decision: Decision,
    /// Its session, if it is in the table.
    pub(crate) session: Option<u32>,
    pub(crate) step: Step,
}

/// What the books have to note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing: it was seen before, or it is not forwarded to one node.
    Nothing,
    /// A new transaction.
    Open,
    /// The unanswered transaction with this key goes to another node.
    Move(u32),
    /// An ACK to a 2xx or of a call known from its token.
    Acknowledge,
    /// A CANCEL.
    Cancel,
}

/// Where the plan looks things up.
pub(crate) struct Picture<'a> {
    pub(crate) now: Instant,
    pub(crate) nodes: &'a [Node],
    pub(crate) books: &'a Books,
}

impl Picture<'_> {
    /// The digest's Fig. 4, lines 1 to 13: find the session, else select a node.
    pub(crate) fn plan(&self, request: &Request<'_>, policy: &mut dyn Policy) -> Plan {
        let session = self.books.table.find(request.key);
        let known = self.known_node(request, session);
        let forward = |slot, why, step| Plan { decision: Decision::Forward { slot, why }, session, step };
        match (request.method, known) {
            (Method::Ack, Some((slot, why))) => forward(slot, why, Step::Acknowledge),
            (Method::Cancel, Some((slot, why))) => forward(slot, why, Step::Cancel),
            // Neither carries a token when it belongs to an initial INVITE: whoever has that INVITE will know.
            (Method::Ack | Method::Cancel, None) => {
                Plan { decision: Decision::Search, session, step: Step::Nothing }
            }
            (_, Some((slot, why))) => self.known(request, session, slot, why, policy),
            (_, None) if request.in_dialog => {
                Plan { decision: Decision::Orphan, session, step: Step::Nothing }
            }
            (_, None) => self.fresh(request, session, Step::Open, Why::Policy, policy),
        }
    }

    /// The node that a token or the session names. A token is bound to its dialog and so comes first.
    fn known_node(&self, request: &Request<'_>, session: Option<u32>) -> Option<(Slot, Why)> {
        let by_token = request.pinned.map(|slot| (slot, Why::Token));
        by_token.or_else(|| session.map(|at| (self.books.table.get(at).slot, Why::Session)))
    }

    fn known(
        &self,
        request: &Request<'_>,
        session: Option<u32>,
        slot: Slot,
        why: Why,
        policy: &mut dyn Policy,
    ) -> Plan {
        let free = !request.in_dialog && request.pinned.is_none();
        let movable = free && !self.nodes[slot.index()].reachable;
        let repeated = session
            .is_some_and(|at| request.cseq < self.books.table.get(at).seen[request.direction as usize]);
        let stay = |step| Plan { decision: Decision::Forward { slot, why }, session, step };
        if !repeated {
            // A new transaction of the call (also an INVITE that comes again with credentials):
            // on its node, unless no dialog ties it there and that is dead, or takes nothing new and the last one is over.
            return if movable {
                self.fresh(request, session, Step::Open, Why::Moved, policy)
            } else if free && session.is_some_and(|at| self.is_done_with(at, slot)) {
                self.fresh(request, session, Step::Open, Why::Policy, policy)
            } else {
                stay(Step::Open)
            };
        }
        let open =
            session.and_then(|at| self.books.find(at, request.cseq, request.method, request.direction));
        match open {
            // A retransmission that nobody answered: the only kind that may move.
            Some(key) if movable && !self.books.transaction(key).answered => {
                self.fresh(request, session, Step::Move(key), Why::Moved, policy)
            }
            _ => stay(Step::Nothing),
        }
    }

    /// Whether a session is over and its node takes nothing new: a REGISTER that comes every few seconds must not
    /// keep a node from draining. Who asked for credentials gets the request again all the same.
    fn is_done_with(&self, at: u32, slot: Slot) -> bool {
        let session = self.books.table.get(at);
        let over = session.state == State::Expired && !session.challenged;
        over && self.nodes[slot.index()].refusal(self.now, 0).is_some()
    }

    fn fresh(
        &self,
        request: &Request<'_>,
        session: Option<u32>,
        step: Step,
        why: Why,
        policy: &mut dyn Policy,
    ) -> Plan {
        let candidates = Candidates::new(self.now, self.nodes, &self.books.leases);
        let call = NewCall { key: request.key, call_id: request.call_id };
        match policy.choose(&call, &candidates) {
            Some(slot) => Plan { decision: Decision::Forward { slot, why }, session, step },
            None => Plan { decision: Decision::NoServer, session, step: Step::Nothing },
        }
    }
}

/// Enters what was planned into the books.
pub(crate) fn carry_out(books: &mut Books, now: Instant, request: &Request<'_>, plan: Plan) {
    let Decision::Forward { slot, why } = plan.decision else { return };
    match plan.step {
        Step::Nothing => {}
        Step::Open => open(books, now, request, plan.session, slot, why),
        Step::Move(key) => {
            books.withdraw(key);
            open(books, now, request, plan.session, slot, why);
        }
        Step::Acknowledge => acknowledge(books, now, request, plan.session, slot),
        Step::Cancel => {
            if let Some(at) = plan.session
                && books.cancel(now, at, request)
            {
                books.open(now, at, request, slot);
            }
        }
    }
}

fn open(books: &mut Books, now: Instant, request: &Request<'_>, session: Option<u32>, slot: Slot, why: Why) {
    let at = session.unwrap_or_else(|| books.enter(now, request.key, slot));
    if matches!(why, Why::Policy | Why::Moved) {
        books.stats[slot.index()].assigned += 1;
    }
    let entry = books.table.get_mut(at);
    entry.slot = slot;
    let before = entry.state;
    let state = match (request.method, before) {
        (Method::Invite, State::Plain | State::Expired | State::Invited) if !request.in_dialog => {
            State::Invited
        }
        (Method::Bye, _) => State::Closing,
        // In a dialog that only the token knew of.
        (Method::Invite | Method::Update | Method::Prack, State::Plain | State::Expired) => State::Confirmed,
        (_, State::Expired) => State::Plain,
        (_, other) => other,
    };
    books.set_state(now, at, state);
    if matches!(state, State::Invited | State::Confirmed) {
        books.take_call(at);
    }
    books.open(now, at, request, slot);
}

fn acknowledge(books: &mut Books, now: Instant, request: &Request<'_>, session: Option<u32>, slot: Slot) {
    match session {
        Some(at) if books.table.get(at).state == State::Answered => {
            books.set_state(now, at, State::Confirmed);
        }
        // After a restart: the token says that this is a call of ours. From the pool, any member may say so.
        None if request.direction == Direction::ToPool || request.in_dialog => {
            let at = books.enter(now, request.key, slot);
            books.set_state(now, at, State::Confirmed);
            books.take_call(at);
        }
        _ => {}
    }
}
