//! All transactions of an element: their matching, their timers, and their kept messages.

use crate::effects::{Effects, KeptMessage, Sending, TransactionNews, UNLIMITED_REPEATS};
use crate::key::{ServerKey, Tag, TransactionKey};
use crate::machine::{
    Life, Machine, MachineStep, Pace, Send, StatusClass, Tell, Timer, TransactionEvent, TransactionKind,
    TransportKind,
};
use crate::queues::{Purpose, Queues};
use crate::store::{Entry, Id, Messages, NEVER, Store};
use crate::timers::Timers;
use base::{Instant, Ledger, Operation};

/// Most timers that one call of [`Layer::expire`] or [`Layer::clear_away`] runs. At some 200 ns each, they take well
/// under a millisecond.
pub const EXPIRE_MAX: usize = 1024;

/// All transactions of an element.
///
/// - Client: [`request`](Self::request) creates a transaction, [`limit_repeats`](Self::limit_repeats) limits its
///   retransmissions, [`response`](Self::response) takes a response, [`cancel`](Self::cancel) returns whether a CANCEL
///   may be sent, [`send_otherwise`](Self::send_otherwise) changes the transport.
/// - Server: [`received`](Self::received) matches a request, [`accept`](Self::accept) creates a transaction,
///   [`respond`](Self::respond) answers, [`find`](Self::find) finds the request that a CANCEL names.
/// - Both: [`transport_error`](Self::transport_error); [`expire`](Self::expire) at [`deadline`](Self::deadline), or
///   [`clear_away`](Self::clear_away) before each message and `expire` at [`noticed_deadline`](Self::noticed_deadline);
///   [`forget`](Self::forget), [`limit_memory`](Self::limit_memory).
/// - Reading: [`user`](Self::user), [`user_mut`](Self::user_mut), [`message`](Self::message),
///   [`machine`](Self::machine), [`iter`](Self::iter), [`len`](Self::len), [`memory`](Self::memory),
///   [`timers_set`](Self::timers_set), [`ledger`](Self::ledger).
#[derive(Debug)]
pub struct Layer<T, M> {
    store: Store<T, M>,
    queues: Queues,
    ledger: Ledger,
    /// Key that the last [`Layer::received`] did not find, so that [`Layer::accept`] need not search again.
    absent: Option<ServerKey>,
}

/// Transaction to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct New<K, T> {
    /// Key of its messages: a [`TransactionKey`] for a client, a [`ServerKey`] for a server.
    pub key: K,
    /// Kind of its request.
    pub kind: TransactionKind,
    /// Transport of its messages.
    pub transport: TransportKind,
    /// The user's data.
    pub user: T,
}

/// A due timer with its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DueTimer {
    id: Id,
    /// The timer.
    pub timer: Timer,
}

impl<T, M: KeptMessage> Layer<T, M> {
    /// Makes a layer without transactions.
    pub fn new(timers: Timers) -> Self {
        Self { store: Store::default(), queues: Queues::new(timers), ledger: Ledger::default(), absent: None }
    }

    /// Creates a client transaction and sends its request. `None` if the key is in use: then nothing is sent. An ACK
    /// creates no transaction and must be sent directly.
    pub fn request(
        &mut self,
        now: Instant,
        new: New<TransactionKey, T>,
        request: M,
        out: &mut impl Effects<T, M>,
    ) -> Option<Id> {
        let step = Machine::client(new.kind, new.transport);
        let key = ServerKey { key: new.key, tag: Tag::NONE, is_ack: false };
        let id = self.enter(&key, step.next, new.transport, new.user)?;
        self.carry_out(
            now,
            id,
            Sending::First,
            out,
            |_| step,
            |step, entry, messages, out| send_new(entry, messages, id, step.send, request, out),
        );
        Some(id)
    }

    /// Limits the retransmissions of the message that this transaction has just sent to `most`. RFC 3261 §17.1.1.2 and
    /// §17.1.2.2 say only that a request SHOULD be retransmitted. So a next hop that may not want the traffic can get
    /// fewer copies.
    pub fn limit_repeats(&mut self, id: Id, most: u8) {
        let Some(entry) = self.store.get_mut(id) else { return };
        match most {
            0 => (entry.repeats, entry.resend_at) = (0, NEVER),
            // The first retransmission is scheduled already.
            most => entry.repeats = most - 1,
        }
    }

