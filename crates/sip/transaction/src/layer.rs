//! All transactions of an element: their matching, their timers, and what they keep.

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

/// How many timers one call of [`Layer::expire`] or [`Layer::clear_away`] runs: at some 200 ns each, well under a
/// millisecond.
pub const EXPIRE_MAX: usize = 1024;

/// All transactions of an element.
///
/// - Client: [`request`](Self::request) begins one, [`limit_repeats`](Self::limit_repeats) makes it a modest one,
///   [`response`](Self::response) takes what comes back, [`cancel`](Self::cancel) asks whether a CANCEL may go out,
///   [`send_otherwise`](Self::send_otherwise) changes the transport.
/// - Server: [`received`](Self::received) matches what comes in, [`accept`](Self::accept) begins one,
///   [`respond`](Self::respond) answers, [`find`](Self::find) finds what a CANCEL is about.
/// - Both: [`transport_error`](Self::transport_error); [`expire`](Self::expire) at [`deadline`](Self::deadline), or
///   [`clear_away`](Self::clear_away) before each message and the rest at
///   [`noticed_deadline`](Self::noticed_deadline); [`forget`](Self::forget), [`limit_memory`](Self::limit_memory).
/// - Looking in: [`user`](Self::user), [`user_mut`](Self::user_mut), [`message`](Self::message),
///   [`machine`](Self::machine), [`iter`](Self::iter), [`len`](Self::len), [`memory`](Self::memory),
///   [`timers_set`](Self::timers_set), [`ledger`](Self::ledger).
#[derive(Debug)]
pub struct Layer<T, M> {
    store: Store<T, M>,
    queues: Queues,
    ledger: Ledger,
    /// A key that [`Layer::received`] has just not found: the look-up before a transaction is entered has been made.
    absent: Option<ServerKey>,
}

/// A transaction to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct New<K, T> {
    /// What its messages will be known by: a [`TransactionKey`] on the client's side, a [`ServerKey`] on the
    /// server's.
    pub key: K,
    /// Of its request.
    pub kind: TransactionKind,
    /// What carries its messages.
    pub transport: TransportKind,
    /// What the user keeps with it.
    pub user: T,
}

/// A timer that is due, and the transaction that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DueTimer {
    id: Id,
    /// Which timer it is.
    pub timer: Timer,
}

impl<T, M: KeptMessage> Layer<T, M> {
    /// A layer without transactions.
    pub fn new(timers: Timers) -> Self {
        Self { store: Store::default(), queues: Queues::new(timers), ledger: Ledger::default(), absent: None }
    }

    /// Begins a client transaction and sends its request; `None`, and nothing is sent, when there is one of this key.
    /// An ACK makes no transaction: it is just sent.
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

    /// The message that this transaction has just sent first is repeated `most` times at most, which its timers may
    /// have more often: RFC 3261 §17.1.1.2 and §17.1.2.2 say when a request SHOULD be, for a next hop that is known
    /// to want it.
    pub fn limit_repeats(&mut self, id: Id, most: u8) {
        let Some(entry) = self.store.get_mut(id) else { return };
        match most {
            0 => (entry.repeats, entry.resend_at) = (0, NEVER),
            // The first one is set already.
            most => entry.repeats = most - 1,
        }
    }

    /// Takes a response of the network. `None`: it answers nothing of ours and goes nowhere.
    ///
    /// [18.1.2-1] What matches goes to its transaction. [6026-1] What does not is not forwarded.
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

    /// The user wants to cancel an INVITE. Whether the CANCEL may be sent now, as a request of its own.
    ///
    /// [9.1-5] Not before a provisional response: the user asks again when one comes. [9.1-6] Not after a final one.
    /// When it may, [9.1-7] the INVITE has 64*T1 to be answered, then it is given up.
    pub fn cancel(&mut self, now: Instant, id: Id, out: &mut impl Effects<T, M>) -> bool {
        let Some(before) = self.machine(id) else { return false };
        self.feed(now, id, TransactionEvent::Cancel, Sending::First, out);
        self.machine(id) != Some(before)
    }

