mod kept;

use crate::collect::Collect;
use crate::context::{Action, Context, Event};
use crate::counters::Counters;
use crate::medium::{Medium, Refusal, Sink};
use crate::table::{Leg, Proxied, Table};
use base::{Instant, Ledger, Operation};
use core::time::Duration;
use transaction::client::invite::State;
use transaction::{
    Class, Due, Id, Key, Kind, Layer, Machine, Message, New, News, Sending, ServerKey, Timer, Timers,
    TransportKind,
};
use wire::Method;

/// How a proxy behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Timers of the transactions.
    pub timers: Timers,
    /// How long an INVITE may ring (Timer C, RFC 3261 §16.6 step 11: more than 3 minutes).
    pub timer_c: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { timers: Timers::default(), timer_c: Duration::from_secs(181) }
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
pub struct Proxy<D: Medium> {
    layer: Layer<Leg, D::Message>,
    table: Table<D::Request, D::Call>,
    settings: Settings,
    /// [`Proxy::limit_memory`].
    most_memory: usize,
    counters: Counters,
    ledger: Ledger,
    /// The number of the next branch.
    serial: u64,
}

/// A timer that waits to be fired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fire(Which);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Transaction(Due),
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

fn kind_of(method: Method) -> Kind {
    if method == Method::Invite { Kind::Invite } else { Kind::NonInvite }
}

impl<D: Medium> Proxy<D> {
    /// A proxy without transactions. `serial` is where its branches begin: unlike what it used before a restart.
    pub fn new(settings: Settings, serial: u64) -> Self {
        Self {
            layer: Layer::new(settings.timers),
            table: Table::default(),
            settings,
            most_memory: usize::MAX,
            counters: Counters::default(),
            ledger: Ledger::default(),
            serial,
        }
    }

    /// A request came in (§16.2 to §16.6).
    pub fn request(
        &mut self,
        now: Instant,
        arrived: &Arrived,
        request: D::Request,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        if !self.absorb(now, &arrived.key, sink) {
            self.take(now, arrived, request, medium, sink);
        }
    }

    /// A request that [`absorb`](Self::absorb) has left is new.
    pub fn take(
        &mut self,
        now: Instant,
        arrived: &Arrived,
        request: D::Request,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        match arrived.method {
            // An ACK to a 2xx has no transaction.
            Method::Ack => self.forward_stateless(&request, medium, sink),
            Method::Cancel => self.cancel(now, arrived, &request, medium, sink),
            _ => self.begin(now, arrived, request, medium, sink),
        }
    }