    /// Handles a received response. `None` if it matches no transaction and is dropped.
    ///
    /// [18.1.2-1] A match goes to its transaction. [6026-1] A response without a match is not forwarded.
    pub fn response(
        &mut self,
        now: Instant,
        key: TransactionKey,
        class: StatusClass,
        response: &M::Response<'_>,
        out: &mut impl Effects<T, M>,
    ) -> Option<Id> {
        self.ledger.charge(Operation::Match);
        let id = self.store.find(&ServerKey { key, tag: Tag::NONE, is_ack: false })?;
        let decide = |entry: &Entry<T>| entry.machine.on(TransactionEvent::Response(class), entry.transport);
        let step = self.carry_out(now, id, Sending::Repeat, out, decide, |step, entry, messages, out| {
            if step.send == Send::Ack {
                acknowledge(entry, messages, id, response, out)
            } else {
                send_again(entry, messages, id, (step, Sending::Repeat), out)
            }
        });
        self.note_absorbed(step);
        Some(id)
    }

    /// Cancels an INVITE for the user. Returns whether the CANCEL may be sent now, as a request of its own.
    ///
    /// [9.1-5] It may not be sent before a provisional response: the user calls again when that response arrives.
    /// [9.1-6] It may not be sent after a final response. If it may be sent, [9.1-7] the INVITE ends unless it is
    /// answered within 64*T1.
    pub fn cancel(&mut self, now: Instant, id: Id, out: &mut impl Effects<T, M>) -> bool {
        let Some(before) = self.machine(id) else { return false };
        self.feed(now, id, TransactionEvent::Cancel, Sending::First, out);
        self.machine(id) != Some(before)
    }

    /// Handles a received request. `None` if it is neither a retransmission nor the ACK to a failure. The user then
    /// decides whether to [`accept`](Self::accept) it.
    ///
    /// [18.2.1-1] A match goes to its transaction, another request to the user.
    pub fn received(&mut self, now: Instant, key: &ServerKey, out: &mut impl Effects<T, M>) -> Option<Id> {
        self.ledger.charge(Operation::Match);
        let Some(id) = self.store.find(key) else {
            self.absent = Some(*key);
            return None;
        };
        let event = if key.is_ack { TransactionEvent::Ack } else { TransactionEvent::Request };
        let step = self.feed(now, id, event, Sending::Repeat, out);
        self.note_absorbed(step);
        Some(id)
    }

    /// Creates a server transaction; `None` if the key is in use.
    pub fn accept(
        &mut self,
        now: Instant,
        new: New<ServerKey, T>,
        out: &mut impl Effects<T, M>,
    ) -> Option<Id> {
        let step = Machine::server(new.kind);
        let id = self.enter(&new.key, step.next, new.transport, new.user)?;
        self.carry_out(now, id, Sending::First, out, |_| step, |_, _, _, _| false);
        Some(id)
    }

    /// Answers a request. Returns whether the response was sent: RFC 3261 and RFC 4320 forbid some responses, and a
    /// terminated transaction sends nothing ([4320-5]).
    pub fn respond(
        &mut self,
        now: Instant,
        id: Id,
        class: StatusClass,
        response: M,
        out: &mut impl Effects<T, M>,
    ) -> bool {
        let decide = |entry: &Entry<T>| entry.machine.on(TransactionEvent::Respond(class), entry.transport);
        let repeats = response.repeats();
        let step = self.carry_out(now, id, Sending::First, out, decide, |step, entry, messages, out| {
            if entry.tag != Tag::NONE && class.is_final() {
                // [17.2.3-6] The ACK will be matched by this tag.
                entry.answer_tag = response.to_tag();
            }
            send_new(entry, messages, id, step.send, response, out)
        });
        let is_sent = step.is_some_and(|step| step.send != Send::Nothing);
        if is_sent && class.is_final() && repeats != UNLIMITED_REPEATS {
            self.limit_repeats(id, repeats);
        }
        is_sent
    }

    /// Ends a non-INVITE request without an answer (RFC 4320 §4.2). Its retransmissions are absorbed for as long as
    /// retransmissions of an answered request.
    pub fn abandon(&mut self, now: Instant, id: Id, out: &mut impl Effects<T, M>) {
        self.feed(now, id, TransactionEvent::Respond(StatusClass::Timeout), Sending::First, out);
    }

