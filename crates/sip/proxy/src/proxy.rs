//! The proxy: requests, responses and timers, tied to the transactions.

mod groups;
mod kept;
mod progress;
mod race;

use crate::branch::ProxyEvent;
use crate::branches::MOST;
use crate::collect::Collect;
use crate::context::ContextEvent;
use crate::counters::ProxyCounters;
use crate::medium::{Attempt, Form, Medium, ProxyRefusal, ProxyStep, Router, Sink};
use crate::table::{Leg, Place, RequestTimer, Table};
use base::{Instant, Ledger, Operation};
use core::time::Duration;
use transaction::client::invite::ClientInviteState;
use transaction::{
    DueTimer, Id, KeptMessage, Layer, Machine, New, Sending, ServerKey, StatusClass, Timer, Timers,
    TransactionKey, TransactionKind, TransactionNews, TransportKind,
};
use wire::Method;

/// Default limit of the branches of a request: one for each phone of a household or a small office.
pub const MOST_BRANCHES: u8 = 12;

/// Timers of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyTimers {
    /// Timers of the transactions.
    pub transaction: Timers,
    /// Timer C: time for which an INVITE may ring (RFC 3261 §16.6 step 11: more than 3 minutes).
    pub c: Duration,
}

impl Default for ProxyTimers {
    fn default() -> Self {
        Self { transaction: Timers::default(), c: Duration::from_secs(181) }
    }
}

/// A received request, with the key of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Its method.
    pub method: Method,
    /// Key of its server transaction.
    pub key: ServerKey,
    /// Key of the INVITE that a CANCEL cancels, if any.
    pub cancels: Option<ServerKey>,
    /// Transport by which the request came.
    pub transport: TransportKind,
}

/// A transaction-stateful, record-routing proxy (RFC 3261 §16).
///
/// - Traffic: [`request`](Self::request), or [`absorb`](Self::absorb) and [`take`](Self::take) to inspect the request
///   in between; [`response`](Self::response), after [`decide`](Self::decide) to inspect the response first;
///   [`refuse`](Self::refuse), [`answer_with`](Self::answer_with).
/// - Time: [`deadline`](Self::deadline), [`expire`](Self::expire); or [`due`](Self::due) and [`fire`](Self::fire) if
///   timers wait for a simulated processor, with [`clear_away`](Self::clear_away) for timers that only end
///   transactions.
/// - Limits: [`limit_memory`](Self::limit_memory), [`memory`](Self::memory), [`limit_branches`](Self::limit_branches).
/// - Reading: [`counters`](Self::counters), [`ledger`](Self::ledger), [`transactions`](Self::transactions),
///   [`in_progress`](Self::in_progress), [`unanswered`](Self::unanswered).
pub struct Proxy<F: Form> {
    layer: Layer<Leg, F::Message>,
    table: Table<F::Request, F::Message, F::Call>,
    timers: ProxyTimers,
    /// Limit of [`Proxy::limit_memory`].
    most_memory: usize,
    /// Limit of [`Proxy::limit_branches`].
    most_branches: u8,
    counters: ProxyCounters,
    ledger: Ledger,
    /// Serial number of the next branch.
    serial: u64,
}

/// A due timer, for [`Proxy::fire`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fire(FireKind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FireKind {
    Transaction(DueTimer),
    /// Timer of the request with this server transaction.
    Request(RequestTimer, Id),
}

impl Fire {
    /// Whether the timer retransmits a message (timers A, E and G).
    pub fn is_resend(self) -> bool {
        matches!(self.0, FireKind::Transaction(due) if matches!(due.timer, Timer::A | Timer::E | Timer::G))
    }

    /// Whether the timer only ends a transaction.
    pub fn is_cleanup(self) -> bool {
        match self.0 {
            FireKind::Transaction(due) => due.timer.is_cleanup(),
            FireKind::Request(..) => false,
        }
    }
}

fn kind_of(method: Method) -> TransactionKind {
    if method == Method::Invite { TransactionKind::Invite } else { TransactionKind::NonInvite }
}

