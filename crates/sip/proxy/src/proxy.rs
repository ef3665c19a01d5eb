//! The proxy: requests, responses and timers, tied to the transactions below.

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

/// Most branches of a request where nothing else is set: as many as a household or a small office has phones.
pub const MOST_BRANCHES: u8 = 12;

/// Timers of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyTimers {
    /// Those of its transactions.
    pub transaction: Timers,
    /// Timer C: how long an INVITE may ring (RFC 3261 §16.6 step 11: more than 3 minutes).
    pub c: Duration,
}

impl Default for ProxyTimers {
    fn default() -> Self {
        Self { transaction: Timers::default(), c: Duration::from_secs(181) }
    }
}

/// A request that came in, with what its transaction is known by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Its method.
    pub method: Method,
    /// The key of its server transaction.
    pub key: ServerKey,
    /// Of a CANCEL: the key of the INVITE that it is about, if it is about one.
    pub cancels: Option<ServerKey>,
    /// What carried it.
    pub transport: TransportKind,
}

/// A transaction-stateful, record-routing proxy (RFC 3261 §16).
///
/// - Traffic: [`request`](Self::request), or [`absorb`](Self::absorb) and [`take`](Self::take) where a look at the
///   request comes between; [`response`](Self::response), with [`decide`](Self::decide) before a look at it,
///   [`refuse`](Self::refuse), [`answer_with`](Self::answer_with).
/// - Time: [`deadline`](Self::deadline), [`expire`](Self::expire); or [`due`](Self::due) and [`fire`](Self::fire)
///   where timers have to wait for a processor, with [`clear_away`](Self::clear_away) for those that nobody notices.
/// - Limits: [`limit_memory`](Self::limit_memory), [`memory`](Self::memory),
///   [`limit_branches`](Self::limit_branches).
/// - Looking: [`counters`](Self::counters), [`ledger`](Self::ledger), [`transactions`](Self::transactions),
///   [`in_progress`](Self::in_progress), [`unanswered`](Self::unanswered).
pub struct Proxy<F: Form> {
    layer: Layer<Leg, F::Message>,
    table: Table<F::Request, F::Message, F::Call>,
    timers: ProxyTimers,
    /// [`Proxy::limit_memory`].
    most_memory: usize,
    /// [`Proxy::limit_branches`].
    most_branches: u8,
    counters: ProxyCounters,
    ledger: Ledger,
    /// The number of the next branch.
    serial: u64,
}

/// A timer that waits to be fired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fire(Which);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Transaction(DueTimer),
    /// Of the request with this server transaction.
    Request(RequestTimer, Id),
}

impl Fire {
    /// Whether it sends a message again (timers A, E and G).
    pub fn is_resend(self) -> bool {
        matches!(self.0, Which::Transaction(due) if matches!(due.timer, Timer::A | Timer::E | Timer::G))
    }

    /// Whether it only clears a transaction away.
    pub fn is_cleanup(self) -> bool {
        match self.0 {
            Which::Transaction(due) => due.timer.is_cleanup(),
            Which::Request(..) => false,
        }
    }
}

fn kind_of(method: Method) -> TransactionKind {
    if method == Method::Invite { TransactionKind::Invite } else { TransactionKind::NonInvite }
}

impl<F: Form> Proxy<F> {
    /// A proxy without transactions. `serial` is where its branches begin: unlike what it used before a restart.
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

    /// A request came in (§16.2 to §16.6).
    pub fn request(&mut self, arrived: &Arrived, request: F::Request, step: &mut ProxyStep<'_, F>) {
        if !self.absorb(step.now, &arrived.key, step.sink) {
            self.take(arrived, request, step);
        }
    }

    /// A request that [`absorb`](Self::absorb) has left is new.
    pub fn take(&mut self, arrived: &Arrived, mut request: F::Request, step: &mut ProxyStep<'_, F>) {
        match arrived.method {
            // An ACK to a 2xx has no transaction.
            Method::Ack => self.forward_stateless(&mut request, step),
            Method::Cancel => self.cancel(arrived, &mut request, step),
            _ => self.begin(arrived, request, step),
        }
    }