    /// Client transaction of this key.
    pub fn find_client(&self, key: TransactionKey) -> Option<Id> {
        self.store.find(&ServerKey { key, tag: Tag::NONE, is_ack: false })
    }

    /// Transport of a transaction; `None` if it has ended.
    pub fn transport(&self, id: Id) -> Option<TransportKind> {
        self.store.get(id).map(|entry| entry.transport)
    }

    /// Transaction of this key. For a CANCEL, [`crate::Keys::cancelled`] makes the key.
    pub fn find(&self, key: &ServerKey) -> Option<Id> {
        self.store.find(key)
    }

    /// Transaction whose request differs from this key only in the method. It is the request that a CANCEL names, if
    /// that is not an INVITE. `None` for keys made from numbers.
    pub fn find_other_method(&self, key: &ServerKey) -> Option<Id> {
        self.store.find_other_method(key)
    }

    /// Sends the unanswered request of this transaction by another path, in the form of this message and over this
    /// transport (RFC 3261 §18.1.1). The time limit of the transaction is unchanged.
    pub fn send_otherwise(
        &mut self,
        now: Instant,
        id: Id,
        (message, transport): (M, TransportKind),
        out: &mut impl Effects<T, M>,
    ) {
        let Self { store, queues, .. } = self;
        let Some((entry, messages)) = store.open(id) else { return };
        out.send(id, &entry.user, &message, Sending::First);
        entry.transport = transport;
        messages.keep(&mut entry.kept, message);
        set_timers(entry, queues, now, id, MachineStep::to(entry.machine).start_pace(transport));
    }

    /// Reports that a message of this transaction could not be delivered.
    pub fn transport_error(&mut self, now: Instant, id: Id, out: &mut impl Effects<T, M>) {
        self.feed(now, id, TransactionEvent::TransportError, Sending::First, out);
    }

    /// Runs due timers, at most [`EXPIRE_MAX`]. [`deadline`](Self::deadline) shows whether more are due.
    pub fn expire(&mut self, now: Instant, out: &mut impl Effects<T, M>) {
        for _ in 0..EXPIRE_MAX {
            let Some(due) = self.due(now) else { return };
            self.fire(now, due, out);
        }
    }

    /// Returns the next due timer. It takes effect when [`fire`](Self::fire) is called: at once, or later when a
    /// simulated processor is free.
    pub fn due(&mut self, now: Instant) -> Option<DueTimer> {
        let Self { store, queues, ledger, .. } = self;
        let (timer, purpose) = queues.pop(now, |timer, purpose| store.waits(timer, purpose))?;
        ledger.charge(Operation::TimerFire);
        let id = Id { at: timer.place, generation: timer.generation };
        let entry = store.get_mut(id).expect("a timer that is not void belongs to a live transaction");
        let timer = match purpose {
            Purpose::Life(timer) => {
                entry.life_at = NEVER;
                timer
            }
            Purpose::Resend => {
                entry.resend_at = NEVER;
                entry.machine.pace_timer()
            }
        };
        Some(DueTimer { id, timer })
    }

    /// Runs a timer. Does nothing if its transaction no longer waits for it.
    pub fn fire(&mut self, now: Instant, due: DueTimer, out: &mut impl Effects<T, M>) {
        let DueTimer { id, timer } = due;
        self.feed(now, id, TransactionEvent::Timer(timer), Sending::Timer(timer), out);
    }

    /// Ends the transactions whose timers D and I to M are due. Nothing else depends on these timers, so the exact time
    /// does not matter, as long as it is before the layer gets the next message. `ended` gets the arguments of
    /// [`Effects::ended`]. Ends at most [`EXPIRE_MAX`] transactions; returns whether more are due.
    #[inline]
    #[must_use]
    pub fn clear_away(&mut self, now: Instant, ended: impl FnMut(Id, T)) -> bool {
        // This is called before each message, and rarely has anything to do.
        self.queues.unnoticed_is_due(now) && self.end_unnoticed(now, ended)
    }

