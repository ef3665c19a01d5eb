//! Sessions, transactions and leases of a shard, with the rules for when they start and end.

mod answers;
mod silence;

use crate::evidence::Evidence;
use crate::guards::Guards;
use crate::lease::{CallLease, Lease, Leases};
use crate::other_pool::OtherPoolBranches;
use crate::outlier::Outcome;
use crate::session::{NONE, Session, SessionTable};
use crate::transaction::{FirstAnswer, Transaction, TransactionId};
use crate::{
    Direction, EndReason, Node, NodeHistograms, NodeStats, PoolId, RequestFacts, SessionSettings,
    SessionState, SessionView, Sign, Slot,
};
use base::{Instant, Slab, TimerWheel};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use wire::Method;

/// Returns the mean after an update with `value`, which has a weight of 1/16. The first value becomes the mean.
fn ewma(mean: Duration, value: Duration) -> Duration {
    if mean.is_zero() { value } else { (mean * 15 + value) / 16 }
}

/// Most entries that one call ends. So a burst of expiries delays the traffic by at most some hundred microseconds.
/// Remaining entries are due again at once.
const EXPIRE_BUDGET: usize = 1_024;

/// Most requests that have moved on from a node and are watched for an answer of this node. Further requests are not
/// watched, since the watched ones are enough to show that a node is silent.
const LEFT_MOST: usize = 1_024;

/// Most open transactions of a session that are recorded; twice as many for a BYE. No dialog has so many transactions.
/// But any sender may send requests with one Call-ID, and each message searches the list of its session's transactions.
/// Further requests are forwarded but not recorded, and their responses give no [`FirstAnswer`].
const MOST_OPEN: usize = 64;

/// Lifetime of a call that is known only from a token, without further messages. It equals the usual interval of
/// session timers (RFC 4028 §4.2: 1,800 s), so a call with a session timer sends a refresh in time.
const UNPROVEN_LIFETIME: Duration = Duration::from_mins(30);

/// Sessions, transactions and their leases, with every rule for when they start and end. The store does not decide
/// where a request goes.
#[derive(Debug)]
pub(crate) struct SessionStore {
    pub(crate) settings: SessionSettings,
    pub(crate) table: SessionTable,
    transactions: Slab<Transaction>,
    timers: TimerWheel,
    /// Timers of transactions that may be evicted for lack of room, with their session.
    unanswered: TimerWheel,
    pub(crate) leases: Leases,
    pub(crate) stats: Vec<NodeStats>,
    /// Histograms of nodes that were in a pool.
    pub(crate) former: BTreeMap<PoolId, NodeHistograms>,
    /// Evidence about the nodes, by slot.
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) guards: Guards,
    pub(crate) signs: Vec<Sign>,
    /// First responses to INVITEs that start calls; `None` if they are not recorded.
    pub(crate) first_answers: Option<Vec<FirstAnswer>>,
    /// Leases of INVITEs that failed fast. `held_timers` ends these leases.
    held: Slab<Lease>,
    held_timers: TimerWheel,
    /// Mean time from an INVITE to its 2xx.
    mean_success: Duration,
    /// Unanswered requests that were also sent to another node: the end of the watch, the node, and the time of
    /// sending. They are in the order of the end.
    left: VecDeque<(Instant, Slot, Instant)>,
    /// Next session to check when nodes have lost calls; `None` if there is nothing to check.
    pub(crate) lost_from: Option<u32>,
    pub(crate) beside: OtherPoolBranches,
}

impl SessionStore {
    pub(crate) fn new(settings: SessionSettings) -> Self {
        Self {
            settings,
            table: SessionTable::default(),
            transactions: Slab::default(),
            timers: TimerWheel::default(),
            unanswered: TimerWheel::default(),
            leases: Leases::default(),
            stats: Vec::new(),
            former: BTreeMap::new(),
            evidence: Vec::new(),
            guards: Guards::default(),
            signs: Vec::new(),
            first_answers: None,
            held: Slab::default(),
            held_timers: TimerWheel::default(),
            mean_success: Duration::ZERO,
            left: VecDeque::new(),
            lost_from: None,
            beside: OtherPoolBranches::default(),
        }
    }