    /// Whether it repeats a request of a transaction, or acknowledges a failure: the transaction has dealt with it.
    pub fn absorb(&mut self, now: Instant, key: &ServerKey, sink: &mut impl Sink<D::Message>) -> bool {
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

    /// Whether a request belongs to a transaction that is there. Changes nothing.
    pub fn knows(&self, key: &ServerKey) -> bool {
        self.layer.find(key).is_some()
    }

    /// Answers a new request with a failure, with a transaction that repeats the answer until the ACK.
    pub fn refuse(
        &mut self,
        now: Instant,
        arrived: &Arrived,
        request: &D::Request,
        refusal: Refusal,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        self.answer_alone(now, arrived, request, refusal.0, medium, sink);
    }

    /// Answers a new request with a transaction that nothing else hangs on.
    fn answer_alone(
        &mut self,
        now: Instant,
        arrived: &Arrived,
        request: &D::Request,
        status: u16,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        let new = Self::server(arrived, Leg::Alone);
        if let Some(id) = self.layer.accept(now, new, &mut Collect::new(sink)) {
            self.answer(now, id, request, status, medium, sink);
        }
    }

    fn server(arrived: &Arrived, user: Leg) -> New<ServerKey, Leg> {
        New { key: arrived.key, kind: kind_of(arrived.method), transport: arrived.transport, user }
    }

    fn answer(
        &mut self,
        now: Instant,
        server: Id,
        request: &D::Request,
        status: u16,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        self.counters.refused += u64::from(status >= 300);
        match medium.respond(request, status) {
            Some(response) => {
                self.layer.respond(now, server, Class::of(status), response, &mut Collect::new(sink));
            }
            // It would wait for its answer for ever.
            None if status >= 200 => self.layer.forget(server),
            None => {}
        }
    }

    fn forward_stateless(&mut self, request: &D::Request, medium: &mut D, sink: &mut impl Sink<D::Message>) {
        // An ACK is never answered: what can't be forwarded is dropped.
        if let Ok(hop) = medium.next_hop(request, 0) {
            self.counters.stateless += 1;
            self.ledger.charge(Operation::Forward);
            let (message, _) = medium.forward(request, hop, None);
            sink.send(&message, Sending::First);
        }
    }

    fn begin(
        &mut self,
        now: Instant,
        arrived: &Arrived,
        request: D::Request,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        let invite = arrived.method == Method::Invite;
        let new = Self::server(arrived, Leg::Alone);
        let Some(server) = self.layer.accept(now, new, &mut Collect::new(sink)) else { return };
        let hop = match medium.next_hop(&request, 0) {
            Ok(hop) => hop,
            Err(refusal) => return self.answer(now, server, &request, refusal.0, medium, sink),
        };
        if invite {
            // §16.2: at once, so that the previous hop stops sending. [17.2.1-2]
            self.answer(now, server, &request, 100, medium, sink);
        }
        let context = Context::new(invite, medium.has_alternate(&request, 0));
        let (call, memory) = (medium.call(&request), D::memory(&request));
        let at = self.table.insert(Proxied::new(context, server, request, call, memory));
        *self.layer.user_mut(server).expect("it has just been accepted") = Leg::Server(at);
        self.counters.forwarded += 1;
        self.send_on(now, at, hop, medium, sink);
    }

    /// §16.6 steps 8 to 11.
    fn send_on(
        &mut self,
        now: Instant,
        at: u32,
        hop: D::Hop,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        self.ledger.charge(Operation::Forward);
        let entry = &mut self.table[at];
        let request = entry.request.as_ref().expect("it is kept until it is answered");
        let (message, key) = medium.forward(request, hop, Some(self.serial));
        self.serial += 1;
        let kind = if entry.context.is_invite() { Kind::Invite } else { Kind::NonInvite };
        let most_repeats = medium.most_repeats(request);
        let new = New { key, kind, transport: medium.transport(hop), user: Leg::Client(at) };
        let client = self.layer.request(now, new, message, &mut Collect::new(sink));
        if let (Some(client), Some(most)) = (client, most_repeats) {
            self.layer.limit_repeats(client, most);
        }
        self.table[at].client = client;
        if kind == Kind::Invite {
            self.set_timer_c(now, at);
        }
    }

    /// §16.10: the CANCEL is answered, and what it is about is cancelled if it is an INVITE (§9.2: on others it has no
    /// effect). Without a context it goes on as it is.
    fn cancel(
        &mut self,
        now: Instant,
        arrived: &Arrived,
        request: &D::Request,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        let found = |key| self.layer.find(&key).or_else(|| self.layer.find_other_method(&key));
        let Some(server) = arrived.cancels.and_then(found) else {
            return self.forward_stateless(request, medium, sink);
        };
        if self.has_memory() {
            self.answer_alone(now, arrived, request, 200, medium, sink);
        } else if let Some(answer) = medium.respond(request, 200) {
            // What it frees is not to wait for memory. Repetitions are answered in the same way.
            sink.send(&answer, Sending::First);
        }
        if let Some(&Leg::Server(at)) = self.layer.user(server)
            && self.table.of_server(at, server).is_some()
        {
            self.feed(now, at, Event::Cancelled, None, medium, sink);
        }
    }

    /// A response came in (§16.7).
    pub fn response(
        &mut self,
        now: Instant,
        key: Key,
        status: u16,
        response: &<D::Message as Message>::Response<'_>,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        let mut collect = Collect::new(sink);
        let matched = self.layer.response(now, key, Class::of(status), response, &mut collect);
        self.counters.stray += u64::from(matched.is_none());
        let Collect { news, ended, .. } = collect;
        if let Some((id, leg, News::Message)) = news
            && let Some(at) = self.table.of_client(id, leg)
        {
            self.feed(now, at, Event::Response(status), Some(response), medium, sink);
        } else if (200..300).contains(&status) && matched.is_some_and(|id| self.has_failed(id)) {
            self.relay_late(response, medium, sink);
        }
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
    }

    /// Whether this is the client transaction of an INVITE to which a failure has come, which went back.
    fn has_failed(&self, id: Id) -> bool {
        self.layer.machine(id) == Some(Machine::ClientInvite(State::Completed))
            && self.layer.user(id).is_some_and(|&leg| self.table.of_client(id, leg).is_some())
    }

    /// §16.7 steps 5 and 9: a 2xx to an INVITE goes back after a failure, too. The server transaction takes none then, so
    /// it goes without one.
    fn relay_late(
        &mut self,
        response: &<D::Message as Message>::Response<'_>,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        if let Some(message) = medium.relay(None, response) {
            self.counters.relayed += 1;
            self.ledger.charge(Operation::Forward);
            sink.send(&message, Sending::First);
        }
    }