    /// Whether it repeats a request of a transaction, or acknowledges a failure: the transaction has dealt with it.
    pub fn absorb(&mut self, now: Instant, key: &ServerKey, sink: &mut dyn Sink<F::Message>) -> bool {
        let mut collect = Collect::new(sink);
        let matched = self.layer.received(now, key, &mut collect).is_some();
        // The ACK to a 2xx has a branch of its own, but not every client knows that: what is for us is not absorbed.
        let absorbed = matched && collect.news.is_none();
        let ended = collect.ended;
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
        absorbed
    }

    /// Whether the request is there that a CANCEL is about, by [`Arrived::cancels`].
    pub fn knows(&self, cancels: &ServerKey) -> bool {
        self.layer.find(cancels).or_else(|| self.layer.find_other_method(cancels)).is_some()
    }

    /// Answers a new request with a failure, with a transaction that repeats the answer until the ACK.
    pub fn refuse(
        &mut self,
        arrived: &Arrived,
        request: &F::Request,
        refusal: ProxyRefusal,
        step: &mut ProxyStep<'_, F>,
    ) {
        self.answer_alone(arrived, request, refusal.0, step);
    }

    /// A new request has got this final response: a transaction sends it, and repeats it until the ACK.
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

    /// Answers a new request with a transaction that nothing else hangs on.
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
            // It would wait for its answer for ever.
            None if status >= 200 => self.layer.forget(server),
            None => {}
        }
    }

    /// Sends a request of our own, whose answer nobody waits for; `make` is told the number of its branch. It is sent
    /// again at most so often.
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
        // An ACK is never answered: what can't be forwarded is dropped.
        if let Ok(hop) = step.router.next_hop(request, Attempt::default()) {
            self.counters.stateless += 1;
            self.ledger.charge(Operation::Forward);
            let (message, _) = step.medium.forward(request, hop, None);
            step.sink.send(&message, Sending::First);
        }
    }

    /// §16.10: the CANCEL is answered, and what it is about is cancelled if it is an INVITE (§9.2: on others it has
    /// no effect). Without a context it goes on as it is.
    fn cancel(&mut self, arrived: &Arrived, request: &mut F::Request, step: &mut ProxyStep<'_, F>) {
        let found = |key| self.layer.find(&key).or_else(|| self.layer.find_other_method(&key));
        let Some(server) = arrived.cancels.and_then(found) else {
            return self.forward_stateless(request, step);
        };
        if self.has_memory() {
            self.answer_alone(arrived, request, 200, step);
        } else if let Some(answer) = step.medium.respond(request, 200) {
            // What it frees is not to wait for memory. Repetitions are answered in the same way.
            step.sink.send(&answer, Sending::First);
        }
        if let Some(&Leg::Server(at)) = self.layer.user(server)
            && self.table.of_server(at, server).is_some()
        {
            self.tell(at, ContextEvent::Cancelled, None, step);
            self.table.settle(at);
        }
    }

    /// A response came in (§16.7).
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
                // Other branches are under way: nothing has gone back.
                self.feed(place, ProxyEvent::Response(status), Some((status, response)), step);
            }
        }
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
    }

    /// The branch whose client transaction this is, if it is that of an INVITE to which a failure has come.
    fn failed(&self, id: Id) -> Option<Place> {
        let has_failed = self.layer.machine(id) == Some(Machine::ClientInvite(ClientInviteState::Completed));
        self.layer.user(id).filter(|_| has_failed).and_then(|&leg| self.table.of_client(id, leg))
    }

    /// §16.7 steps 5 and 9: a 2xx to an INVITE goes back after a failure, too. The server transaction takes none
    /// then, so it goes without one.
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

    /// The request of a server transaction, until it has its final response.
    pub fn received(&self, key: &ServerKey) -> Option<&F::Request> {
        let id = self.layer.find(key)?;
        let &Leg::Server(at) = self.layer.user(id)? else { return None };
        self.table.of_server(at, id)?.request.as_ref()
    }

    /// What a client transaction has sent last, and the request that it serves, until that has its final response.
    pub fn sent(&self, key: TransactionKey) -> Option<(&F::Message, Option<&F::Request>)> {
        let id = self.layer.find_client(key)?;
        let place = self.layer.user(id).and_then(|&leg| self.table.of_client(id, leg));
        Some((self.layer.message(id)?, place.and_then(|place| self.table[place.at].request.as_ref())))
    }

    /// Runs the timers that are due, a bounded number of them; [`deadline`](Self::deadline) tells whether some are
    /// left.
    pub fn expire(&mut self, step: &mut ProxyStep<'_, F>) {
        for _ in 0..transaction::EXPIRE_MAX {
            let Some(timer) = self.due(step.now) else { return };
            self.fire(timer, step);
        }
    }

    /// When [`expire`](Self::expire) or [`due`](Self::due) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        Instant::earliest(self.layer.deadline(), self.table.deadline())
    }

    /// The same for whoever calls [`clear_away`](Self::clear_away) before each message.
    pub fn noticed_deadline(&self) -> Option<Instant> {
        Instant::earliest(self.layer.noticed_deadline(), self.table.deadline())
    }

    /// Ends transactions whose time is over, unnoticed, a bounded number of them; returns whether some are left: see
    /// [`Layer::clear_away`].
    #[must_use]
    pub fn clear_away(&mut self, now: Instant) -> bool {
        let Self { layer, table, .. } = self;
        layer.clear_away(now, |id, leg| table.ended(id, leg))
    }

    /// The next timer that is due, to be given to [`fire`](Self::fire) when its turn has come.
    pub fn due(&mut self, now: Instant) -> Option<Fire> {
        if let Some(due) = self.layer.due(now) {
            return Some(Fire(Which::Transaction(due)));
        }
        let (timer, server) = self.table.pop_timer(now)?;
        Some(Fire(Which::Request(timer, server)))
    }

    /// Does what a timer asks for, unless something else has settled it by now.
    pub fn fire(&mut self, timer: Fire, step: &mut ProxyStep<'_, F>) {
        match timer.0 {
            Which::Request(RequestTimer { at, branch }, server) => {
                if self.table.of_server(at, server).is_none() {
                    return;
                }
                match branch {
                    Some(branch) => self.feed(Place { at, branch }, ProxyEvent::TimerC, None, step),
                    None => self.time_over(at, step),
                }
            }
            Which::Transaction(due) => {
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

    /// A message of this client transaction could not be delivered (§16.9). `what` says what that means for its branch;
    /// `None`: it has not sent such a message. Whether there is one that has.
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

    /// The request of this key, if nobody has answered it, goes another way than the one that it took in vain (RFC 3261
    /// §18.1.1), as the message that `otherwise` makes of it. Whether it has gone.
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

    /// A connection is lost. The requests that went by it, which `what` tells, and that nothing has answered yet count as not
    /// delivered (§16.9). One that rings gets its answer by another connection (§18.2.2).
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

    /// An INVITE that was not answered at once, and still is not, gets its 100 (§17.2.1); so does another request when its
    /// client has slowed down (RFC 4320 §4.1).
    fn late(&mut self, at: u32, server: Id, step: &mut ProxyStep<'_, F>) {
        let Some(entry) = self.table.of_server(at, server) else { return };
        let Some(request) = entry.request.as_ref() else { return };
        if let Some(response) = step.medium.respond(request, 100) {
            self.layer.respond(step.now, server, StatusClass::Trying, response, &mut Collect::new(step.sink));
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> &ProxyCounters {
        &self.counters
    }

    /// What it cost so far, the transactions included.
    pub fn ledger(&self) -> Ledger {
        self.ledger + *self.layer.ledger()
    }

    /// Transactions there are.
    pub fn transactions(&self) -> usize {
        self.layer.len()
    }

    /// Bytes of memory that requests and transactions take, without what finding them and their timers does.
    pub fn memory(&self) -> usize {
        self.layer.memory() + self.table.memory()
    }

    /// Whether there may be one more transaction.
    fn has_memory(&self) -> bool {
        self.memory() < self.most_memory
    }

    /// A message that would make [`memory`](Self::memory) more than this is sent, but not kept to be sent again; a
    /// CANCEL has no transaction then, a request that failed no other next hop, and one that forks no further
    /// branch. To be said before each step, as [`Layer::limit_memory`].
    pub fn limit_memory(&mut self, most: usize) {
        self.most_memory = most;
        self.layer.limit_memory(most.saturating_sub(self.table.memory()));
    }

    /// How many branches a request may have: of a group with more targets the rest is left out, and no group follows.
    /// Between 1 and 15.
    pub fn limit_branches(&mut self, most: u8) {
        self.most_branches = most.clamp(1, MOST);
    }

    /// Requests that wait for their final response.
    pub fn unanswered(&self) -> usize {
        self.table.unanswered()
    }

    /// Requests that wait for their answer, or for more 2xx.
    pub fn in_progress(&self) -> usize {
        self.table.len()
    }
}