    /// Open transactions of a session.
    pub(crate) fn open_of(&self, at: u32) -> impl Iterator<Item = (u32, &Transaction)> {
        let some = |key: u32| (key != NONE).then_some(key);
        core::iter::successors(some(self.table.get(at).first), move |&key| some(self.transactions[key].next))
            .map(|key| (key, &self.transactions[key]))
    }

    /// Session of a request.
    pub(crate) fn session_of(&self, request: &RequestFacts<'_>) -> Option<u32> {
        if !request.in_dialog {
            return self.table.find(request.session_key());
        }
        let has_dialog = |at| self.table.get(at).has_dialog(request.dialog());
        self.table.find_of(request.key, request.tags, has_dialog)
    }

    /// Open transaction of a session with this identity.
    pub(crate) fn find(&self, at: u32, id: &TransactionId) -> Option<u32> {
        self.open_of(at).find(|(_, open)| open.id == *id).map(|(key, _)| key)
    }

    /// Node of a transaction.
    pub(crate) fn slot_of(&self, key: u32) -> Slot {
        self.transactions[key].lease.slot()
    }

    /// Whether another branch of the same request is open.
    pub(crate) fn has_sibling(&self, at: u32, id: &TransactionId) -> bool {
        self.open_of(at).any(|(_, open)| TransactionId { branch: id.branch, ..open.id } == *id)
    }

    /// Whether a dialog-forming INVITE is open, which is then a branch of a call that was forked upstream.
    fn is_inviting(&self, at: u32) -> bool {
        self.open_of(at).any(|(_, open)| open.begins)
    }

    pub(crate) fn transaction(&self, key: u32) -> &Transaction {
        &self.transactions[key]
    }

    /// Enters the session of a new request.
    pub(crate) fn enter(&mut self, now: Instant, request: &RequestFacts<'_>, slot: Slot) -> u32 {
        self.table.insert(now, request.session_key(), slot, self.settings.call_lifetime)
    }

    /// Gives the session a call lease on its node, unless it already has a live one there. Uses `place` if it is given.
    pub(crate) fn take_call(&mut self, at: u32, place: Option<CallLease>) {
        let session = self.table.get_mut(at);
        if let Some(held) = session.call.take() {
            if held.slot() == session.slot && self.leases.is_call_live(&held) {
                session.call = Some(held);
                return self.leave(place);
            }
            self.leases.end_call(held);
        }
        session.call = Some(place.unwrap_or_else(|| self.leases.call(session.slot)));
    }

    /// Gives back an unused place.
    pub(crate) fn leave(&mut self, place: Option<CallLease>) {
        if let Some(place) = place {
            self.leases.end_call(place);
        }
    }

    /// Whether the session holds a live call lease.
    pub(crate) fn counts_call(&self, at: u32) -> bool {
        self.table.get(at).call.as_ref().is_some_and(|lease| self.leases.is_call_live(lease))
    }

    fn end_call(&mut self, at: u32) {
        if let Some(lease) = self.table.get_mut(at).call.take() {
            self.leases.end_call(lease);
        }
    }

    pub(crate) fn set_state(&mut self, now: Instant, at: u32, state: SessionState) {
        let lifetime = match state {
            SessionState::Expired => self.settings.linger,
            // RFC 3261 §13.3.1.4: without an ACK the callee ends the call after 64*T1. Its BYE may not arrive.
            SessionState::Answered => {
                (self.settings.transaction_timeout * 2).min(self.settings.call_lifetime)
            }
            SessionState::Confirmed if !self.table.get(at).proven => {
                UNPROVEN_LIFETIME.min(self.settings.call_lifetime)
            }
            _ => self.settings.call_lifetime,
        };
        self.table.set_state(now, at, state, lifetime);
        if !self.may_go(at) {
            self.keep(at);
        }
    }

