//! The proxy: requests, responses and timers, tied to the transactions below.

mod kept;

use crate::collect::Collect;
use crate::context::{Action, Context, ProxyEvent};
use crate::counters::ProxyCounters;
use crate::medium::{Form, Medium, ProxyRefusal, ProxyStep, Router, Sink};
use crate::table::{Leg, Proxied, Table};
use base::{Instant, Ledger, Operation};
use core::time::Duration;
use transaction::client::invite::ClientInviteState;
use transaction::{
    DueTimer, Id, KeptMessage, Layer, Machine, New, Sending, ServerKey, StatusClass, Timer, Timers,
    TransactionKey, TransactionKind, TransactionNews, TransportKind,
};
use wire::Method;

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
///   request comes between; [`response`](Self::response), [`refuse`](Self::refuse).
/// - Time: [`deadline`](Self::deadline), [`expire`](Self::expire); or [`due`](Self::due) and [`fire`](Self::fire) where
///   timers have to wait for a processor, with [`clear_away`](Self::clear_away) for those that nobody notices.
/// - Memory: [`limit_memory`](Self::limit_memory), [`memory`](Self::memory).
/// - Looking: [`counters`](Self::counters), [`ledger`](Self::ledger), [`transactions`](Self::transactions),
///   [`in_progress`](Self::in_progress), [`unanswered`](Self::unanswered).
pub struct Proxy<F: Form> {
    layer: Layer<Leg, F::Message>,
    table: Table<F::Request, F::Call>,
    timers: ProxyTimers,
    /// [`Proxy::limit_memory`].
    most_memory: usize,
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
    TimerC { at: u32, server: Id },
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
            Which::TimerC { .. } => false,
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

    fn forward_stateless(&mut self, request: &mut F::Request, step: &mut ProxyStep<'_, F>) {
        // An ACK is never answered: what can't be forwarded is dropped.
        if let Ok(hop) = step.router.next_hop(request, 0) {
            self.counters.stateless += 1;
            self.ledger.charge(Operation::Forward);
            let (message, _) = step.medium.forward(request, hop, None);
            step.sink.send(&message, Sending::First);
        }
    }

    fn begin(&mut self, arrived: &Arrived, mut request: F::Request, step: &mut ProxyStep<'_, F>) {
        let invite = arrived.method == Method::Invite;
        let new = Self::server(arrived, Leg::Alone);
        let Some(server) = self.layer.accept(step.now, new, &mut Collect::new(step.sink)) else { return };
        let hop = match step.router.next_hop(&mut request, 0) {
            Ok(hop) => hop,
            Err(refusal) => return self.answer(server, &request, refusal.0, step),
        };
        if invite {
            // §16.2: at once, so that the previous hop stops sending. [17.2.1-2]
            self.answer(server, &request, 100, step);
        }
        let context = Context::new(invite, step.router.has_alternate(&request, 0));
        let (call, memory) = (step.medium.call(&request), step.medium.memory(&request));
        let at = self.table.insert(Proxied::new(context, server, request, call, memory));
        *self.layer.user_mut(server).expect("it has just been accepted") = Leg::Server(at);
        self.counters.forwarded += 1;
        self.send_on(at, hop, step);
    }

    /// §16.6 steps 8 to 11.
    fn send_on(&mut self, at: u32, hop: F::Hop, step: &mut ProxyStep<'_, F>) {
        self.ledger.charge(Operation::Forward);
        let entry = &mut self.table[at];
        let request = entry.request.as_ref().expect("it is kept until it is answered");
        let (message, key) = step.medium.forward(request, hop, Some(self.serial));
        self.serial += 1;
        let kind =
            if entry.context.is_invite() { TransactionKind::Invite } else { TransactionKind::NonInvite };
        let most_repeats = step.router.most_repeats(request);
        let new = New { key, kind, transport: step.medium.transport(request, hop), user: Leg::Client(at) };
        let client = self.layer.request(step.now, new, message, &mut Collect::new(step.sink));
        if let (Some(client), Some(most)) = (client, most_repeats) {
            self.layer.limit_repeats(client, most);
        }
        self.table[at].client = client;
        if kind == TransactionKind::Invite {
            self.set_timer_c(step.now, at);
        }
    }