    /// Takes a request of the network. `None`: it is no repetition, and no ACK to a failure; the user decides whether
    /// to [`accept`](Self::accept) it.
    ///
    /// [18.2.1-1] What matches goes to its transaction, what does not goes to the user.
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

    /// Begins a server transaction; `None` when there is one of this key.
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

    /// Answers a request. Whether the response was sent: RFC 3261 and RFC 4320 forbid some, and a transaction that is
    /// over sends nothing ([4320-5]).
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
                // [17.2.3-6] By this tag the ACK will be known.
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

    /// Gives a request other than INVITE up, which gets no answer (RFC 4320 §4.2). Its repetitions are absorbed for as long as
    /// those of an answered one.
    pub fn abandon(&mut self, now: Instant, id: Id, out: &mut impl Effects<T, M>) {
        self.feed(now, id, TransactionEvent::Respond(StatusClass::Timeout), Sending::First, out);
    }

    /// The client transaction of this key.
    pub fn find_client(&self, key: TransactionKey) -> Option<Id> {
        self.store.find(&ServerKey { key, tag: Tag::NONE, is_ack: false })
    }

    /// What carries the messages of a transaction; `None` when it is over.
    pub fn transport(&self, id: Id) -> Option<TransportKind> {
        self.store.get(id).map(|entry| entry.transport)
    }

    /// The transaction of this key: for a CANCEL, with [`crate::Keys::cancelled`].
    pub fn find(&self, key: &ServerKey) -> Option<Id> {
        self.store.find(key)
    }

    /// The transaction of a request that differs from that of this key by its method alone: what a CANCEL is about
    /// that is about no INVITE. Keys made from numbers have none.
    pub fn find_other_method(&self, key: &ServerKey) -> Option<Id> {
        self.store.find_other_method(key)
    }

    /// The request of this transaction, which nobody has answered, goes another way than the one that it took in vain: as
    /// this message, over this transport (RFC 3261 §18.1.1). The time that it may take goes on.
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

    /// What this transaction sent could not be delivered.
    pub fn transport_error(&mut self, now: Instant, id: Id, out: &mut impl Effects<T, M>) {
        self.feed(now, id, TransactionEvent::TransportError, Sending::First, out);
    }

    /// Runs the timers that are due, at most [`EXPIRE_MAX`] of them; [`deadline`](Self::deadline) tells whether some
    /// are left.
    pub fn expire(&mut self, now: Instant, out: &mut impl Effects<T, M>) {
        for _ in 0..EXPIRE_MAX {
            let Some(due) = self.due(now) else { return };
            self.fire(now, due, out);
        }
    }