    /// Prolongs an ended session that gets another request. A restarted upstream proxy may repeat a BYE in a new
    /// transaction, long after the response to the first BYE. The branch of this BYE must stay the same (RFC 3261
    /// §16.11). The session shows whether the branch uses the key from before a key change.
    pub(crate) fn linger_on(&mut self, now: Instant, at: u32) {
        if self.table.get(at).state == SessionState::Expired {
            self.set_state(now, at, SessionState::Expired);
        }
    }

    /// Whether a request is a BYE of one of the call's dialogs. Only caller and callee know the tags of a dialog.
    pub(crate) fn hangs_up(&self, at: u32, request: &RequestFacts<'_>) -> bool {
        request.method == Method::Bye && self.table.get(at).has_dialog(request.dialog())
    }

    /// Whether the request gets no transaction, since its session has [`MOST_OPEN`] transactions, or all sessions
    /// together have `max_sessions`. A BYE of the call may exceed both limits. The first transaction of a session is
    /// always opened, since the session ends with it.
    fn is_one_too_many(&self, at: u32, request: &RequestFacts<'_>) -> bool {
        let hangs_up = self.hangs_up(at, request);
        let most = if hangs_up { 2 * MOST_OPEN } else { MOST_OPEN };
        let is_first = self.table.get(at).first == NONE;
        let is_full = !is_first && !hangs_up && self.transactions.len() >= self.settings.max_sessions;
        is_full || self.open_of(at).nth(most - 1).is_some()
    }

    /// Opens the transaction of a request that has not been seen before, unless there are too many.
    pub(crate) fn open(&mut self, now: Instant, at: u32, request: &RequestFacts<'_>, slot: Slot) {
        let seen = &mut self.table.get_mut(at).seen[request.direction as usize];
        *seen = (*seen).max(request.cseq.saturating_add(1));
        if self.is_one_too_many(at, request) {
            return;
        }
        let unanswered = !request.in_dialog && self.is_unanswered(at);
        let cell = self.leases.cell(slot);
        self.stats[slot.index()].opened(cell.total().transactions);
        let lease = self.leases.transaction(slot, self.settings.weights.work(request.method));
        let session = self.table.get_mut(at);
        let key = self.transactions.insert(Transaction {
            started: now,
            lease,
            session: at,
            next: session.first,
            timer: NONE,
            id: request.into(),
            dialog: request.dialog(),
            begins: request.method == Method::Invite && !request.in_dialog,
            fresh: request.direction == Direction::ToPool && !request.in_dialog,
            unanswered,
            answered: false,
            progressed: false,
            cancelled: false,
        });
        session.first = key;
        if request.direction == Direction::ToPool && !request.in_dialog {
            self.guards.sent(now, slot, request.method);
        }
        let deadline = now + self.settings.transaction_timeout;
        self.transactions[key].timer = self.wheel(unanswered).set(deadline, key);
    }

    fn wheel(&mut self, unanswered: bool) -> &mut TimerWheel {
        if unanswered { &mut self.unanswered } else { &mut self.timers }
    }

    fn reset_timer(&mut self, key: u32, deadline: Instant) {
        let Transaction { timer, unanswered, .. } = self.transactions[key];
        self.wheel(unanswered).reset(timer, deadline);
    }

    /// Updates the limits of a node that died, came back, or is expected back.
    pub(crate) fn guard(&mut self, slot: Slot, before: &Node, node: &Node) {
        if node.deaths != before.deaths {
            self.guards.dies(slot);
        }
        if node.is_up() && !before.is_up() {
            self.guards.returns(slot, node.since);
        } else if !node.is_up() && node.expected_until > before.expected_until {
            self.guards.returns(slot, node.joined);
        }
    }

    /// Protects a session from eviction, since its call rings or was answered.
    pub(crate) fn keep(&mut self, at: u32) {
        let mut next = self.table.get(at).first;
        while next != NONE {
            let open = &mut self.transactions[next];
            if core::mem::take(&mut open.unanswered) {
                let deadline = self.unanswered.deadline_of(open.timer);
                self.unanswered.cancel(open.timer);
                open.timer = self.timers.set(deadline, next);
            }
            next = open.next;
        }
    }