    #[inline(never)]
    fn end_unnoticed(&mut self, now: Instant, mut ended: impl FnMut(Id, T)) -> bool {
        let Self { store, queues, ledger, .. } = self;
        for _ in 0..EXPIRE_MAX {
            let Some((timer, life)) =
                queues.pop_unnoticed(now, |timer, life| store.waits(timer, Purpose::Life(life)))
            else {
                break;
            };
            let id = Id { at: timer.place, generation: timer.generation };
            let entry = store.remove(id);
            debug_assert_eq!(
                entry.machine.on(TransactionEvent::Timer(life), entry.transport),
                MachineStep::to(entry.machine.terminated()),
                "an unnoticed timer only ends its transaction"
            );
            ledger.charge(Operation::TimerFire);
            ledger.charge(Operation::ExpireTransaction);
            ended(id, entry.user);
        }
        queues.unnoticed_deadline().is_some_and(|due| due <= now)
    }

    /// Removes a transaction without any effect, as if its process had died.
    pub fn forget(&mut self, id: Id) {
        if self.store.get(id).is_some() {
            self.store.remove(id);
        }
    }

    /// Time of the next call of [`expire`](Self::expire). No timer is due earlier, but perhaps none is due at this
    /// time.
    pub fn deadline(&self) -> Option<Instant> {
        self.queues.deadline()
    }

    /// Like [`deadline`](Self::deadline), without the timers that [`clear_away`](Self::clear_away) handles. For callers
    /// that call `clear_away` before each message.
    pub fn noticed_deadline(&self) -> Option<Instant> {
        self.queues.noticed_deadline()
    }

    /// The user's data of a transaction; `None` if it has ended.
    pub fn user(&self, id: Id) -> Option<&T> {
        self.store.get(id).map(|entry| &entry.user)
    }

    /// The user's data, mutable.
    pub fn user_mut(&mut self, id: Id) -> Option<&mut T> {
        self.store.get_mut(id).map(|entry| &mut entry.user)
    }

    /// Message kept for retransmission. For an unanswered INVITE, the CANCEL is made from it.
    pub fn message(&self, id: Id) -> Option<&M> {
        self.store.message(id)
    }

    /// State of a transaction; `None` if it has ended.
    pub fn machine(&self, id: Id) -> Option<Machine> {
        self.store.get(id).map(|entry| entry.machine)
    }

    /// All messages kept for retransmission.
    pub fn messages(&self) -> impl Iterator<Item = &M> {
        self.store.iter().filter_map(|(id, _)| self.message(id))
    }

    /// All transactions, with their user's data.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.store.iter().map(|(id, entry)| (id, &entry.user))
    }

    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are no transactions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of transactions with a running timer; counts them one by one.
    pub fn timers_set(&self) -> usize {
        self.store.timers()
    }

    /// Memory of transactions and messages in bytes, without the index and the timers.
    pub fn memory(&self) -> usize {
        self.store.memory()
    }

    /// Limits [`memory`](Self::memory). A message beyond the limit is sent, but not kept for retransmission. Must be
    /// called before each step, since the call subtracts the present memory of the entries.
    pub fn limit_memory(&mut self, most: usize) {
        self.store.limit_memory(most);
    }

    /// Work so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Creates a transaction, unless its key is in use.
    fn enter(&mut self, key: &ServerKey, machine: Machine, transport: TransportKind, user: T) -> Option<Id> {
        let own = ServerKey { is_ack: false, ..*key };
        if self.absent.take() != Some(own) && self.store.find(&own).is_some() {
            return None;
        }
        self.ledger.charge(Operation::CreateTransaction);
        Some(self.store.insert(key.key, key.tag, machine, transport, user))
    }

    fn note_absorbed(&mut self, step: Option<MachineStep<Machine>>) {
        if step.is_some_and(|step| step.tell == Tell::Nothing) {
            self.ledger.charge(Operation::Absorb);
        }
    }

    /// Gives an event without a message to a transaction; `None` if the transaction has ended.
    fn feed(
        &mut self,
        now: Instant,
        id: Id,
        event: TransactionEvent,
        why: Sending,
        out: &mut impl Effects<T, M>,
    ) -> Option<MachineStep<Machine>> {
        let decide = |entry: &Entry<T>| entry.machine.on(event, entry.transport);
        self.carry_out(now, id, why, out, decide, |step, entry, messages, out| {
            send_again(entry, messages, id, (step, why), out)
        })
    }

    /// Carries out the step that `decide` returns: sends messages, reports news, sets timers, and ends the transaction.
    /// `send` sends the message and returns whether it is a retransmission. `None` if the transaction has ended.
    #[inline]
    fn carry_out<E: Effects<T, M>>(
        &mut self,
        now: Instant,
        id: Id,
        why: Sending,
        out: &mut E,
        decide: impl FnOnce(&Entry<T>) -> MachineStep<Machine>,
        send: impl FnOnce(MachineStep<Machine>, &mut Entry<T>, &mut Messages<M>, &mut E) -> bool,
    ) -> Option<MachineStep<Machine>> {
        let Self { store, queues, ledger, .. } = self;
        let (entry, messages) = store.open(id)?;
        let step = decide(entry);
        if send(step, entry, messages, out) {
            ledger.charge(Operation::Retransmit);
        }
        entry.machine = step.next;
        if let Some(news) = news(step.tell, why) {
            out.tell(id, &mut entry.user, news);
        }
        if step.next.is_terminated() {
            // [17.1.1.2-27] [17.1.2.2-15] [17.2.1-23] [17.2.2-12] The transaction is destroyed at once.
            let entry = store.remove(id);
            ledger.charge(Operation::ExpireTransaction);
            out.ended(id, entry.user);
            return Some(step);
        }
        if !step.next.keeps_message() {
            messages.forget(&mut entry.kept);
        }
        set_timers(entry, queues, now, id, step);
        Some(step)
    }
}