impl<F: Form> Proxy<F> {
    /// Makes a proxy without transactions. `serial` is the number of its first branch, which must differ from numbers
    /// used before a restart.
    pub fn new(timers: ProxyTimers, serial: u64) -> Self {
        Self {
            layer: Layer::new(timers.transaction),
            table: Table::default(),
            timers,
            most_memory: usize::MAX,
            most_branches: MOST_BRANCHES,
            counters: ProxyCounters::default(),
            ledger: Ledger::default(),
            serial,
        }
    }

    /// Handles a received request (§16.2 to §16.6).
    pub fn request(&mut self, arrived: &Arrived, request: F::Request, step: &mut ProxyStep<'_, F>) {
        if !self.absorb(step.now, &arrived.key, step.sink) {
            self.take(arrived, request, step);
        }
    }

    /// Handles a new request that [`absorb`](Self::absorb) has not absorbed.
    pub fn take(&mut self, arrived: &Arrived, mut request: F::Request, step: &mut ProxyStep<'_, F>) {
        match arrived.method {
            // An ACK to a 2xx has no transaction.
            Method::Ack => self.forward_stateless(&mut request, step),
            Method::Cancel => self.cancel(arrived, &mut request, step),
            _ => self.begin(arrived, request, step),
        }
    }

    /// Returns whether a transaction has absorbed the request: a retransmission, or the ACK to a failure.
    pub fn absorb(&mut self, now: Instant, key: &ServerKey, sink: &mut dyn Sink<F::Message>) -> bool {
        let mut collect = Collect::new(sink);
        let matched = self.layer.received(now, key, &mut collect).is_some();
        // The ACK to a 2xx should have a branch of its own, but some clients reuse the branch of the INVITE. So an ACK
        // that the layer passes to its user is not absorbed.
        let absorbed = matched && collect.news.is_none();
        let ended = collect.ended;
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
        absorbed
    }

    /// Whether the request that a CANCEL names is known, by [`Arrived::cancels`].
    pub fn knows(&self, cancels: &ServerKey) -> bool {
        self.layer.find(cancels).or_else(|| self.layer.find_other_method(cancels)).is_some()
    }

    /// Answers a new request with a failure, with a transaction that retransmits the response until the ACK.
    pub fn refuse(
        &mut self,
        arrived: &Arrived,
        request: &F::Request,
        refusal: ProxyRefusal,
        step: &mut ProxyStep<'_, F>,
    ) {
        self.answer_alone(arrived, request, refusal.0, step);
    }

    /// Sends this final response to a new request, with a transaction that retransmits it until the ACK.
    pub fn answer_with(
        &mut self,
        arrived: &Arrived,
        status: u16,
        response: F::Message,
        step: &mut ProxyStep<'_, F>,
    ) {
        let new = Self::server(arrived, Leg::Alone);
        if let Some(id) = self.layer.accept(step.now, new, &mut Collect::new(step.sink)) {
            let class = StatusClass::of(status);
            self.layer.respond(step.now, id, class, response, &mut Collect::new(step.sink));
        }
    }

    /// Answers a new request with a transaction that has no proxied request.
    fn answer_alone(
        &mut self,
        arrived: &Arrived,
        request: &F::Request,
        status: u16,
        step: &mut ProxyStep<'_, F>,
    ) {
        let new = Self::server(arrived, Leg::Alone);
        if let Some(id) = self.layer.accept(step.now, new, &mut Collect::new(step.sink)) {
            self.answer(id, request, status, step);
        }
    }

    fn server(arrived: &Arrived, user: Leg) -> New<ServerKey, Leg> {
        New { key: arrived.key, kind: kind_of(arrived.method), transport: arrived.transport, user }
    }

    fn answer(&mut self, server: Id, request: &F::Request, status: u16, step: &mut ProxyStep<'_, F>) {
        self.counters.refused += u64::from(status >= 300);
        if status >= 300 {
            step.medium.concluded(request, status, true);
        }
        match step.medium.respond(request, status) {
            Some(response) => {
                self.layer.respond(
                    step.now,
                    server,
                    StatusClass::of(status),
                    response,
                    &mut Collect::new(step.sink),
                );
            }
            // Without an answer the transaction would stay for ever.
            None if status >= 200 => self.layer.forget(server),
            None => {}
        }
    }