    /// Session of the oldest transaction that may be evicted.
    pub(crate) fn oldest_unanswered(&self) -> Option<u32> {
        self.unanswered.next().map(|key| self.transactions[key].session)
    }

    /// Records a forwarded CANCEL: its INVITE ends within a transaction time-out. Returns whether this is the first
    /// CANCEL of an INVITE that is still open.
    pub(crate) fn cancel(&mut self, now: Instant, at: u32, request: &RequestFacts<'_>) -> bool {
        let Some(key) = self.find(at, &TransactionId::served_by(request)) else { return false };
        let invite = &mut self.transactions[key];
        if core::mem::replace(&mut invite.cancelled, true) {
            return false;
        }
        self.reset_timer(key, now + self.settings.transaction_timeout);
        true
    }

    /// Ends the call and marks the session as expired.
    fn finish(&mut self, now: Instant, at: u32) {
        self.end_call(at);
        self.table.get_mut(at).clear_dialogs();
        self.set_state(now, at, SessionState::Expired);
    }

    /// Ends an unanswered transaction, since its request goes to another node.
    pub(crate) fn withdraw(&mut self, now: Instant, key: u32) {
        self.leave_unanswered(now, key, false);
        let Transaction { timer, unanswered, .. } = self.transactions[key];
        self.wheel(unanswered).cancel(timer);
        self.close(key, EndReason::Moved);
    }

    /// Reports to the guards that a transaction ends without any response. `timed_out`: its time was over.
    pub(crate) fn leave_unanswered(&mut self, now: Instant, key: u32, timed_out: bool) {
        let open = &self.transactions[key];
        if open.fresh && !open.answered && self.leases.is_live(&open.lease) {
            self.guards.left(now, open.lease.slot(), open.started, timed_out);
        }
    }

    /// Ends a transaction whose timer is already removed: unlinks it from its session and returns its lease.
    fn close(&mut self, key: u32, reason: EndReason) {
        let lease = self.unlink(key);
        self.end_transaction(lease, reason);
    }

    /// Ends a failed transaction. An INVITE that failed on the server's side (500, 502, 503, 504, 580) keeps its lease
    /// for the mean time of a successful INVITE. Otherwise a server that fails every call at once would have the least
    /// load and get all calls.
    fn close_failed(&mut self, now: Instant, key: u32, status: u16) {
        let open = &self.transactions[key];
        let until = open.started + self.mean_success;
        let holds = self.settings.hold_failures
            && self.held.len() < self.settings.max_sessions
            && open.begins
            && (status == 503 || Outcome::of(status) == Some(Outcome::ServerFailure))
            && until > now;
        if !holds || !self.leases.is_live(&open.lease) {
            return self.close(key, EndReason::Failure);
        }
        let lease = self.unlink(key);
        let at = self.held.insert(lease);
        self.held_timers.set(until, at);
    }

    fn unlink(&mut self, key: u32) -> Lease {
        let closed = self.transactions.remove(key).expect("a transaction is closed once");
        let head = &mut self.table.get_mut(closed.session).first;
        if *head == key {
            *head = closed.next;
        } else {
            let mut before = *head;
            while self.transactions[before].next != key {
                before = self.transactions[before].next;
            }
            self.transactions[before].next = closed.next;
        }
        closed.lease
    }

    fn end_transaction(&mut self, lease: Lease, reason: EndReason) {
        // The leases of a node that died were counted at its death.
        if self.leases.is_live(&lease) {
            self.stats[lease.slot().index()].ended(reason);
        }
        self.leases.end(lease);
    }

    /// Removes a session whose time is over, with its remaining transactions and leases.
    pub(crate) fn forget(&mut self, session: Session, reason: EndReason) {
        let mut key = session.first;
        while key != NONE {
            let open = self.transactions.remove(key).expect("a session's list holds open transactions");
            self.wheel(open.unanswered).cancel(open.timer);
            if open.fresh && !open.answered && self.leases.is_live(&open.lease) {
                self.guards.left(open.started, open.lease.slot(), open.started, false);
            }
            self.end_transaction(open.lease, reason);
            key = open.next;
        }
        if let Some(lease) = session.call {
            self.leases.end_call(lease);
        }
    }