    /// The next timer that is due. It acts when it is given to [`fire`](Self::fire): at once, or when a processor
    /// gets round to it.
    pub fn due(&mut self, now: Instant) -> Option<DueTimer> {
        let Self { store, queues, ledger, .. } = self;
        let (timer, purpose) = queues.pop(now, |timer, purpose| store.waits(timer, purpose))?;
        ledger.charge(Operation::TimerFire);
        let id = Id { at: timer.place, generation: timer.generation };
        let entry = store.get_mut(id).expect("only what lives waits for a timer");
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

    /// Lets a timer act. One that its transaction no longer waits for does nothing.
    pub fn fire(&mut self, now: Instant, due: DueTimer, out: &mut impl Effects<T, M>) {
        let DueTimer { id, timer } = due;
        self.feed(now, id, TransactionEvent::Timer(timer), Sending::Timer(timer), out);
    }

    /// Ends the transactions whose timers D and I to M are due: they have done their duty, so nobody notices. When
    /// that happens makes no difference, as long as it is before the layer is asked about the next message. `ended`
    /// gets what [`Effects::ended`] would. At most [`EXPIRE_MAX`] of them; returns whether some are left.
    #[inline]
    #[must_use]
    pub fn clear_away(&mut self, now: Instant, ended: impl FnMut(Id, T)) -> bool {
        // Asked before each message, and mostly for nothing.
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
                "it would do more than end"
            );
            ledger.charge(Operation::TimerFire);
            ledger.charge(Operation::ExpireTransaction);
            ended(id, entry.user);
        }
        queues.unnoticed_deadline().is_some_and(|due| due <= now)
    }

    /// Ends a transaction without a word, as the death of its process does.
    pub fn forget(&mut self, id: Id) {
        if self.store.get(id).is_some() {
            self.store.remove(id);
        }
    }

    /// When [`expire`](Self::expire) is to be called next; a lower bound.
    pub fn deadline(&self) -> Option<Instant> {
        self.queues.deadline()
    }

    /// The same for whoever calls [`clear_away`](Self::clear_away) before each message, and need not wake up for
    /// those.
    pub fn noticed_deadline(&self) -> Option<Instant> {
        self.queues.noticed_deadline()
    }

    /// What the user keeps with a transaction; `None` when it is over.
    pub fn user(&self, id: Id) -> Option<&T> {
        self.store.get(id).map(|entry| &entry.user)
    }

    /// The same, to be changed.
    pub fn user_mut(&mut self, id: Id) -> Option<&mut T> {
        self.store.get_mut(id).map(|entry| &mut entry.user)
    }

    /// What the transaction keeps to send again: of an unanswered INVITE, what the CANCEL is made from.
    pub fn message(&self, id: Id) -> Option<&M> {
        self.store.message(id)
    }

    /// Where a transaction stands; `None` when it is over.
    pub fn machine(&self, id: Id) -> Option<Machine> {
        self.store.get(id).map(|entry| entry.machine)
    }

    /// The messages that are kept to be sent again.
    pub fn messages(&self) -> impl Iterator<Item = &M> {
        self.store.iter().filter_map(|(id, _)| self.message(id))
    }

    /// All transactions, with what the user keeps with them.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.store.iter().map(|(id, entry)| (id, &entry.user))
    }

    /// How many transactions there are.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many transactions wait for a timer; counted one by one.
    pub fn timers_set(&self) -> usize {
        self.store.timers()
    }

    /// Bytes of memory that they and their messages take, without what finding them and their timers does.
    pub fn memory(&self) -> usize {
        self.store.memory()
    }

    /// A message that would make [`memory`](Self::memory) more than this is sent, but not kept to be sent again. To
    /// be said before each step: what is kept beside the messages is taken off now.
    pub fn limit_memory(&mut self, most: usize) {
        self.store.limit_memory(most);
    }

    /// The work done so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Enters a transaction, unless its key is taken.
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

    /// Gives an event to a transaction that brings no message to send; `None` when it is over.
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

    /// Does what the step that is decided on asks for: send, tell, set timers, end. What is sent is the caller's, who
    /// says whether it has been sent before. `None` when the transaction is over.
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
            // [17.1.1.2-27] [17.1.2.2-15] [17.2.1-23] [17.2.2-12] At once.
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

/// Sends what was sent before, if the step asks for it. Whether it did.
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

/// Sends a message of the user, and keeps it if it may be sent again.
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

/// Starts, moves and stops the two timers. Intervals count from now: a late one is not made up for by a burst.
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

/// What a machine tells, with the timer that made it.
fn news(tell: Tell, why: Sending) -> Option<TransactionNews> {
    match (tell, why) {
        (Tell::Nothing, _) => None,
        (Tell::Message, _) => Some(TransactionNews::Message),
        (Tell::TryingDue, _) => Some(TransactionNews::TryingDue),
        (Tell::Timeout, Sending::Timer(timer)) => Some(TransactionNews::Timeout(timer)),
        (Tell::Timeout, _) => unreachable!("only a timer brings a timeout"),
        (Tell::TransportError, _) => Some(TransactionNews::TransportError),
    }
}