    /// §16.10: the CANCEL is answered, and what it is about is cancelled if it is an INVITE (§9.2: on others it has no
    /// effect). Without a context it goes on as it is.
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
            self.feed(at, ProxyEvent::Cancelled, None, step);
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
        let mut collect = Collect::new(step.sink);
        let matched = self.layer.response(step.now, key, StatusClass::of(status), response, &mut collect);
        self.counters.stray += u64::from(matched.is_none());
        let Collect { news, ended, .. } = collect;
        if let Some((id, leg, TransactionNews::Message)) = news
            && let Some(at) = self.table.of_client(id, leg)
        {
            self.feed(at, ProxyEvent::Response(status), Some(response), step);
        } else if (200..300).contains(&status) && matched.is_some_and(|id| self.has_failed(id)) {
            self.relay_late(response, step);
        }
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
    }

    /// Whether this is the client transaction of an INVITE to which a failure has come, which went back.
    fn has_failed(&self, id: Id) -> bool {
        self.layer.machine(id) == Some(Machine::ClientInvite(ClientInviteState::Completed))
            && self.layer.user(id).is_some_and(|&leg| self.table.of_client(id, leg).is_some())
    }

    /// §16.7 steps 5 and 9: a 2xx to an INVITE goes back after a failure, too. The server transaction takes none then, so
    /// it goes without one.
    fn relay_late(
        &mut self,
        response: &<F::Message as KeptMessage>::Response<'_>,
        step: &mut ProxyStep<'_, F>,
    ) {
        if let Some(message) = step.medium.relay(None, response) {
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
        let at = self.layer.user(id).and_then(|&leg| self.table.of_client(id, leg));
        Some((self.layer.message(id)?, at.and_then(|at| self.table[at].request.as_ref())))
    }

    /// Runs the timers that are due, a bounded number of them; [`deadline`](Self::deadline) tells whether some are left.
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
        let (at, server) = self.table.pop_timer_c(now)?;
        Some(Fire(Which::TimerC { at, server }))
    }

    /// Does what a timer asks for, unless something else has settled it by now.
    pub fn fire(&mut self, timer: Fire, step: &mut ProxyStep<'_, F>) {
        match timer.0 {
            Which::TimerC { at, server } => {
                if self.table.of_server(at, server).is_some() {
                    self.feed(at, ProxyEvent::TimerC, None, step);
                }
            }
            Which::Transaction(due) => {
                let mut collect = Collect::new(step.sink);
                self.layer.fire(step.now, due, &mut collect);
                let Collect { news, ended, .. } = collect;
                match news {
                    Some((id, Leg::Server(at), TransactionNews::TryingDue)) => self.late(at, id, step),
                    Some((id, leg, TransactionNews::Timeout(_))) => {
                        if let Some(at) = self.table.of_client(id, leg) {
                            self.feed(at, ProxyEvent::Timeout, None, step);
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

    /// A message of this client transaction could not be delivered (§16.9). Whether there is one that has sent such a
    /// message.
    pub fn unreachable(
        &mut self,
        key: TransactionKey,
        is_it: impl FnOnce(&F::Message) -> bool,
        step: &mut ProxyStep<'_, F>,
    ) -> bool {
        let Some(id) = self.layer.find_client(key) else { return false };
        if !self.layer.message(id).is_some_and(is_it) {
            return false;
        }
        let mut collect = Collect::new(step.sink);
        self.layer.transport_error(step.now, id, &mut collect);
        let Collect { news, ended, .. } = collect;
        if let Some((id, leg, TransactionNews::TransportError)) = news
            && let Some(at) = self.table.of_client(id, leg)
        {
            self.feed(at, ProxyEvent::Unreachable, None, step);
        }
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
        true
    }

    /// RFC 4320 §4.1: a request other than INVITE that is still unanswered when its client has slowed down gets a 100.
    fn late(&mut self, at: u32, server: Id, step: &mut ProxyStep<'_, F>) {
        let Some(entry) = self.table.of_server(at, server) else { return };
        let Some(request) = entry.request.as_ref() else { return };
        if let Some(response) = step.medium.respond(request, 100) {
            self.layer.respond(step.now, server, StatusClass::Trying, response, &mut Collect::new(step.sink));
        }
    }

    /// Gives an event to a response context and does what it says.
    fn feed(
        &mut self,
        at: u32,
        event: ProxyEvent,
        response: Option<&<F::Message as KeptMessage>::Response<'_>>,
        step: &mut ProxyStep<'_, F>,
    ) {
        let entry = &mut self.table[at];
        let server = entry.server;
        let actions = entry.context.on(event);
        if !entry.settled
            && !matches!(event, ProxyEvent::Response(100) | ProxyEvent::Cancelled)
            && let Some(request) = entry.request.as_mut()
        {
            let last = !actions.contains(&Action::TryNext);
            entry.settled = true;
            step.router.settled(request, entry.attempt, event, last);
        }
        for action in actions {
            match action {
                Action::Relay => {
                    let ProxyEvent::Response(status) = event else { continue };
                    let request = self.table[at].request.as_mut();
                    if let Some(message) = response.and_then(|response| step.medium.relay(request, response))
                    {
                        self.counters.relayed += 1;
                        self.ledger.charge(Operation::Forward);
                        self.layer.respond(
                            step.now,
                            server,
                            StatusClass::of(status),
                            message,
                            &mut Collect::new(step.sink),
                        );
                    } else if status >= 200
                        && let Some(request) = self.table.take_request(at)
                    {
                        // A final response without a way back: the previous hop is not left waiting.
                        self.answer(server, &request, 500, step);
                    }
                }
                Action::Respond(status) => {
                    if let Some(request) = self.table.take_request(at) {
                        self.answer(server, &request, status, step);
                    }
                }
                Action::Cancel => self.send_cancel(at, step),
                Action::SetTimerC => self.set_timer_c(step.now, at),
                Action::StopTimerC => self.table.stop_timer_c(at),
                Action::TryNext => self.try_next(at, event, step),
                Action::Abandon => self.table[at].client = None,
                Action::GiveUp => {}
            }
        }
        self.table.settle(at);
    }

    fn send_cancel(&mut self, at: u32, step: &mut ProxyStep<'_, F>) {
        let Some(client) = self.table[at].client else { return };
        if !self.layer.cancel(step.now, client, &mut Collect::new(step.sink)) {
            return;
        }
        let Some(invite) = self.layer.message(client) else { return };
        let (message, key) = step.medium.cancel(invite);
        if !self.has_memory() {
            return step.sink.send(&message, Sending::First);
        }
        let transport = self.layer.transport(client).unwrap_or(TransportKind::Unreliable);
        let new = New { key, kind: TransactionKind::NonInvite, transport, user: Leg::Alone };
        self.layer.request(step.now, new, message, &mut Collect::new(step.sink));
    }

    /// RFC 3263 §4.3. `failure` is what happened to the attempt before.
    fn try_next(&mut self, at: u32, failure: ProxyEvent, step: &mut ProxyStep<'_, F>) {
        let has_memory = self.has_memory();
        let entry = &mut self.table[at];
        entry.attempt += 1;
        entry.settled = false;
        let (attempt, request) = (entry.attempt, entry.request.as_mut());
        let request = request.expect("it is kept until it is answered");
        // Nobody is chosen for what is not sent.
        let hop = if has_memory { step.router.next_hop(request, attempt).ok() } else { None };
        let alternate = step.router.has_alternate(request, attempt);
        entry.context.set_alternate(alternate && hop.is_some());
        match hop {
            Some(hop) => {
                self.counters.retried += 1;
                self.send_on(at, hop, step);
            }
            // No alternate after all: what happened stands.
            None => self.feed(at, failure, None, step),
        }
    }

    fn set_timer_c(&mut self, now: Instant, at: u32) {
        self.table.set_timer_c(at, now + self.timers.c);
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
    /// CANCEL has no transaction then, and a request that failed no second next hop. To be said before each step, as [`Layer::limit_memory`].
    pub fn limit_memory(&mut self, most: usize) {
        self.most_memory = most;
        self.layer.limit_memory(most.saturating_sub(self.table.memory()));
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