    /// Counts a request again at a node that got it at `since` and answers it now.
    pub(crate) fn resume(&mut self, request: &RequestFacts<'_>, since: Instant, is_cancelled: bool) {
        if let Some(key) = self.open_transaction(request) {
            self.leave_unanswered(since, key, false);
            let open = &mut self.transactions[key];
            (open.started, open.answered, open.cancelled) = (since, true, is_cancelled);
        }
    }

    /// Node that has left an open request unanswered so far, and the time of sending.
    pub(crate) fn unanswered_of(&self, request: &RequestFacts<'_>) -> Option<(Slot, Instant)> {
        let open = &self.transactions[self.open_transaction(request)?];
        (!open.answered).then_some((open.lease.slot(), open.started))
    }

    /// Watches whether a node answers a request that was also sent to another node.
    pub(crate) fn watch(&mut self, left: Option<(Slot, Instant)>) {
        if let Some((slot, since)) = left.filter(|_| self.left.len() < LEFT_MOST) {
            let due = since + self.settings.transaction_timeout;
            let place = self.left.partition_point(|(before, ..)| *before <= due);
            self.left.insert(place, (due, slot, since));
        }
    }

    /// Stops watching a slot that now belongs to another node.
    pub(crate) fn watch_no_more(&mut self, slot: Slot) {
        self.left.retain(|(_, of, _)| *of != slot);
        self.beside.forget(slot);
    }

    fn open_transaction(&self, request: &RequestFacts<'_>) -> Option<u32> {
        self.session_of(request).and_then(|at| self.find(at, &TransactionId::served_by(request)))
    }

    /// Time at which [`Self::expire`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let wheels = [&self.timers, &self.unanswered, &self.held_timers];
        let of_wheels = wheels.into_iter().filter_map(TimerWheel::deadline).min();
        let of_left = self.left.front().map(|(due, ..)| *due);
        let of_left = self.lost_from.map(|_| Instant::ZERO).or(of_left);
        Instant::earliest(of_wheels, Instant::earliest(of_left, self.table.deadline()))
    }

    /// View of a session for the API.
    pub(crate) fn view(&self, session: &Session) -> SessionView {
        session.view(session.call.as_ref().is_some_and(|lease| self.leases.is_call_live(lease)))
    }

    pub(crate) fn open_transactions(&self) -> usize {
        self.transactions.len()
    }

    /// Compares each load with the sum of the existing leases. Equality means that the loads cannot drift.
    ///
    /// # Errors
    /// The text names the first slot whose load differs from its live leases, or a session whose state does not fit its
    /// dialogs.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut sums = vec![crate::Load::default(); self.stats.len()];
        for (_, session) in self.table.iter_from(0) {
            if let Some(lease) = &session.call {
                sums[lease.slot().index()] += self.leases.worth_of_call(lease);
            }
            let has_answered = matches!(
                session.state,
                SessionState::Answered | SessionState::Confirmed | SessionState::Closing
            );
            if has_answered != session.has_dialogs() {
                return Err(format!("answered dialogs do not fit the state of the session: {session:?}"));
            }
        }
        for (_, open) in self.transactions.iter() {
            sums[open.lease.slot().index()] += self.leases.worth(&open.lease);
        }
        for (_, lease) in self.held.iter() {
            sums[lease.slot().index()] += self.leases.worth(lease);
        }
        for (index, sum) in sums.into_iter().enumerate() {
            let counted = self.leases.cell(Slot(index as u16)).own;
            if counted != sum {
                return Err(format!("slot {index}: counted {counted:?}, live leases {sum:?}"));
            }
        }
        match self.transactions.iter().find(|(_, open)| open.unanswered && !self.is_unanswered(open.session))
        {
            Some((_, open)) => Err(format!("a ringing or answered call may be evicted: {open:?}")),
            None => Ok(()),
        }
    }
}