    /// Sends a request of this proxy whose response is ignored. `make` gets the number of its branch. It is
    /// retransmitted at most `most_repeats` times.
    pub fn originate(
        &mut self,
        (transport, most_repeats): (TransportKind, u8),
        step: &mut ProxyStep<'_, F>,
        make: impl FnOnce(&mut F::Medium<'_>, u64) -> (F::Message, TransactionKey),
    ) {
        let (message, key) = make(&mut step.medium, self.serial);
        self.serial += 1;
        if !self.has_memory() {
            return step.sink.send(&message, Sending::First);
        }
        let new = New { key, kind: TransactionKind::NonInvite, transport, user: Leg::Alone };
        if let Some(client) = self.layer.request(step.now, new, message, &mut Collect::new(step.sink)) {
            self.layer.limit_repeats(client, most_repeats);
        }
    }

    fn forward_stateless(&mut self, request: &mut F::Request, step: &mut ProxyStep<'_, F>) {
        // An ACK is never answered: if it cannot be forwarded, it is dropped.
        if let Ok(hop) = step.router.next_hop(request, Attempt::default()) {
            self.counters.stateless += 1;
            self.ledger.charge(Operation::Forward);
            let (message, _) = step.medium.forward(request, hop, None);
            step.sink.send(&message, Sending::First);
        }
    }

    /// §16.10: answers a CANCEL. Cancels the request that it names, if that is an INVITE (§9.2: CANCEL has no effect on
    /// other requests). Without a response context the CANCEL is forwarded statelessly.
    fn cancel(&mut self, arrived: &Arrived, request: &mut F::Request, step: &mut ProxyStep<'_, F>) {
        let found = |key| self.layer.find(&key).or_else(|| self.layer.find_other_method(&key));
        let Some(server) = arrived.cancels.and_then(found) else {
            return self.forward_stateless(request, step);
        };
        if self.has_memory() {
            self.answer_alone(arrived, request, 200, step);
        } else if let Some(answer) = step.medium.respond(request, 200) {
            // A CANCEL frees memory, so it must not wait for memory. Retransmissions are answered in the same way.
            step.sink.send(&answer, Sending::First);
        }
        if let Some(&Leg::Server(at)) = self.layer.user(server)
            && self.table.of_server(at, server).is_some()
        {
            self.tell(at, ContextEvent::Cancelled, None, step);
            self.table.settle(at);
        }
    }

    /// Handles a received response (§16.7).
    pub fn response(
        &mut self,
        key: TransactionKey,
        status: u16,
        response: &<F::Message as KeptMessage>::Response<'_>,
        step: &mut ProxyStep<'_, F>,
    ) {
        self.decide(key, status, step);
        let mut collect = Collect::new(step.sink);
        let matched = self.layer.response(step.now, key, StatusClass::of(status), response, &mut collect);
        self.counters.stray += u64::from(matched.is_none());
        let Collect { news, ended, .. } = collect;
        if let Some((id, leg, TransactionNews::Message)) = news
            && let Some(place) = self.table.of_client(id, leg)
        {
            self.feed(place, ProxyEvent::Response(status), Some((status, response)), step);
        } else if (200..300).contains(&status)
            && let Some(place) = matched.and_then(|id| self.failed(id))
        {
            if self.table[place.at].context.is_finished() {
                self.relay_late(place.at, response, step);
            } else {
                // Other branches are active, so no final response was sent.
                self.feed(place, ProxyEvent::Response(status), Some((status, response)), step);
            }
        }
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
    }

    /// Branch of this client transaction, if it is an INVITE that has failed.
    fn failed(&self, id: Id) -> Option<Place> {
        let has_failed = self.layer.machine(id) == Some(Machine::ClientInvite(ClientInviteState::Completed));
        self.layer.user(id).filter(|_| has_failed).and_then(|&leg| self.table.of_client(id, leg))
    }

    /// §16.7 steps 5 and 9: a 2xx to an INVITE is forwarded even after a failure. The server transaction would refuse
    /// the 2xx, so the 2xx is sent without a transaction.
    fn relay_late(
        &mut self,
        at: u32,
        response: &<F::Message as KeptMessage>::Response<'_>,
        step: &mut ProxyStep<'_, F>,
    ) {
        if let Some(message) = step.medium.relay(self.table[at].request.answered(), response) {
            self.counters.relayed += 1;
            self.ledger.charge(Operation::Forward);
            step.sink.send(&message, Sending::First);
        }
    }

    /// Request of a server transaction, until its final response.
    pub fn received(&self, key: &ServerKey) -> Option<&F::Request> {
        let id = self.layer.find(key)?;
        let &Leg::Server(at) = self.layer.user(id)? else { return None };
        self.table.of_server(at, id)?.request.as_ref()
    }

    /// Last message of a client transaction, and the request that it serves, until that request has its final response.
    pub fn sent(&self, key: TransactionKey) -> Option<(&F::Message, Option<&F::Request>)> {
        let id = self.layer.find_client(key)?;
        let place = self.layer.user(id).and_then(|&leg| self.table.of_client(id, leg));
        Some((self.layer.message(id)?, place.and_then(|place| self.table[place.at].request.as_ref())))
    }

    /// Runs due timers, up to a limit. [`deadline`](Self::deadline) shows whether more are due.
    pub fn expire(&mut self, step: &mut ProxyStep<'_, F>) {
        for _ in 0..transaction::EXPIRE_MAX {
            let Some(timer) = self.due(step.now) else { return };
            self.fire(timer, step);
        }
    }

    /// Time of the next call of [`expire`](Self::expire) or [`due`](Self::due).
    pub fn deadline(&self) -> Option<Instant> {
        Instant::earliest(self.layer.deadline(), self.table.deadline())
    }

    /// Like [`deadline`](Self::deadline), for callers that call [`clear_away`](Self::clear_away) before each message.
    pub fn noticed_deadline(&self) -> Option<Instant> {
        Instant::earliest(self.layer.noticed_deadline(), self.table.deadline())
    }

    /// Ends transactions whose time is over and on which nothing else depends, up to a limit. Returns whether more are
    /// due. See [`Layer::clear_away`].
    #[must_use]
    pub fn clear_away(&mut self, now: Instant) -> bool {
        let Self { layer, table, .. } = self;
        layer.clear_away(now, |id, leg| table.ended(id, leg))
    }

    /// Returns the next due timer, for [`fire`](Self::fire).
    pub fn due(&mut self, now: Instant) -> Option<Fire> {
        if let Some(due) = self.layer.due(now) {
            return Some(Fire(FireKind::Transaction(due)));
        }
        let (timer, server) = self.table.pop_timer(now)?;
        Some(Fire(FireKind::Request(timer, server)))
    }

    /// Runs a timer, unless its transaction or request no longer waits for it.
    pub fn fire(&mut self, timer: Fire, step: &mut ProxyStep<'_, F>) {
        match timer.0 {
            FireKind::Request(RequestTimer { at, branch }, server) => {
                if self.table.of_server(at, server).is_none() {
                    return;
                }
                match branch {
                    Some(branch) => self.feed(Place { at, branch }, ProxyEvent::TimerC, None, step),
                    None => self.time_over(at, step),
                }
            }
            FireKind::Transaction(due) => {
                let mut collect = Collect::new(step.sink);
                self.layer.fire(step.now, due, &mut collect);
                let Collect { news, ended, .. } = collect;
                match news {
                    Some((id, Leg::Server(at), TransactionNews::TryingDue)) => self.late(at, id, step),
                    Some((id, leg, TransactionNews::Timeout(_))) => {
                        if let Some(place) = self.table.of_client(id, leg) {
                            self.feed(place, ProxyEvent::Timeout, None, step);
                        }
                    }
                    _ => {}
                }
                if let Some((id, leg)) = ended {
                    self.table.ended(id, leg);
                }
            }
        }
    }

    /// Handles a message of this client transaction that could not be delivered (§16.9). `what` returns the event for
    /// its branch, or `None` if the transaction has not sent this message. Returns whether there was an event.
    pub fn unreachable(
        &mut self,
        key: TransactionKey,
        what: impl FnOnce(&F::Message) -> Option<ProxyEvent>,
        step: &mut ProxyStep<'_, F>,
    ) -> bool {
        let Some(id) = self.layer.find_client(key) else { return false };
        let Some(event) = self.layer.message(id).and_then(what) else { return false };
        self.undelivered(id, event, step);
        true
    }

    /// Sends the unanswered request of this key by another path (RFC 3261 §18.1.1), as the message that `otherwise`
    /// makes of it. Returns whether it was sent.
    pub fn send_otherwise(
        &mut self,
        now: Instant,
        key: TransactionKey,
        otherwise: impl FnOnce(&F::Message) -> Option<(F::Message, TransportKind)>,
        sink: &mut dyn Sink<F::Message>,
    ) -> bool {
        let is_unanswered = |id: &Id| self.layer.machine(*id).is_some_and(Machine::is_unanswered);
        let Some(id) = self.layer.find_client(key).filter(is_unanswered) else { return false };
        let Some(other) = self.layer.message(id).and_then(otherwise) else { return false };
        self.layer.send_otherwise(now, id, other, &mut Collect::new(sink));
        true
    }

    /// Handles the loss of a connection. `what` selects the requests that were sent by it. Selected requests without
    /// any response count as not delivered (§16.9). For a ringing INVITE nothing changes: its response comes by another
    /// connection (§18.2.2).
    pub fn connection_lost(
        &mut self,
        what: impl Fn(&F::Message) -> Option<ProxyEvent>,
        step: &mut ProxyStep<'_, F>,
    ) {
        let is_unanswered = |id: Id| self.layer.machine(id).is_some_and(Machine::is_unanswered);
        let unanswered = self.layer.iter().map(|(id, _)| id).filter(|id| is_unanswered(*id));
        let lost = unanswered.filter_map(|id| Some((id, what(self.layer.message(id)?)?)));
        for (id, event) in lost.collect::<Vec<_>>() {
            self.undelivered(id, event, step);
        }
    }

    fn undelivered(&mut self, id: Id, event: ProxyEvent, step: &mut ProxyStep<'_, F>) {
        let mut collect = Collect::new(step.sink);
        self.layer.transport_error(step.now, id, &mut collect);
        let Collect { news, ended, .. } = collect;
        if let Some((id, leg, TransactionNews::TransportError)) = news
            && let Some(place) = self.table.of_client(id, leg)
        {
            self.feed(place, event, None, step);
        }
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
    }

    /// Sends a 100 to an INVITE that has no response so far (§17.2.1). Sends it to another request when its client
    /// retransmits at intervals of T2 (RFC 4320 §4.1).
    fn late(&mut self, at: u32, server: Id, step: &mut ProxyStep<'_, F>) {
        let Some(entry) = self.table.of_server(at, server) else { return };
        let Some(request) = entry.request.as_ref() else { return };
        if let Some(response) = step.medium.respond(request, 100) {
            self.layer.respond(step.now, server, StatusClass::Trying, response, &mut Collect::new(step.sink));
        }
    }

    /// Counters so far.
    pub fn counters(&self) -> &ProxyCounters {
        &self.counters
    }

    /// Work so far, including the work of the transactions.
    pub fn ledger(&self) -> Ledger {
        self.ledger + *self.layer.ledger()
    }

    /// Number of transactions.
    pub fn transactions(&self) -> usize {
        self.layer.len()
    }

    /// Memory of requests and transactions in bytes, without indexes and timers.
    pub fn memory(&self) -> usize {
        self.layer.memory() + self.table.memory()
    }

    /// Whether there is memory for another transaction.
    fn has_memory(&self) -> bool {
        self.memory() < self.most_memory
    }

    /// Limits [`memory`](Self::memory). A message beyond the limit is sent, but not kept for retransmission. A CANCEL
    /// then gets no transaction, a failed request no other next hop, and a forking request no further branch. Must be
    /// called before each step, like [`Layer::limit_memory`].
    pub fn limit_memory(&mut self, most: usize) {
        self.most_memory = most;
        self.layer.limit_memory(most.saturating_sub(self.table.memory()));
    }

    /// Limits the branches of a request, between 1 and 15. Further targets of a larger group are dropped, and no group
    /// follows.
    pub fn limit_branches(&mut self, most: u8) {
        self.most_branches = most.clamp(1, MOST);
    }

    /// Number of requests without a final response.
    pub fn unanswered(&self) -> usize {
        self.table.unanswered()
    }

    /// Number of requests that wait for their response, or for more 2xx.
    pub fn in_progress(&self) -> usize {
        self.table.len()
    }
}