    /// Runs the timers that are due, a bounded number of them; [`deadline`](Self::deadline) tells whether some are left.
    pub fn expire(&mut self, now: Instant, medium: &mut D, sink: &mut impl Sink<D::Message>) {
        for _ in 0..transaction::EXPIRE_MAX {
            let Some(timer) = self.due(now) else { return };
            self.fire(now, timer, medium, sink);
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
    pub fn fire(&mut self, now: Instant, timer: Fire, medium: &mut D, sink: &mut impl Sink<D::Message>) {
        match timer.0 {
            Which::TimerC { at, server } => {
                if self.table.of_server(at, server).is_some() {
                    self.feed(now, at, Event::TimerC, None, medium, sink);
                }
            }
            Which::Transaction(due) => {
                let mut collect = Collect::new(sink);
                self.layer.fire(now, due, &mut collect);
                let Collect { news, ended, .. } = collect;
                match news {
                    Some((id, Leg::Server(at), News::TryingDue)) => self.late(now, at, id, medium, sink),
                    Some((id, leg, News::Timeout(_))) => {
                        if let Some(at) = self.table.of_client(id, leg) {
                            self.feed(now, at, Event::Timeout, None, medium, sink);
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
        now: Instant,
        key: Key,
        is_it: impl FnOnce(&D::Message) -> bool,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) -> bool {
        let Some(id) = self.layer.find_client(key) else { return false };
        if !self.layer.message(id).is_some_and(is_it) {
            return false;
        }
        let mut collect = Collect::new(sink);
        self.layer.transport_error(now, id, &mut collect);
        let Collect { news, ended, .. } = collect;
        if let Some((id, leg, News::TransportError)) = news
            && let Some(at) = self.table.of_client(id, leg)
        {
            self.feed(now, at, Event::Unreachable, None, medium, sink);
        }
        if let Some((id, leg)) = ended {
            self.table.ended(id, leg);
        }
        true
    }

    /// RFC 4320 §4.1: a request other than INVITE that is still unanswered when its client has slowed down gets a 100.
    fn late(&mut self, now: Instant, at: u32, server: Id, medium: &mut D, sink: &mut impl Sink<D::Message>) {
        let Some(entry) = self.table.of_server(at, server) else { return };
        let Some(request) = entry.request.as_ref() else { return };
        if let Some(response) = medium.respond(request, 100) {
            self.layer.respond(now, server, Class::Trying, response, &mut Collect::new(sink));
        }
    }

    /// Gives an event to a response context and does what it says.
    fn feed(
        &mut self,
        now: Instant,
        at: u32,
        event: Event,
        response: Option<&<D::Message as Message>::Response<'_>>,
        medium: &mut D,
        sink: &mut impl Sink<D::Message>,
    ) {
        let entry = &mut self.table[at];
        let server = entry.server;
        let actions = entry.context.on(event);
        if !entry.settled
            && !matches!(event, Event::Response(100) | Event::Cancelled)
            && let Some(request) = entry.request.as_ref()
        {
            let last = !actions.contains(&Action::TryNext);
            entry.settled = true;
            let status = if let Event::Response(status) = event { Some(status) } else { None };
            medium.settled(request, entry.attempt, status, last);
        }
        for action in actions {
            match action {
                Action::Relay => {
                    let Event::Response(status) = event else { continue };
                    let request = self.table[at].request.as_mut();
                    if let Some(message) = response.and_then(|response| medium.relay(request, response)) {
                        self.counters.relayed += 1;
                        self.ledger.charge(Operation::Forward);
                        self.layer.respond(now, server, Class::of(status), message, &mut Collect::new(sink));
                    } else if status >= 200
                        && let Some(request) = self.table.take_request(at)
                    {
                        // A final response without a way back: the previous hop is not left waiting.
                        self.answer(now, server, &request, 500, medium, sink);
                    }
                }
                Action::Respond(status) => {
                    if let Some(request) = self.table.take_request(at) {
                        self.answer(now, server, &request, status, medium, sink);
                    }
                }
                Action::Cancel => self.send_cancel(now, at, medium, sink),
                Action::SetTimerC => self.set_timer_c(now, at),
                Action::StopTimerC => self.table.stop_timer_c(at),
                Action::TryNext => self.try_next(now, at, medium, sink),
                Action::Abandon => self.table[at].client = None,
                Action::GiveUp => {}
            }
        }
        self.table.settle(at);
    }

    fn send_cancel(&mut self, now: Instant, at: u32, medium: &mut D, sink: &mut impl Sink<D::Message>) {
        let Some(client) = self.table[at].client else { return };
        if !self.layer.cancel(now, client, &mut Collect::new(sink)) {
            return;
        }
        let Some(invite) = self.layer.message(client) else { return };
        let (message, key) = medium.cancel(invite);
        if !self.has_memory() {
            return sink.send(&message, Sending::First);
        }
        let transport = self.layer.transport(client).unwrap_or(TransportKind::Unreliable);
        let new = New { key, kind: Kind::NonInvite, transport, user: Leg::Alone };
        self.layer.request(now, new, message, &mut Collect::new(sink));
    }

    fn try_next(&mut self, now: Instant, at: u32, medium: &mut D, sink: &mut impl Sink<D::Message>) {
        let has_memory = self.has_memory();
        let entry = &mut self.table[at];
        entry.attempt += 1;
        entry.settled = false;
        let (attempt, request) = (entry.attempt, entry.request.as_ref());
        let request = request.expect("it is kept until it is answered");
        let hop = medium.next_hop(request, attempt).ok().filter(|_| has_memory);
        let alternate = medium.has_alternate(request, attempt);
        entry.context.set_alternate(alternate && hop.is_some());
        match hop {
            Some(hop) => {
                self.counters.retried += 1;
                self.send_on(now, at, hop, medium, sink);
            }
            // No alternate after all: the 503 stands.
            None => self.feed(now, at, Event::Unreachable, None, medium, sink),
        }
    }

    fn set_timer_c(&mut self, now: Instant, at: u32) {
        self.table.set_timer_c(at, now + self.settings.timer_c);
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
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