/// Retransmits the kept message if the step says so. Returns whether it did.
fn send_again<T, M: KeptMessage>(
    entry: &Entry<T>,
    messages: &Messages<M>,
    id: Id,
    (step, why): (MachineStep<Machine>, Sending),
    out: &mut impl Effects<T, M>,
) -> bool {
    if step.send == Send::Again
        && let Some(message) = messages.get(entry.kept)
    {
        out.send(id, &entry.user, message, why);
        return true;
    }
    false
}

/// Sends a message of the user, and keeps it if it may be retransmitted.
#[inline(always)]
fn send_new<T, M: KeptMessage>(
    entry: &mut Entry<T>,
    messages: &mut Messages<M>,
    id: Id,
    send: Send,
    message: M,
    out: &mut impl Effects<T, M>,
) -> bool {
    if matches!(send, Send::New | Send::Pass) {
        out.send(id, &entry.user, &message, Sending::First);
    }
    if send == Send::New {
        messages.keep(&mut entry.kept, message);
    }
    false
}

/// Acknowledges a failure response, and keeps the ACK in place of the INVITE.
fn acknowledge<T, M: KeptMessage>(
    entry: &mut Entry<T>,
    messages: &mut Messages<M>,
    id: Id,
    response: &M::Response<'_>,
    out: &mut impl Effects<T, M>,
) -> bool {
    if let Some(ack) = messages.get(entry.kept).and_then(|invite| invite.ack(response)) {
        out.send(id, &entry.user, &ack, Sending::First);
        messages.keep(&mut entry.kept, ack);
    } else {
        messages.forget(&mut entry.kept);
    }
    false
}

/// Starts, changes and stops the two timers. Intervals start now, so no burst of retransmissions follows a late timer.
#[inline(always)]
fn set_timers<T>(
    entry: &mut Entry<T>,
    queues: &mut Queues,
    now: Instant,
    id: Id,
    step: MachineStep<Machine>,
) {
    let place = (id.at, id.generation);
    if step.pace == Pace::Stop {
        entry.resend_at = NEVER;
    } else if let Some(interval) = queues.paced(entry.interval, step.pace) {
        entry.interval = interval;
        match entry.repeats {
            0 => entry.resend_at = NEVER,
            left => {
                entry.repeats -= u8::from(left != UNLIMITED_REPEATS);
                entry.resend_at = queues.resend(now, interval, place);
            }
        }
    }
    match step.life {
        Life::Keep => {}
        Life::Set(timer) => (entry.life, entry.life_at) = (timer, queues.live(now, timer, place)),
        Life::Clear => entry.life_at = NEVER,
    }
}

/// News of a machine, with the timer that caused them.
fn news(tell: Tell, why: Sending) -> Option<TransactionNews> {
    match (tell, why) {
        (Tell::Nothing, _) => None,
        (Tell::Message, _) => Some(TransactionNews::Message),
        (Tell::TryingDue, _) => Some(TransactionNews::TryingDue),
        (Tell::Timeout, Sending::Timer(timer)) => Some(TransactionNews::Timeout(timer)),
        (Tell::Timeout, _) => unreachable!("only a timer causes a timeout"),
        (Tell::TransportError, _) => Some(TransactionNews::TransportError),
    }
}
