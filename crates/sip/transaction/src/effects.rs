//! What goes out of the layer, and the messages that it handles.

use crate::key::Tag;
use crate::machine::Timer;
use crate::store::Id;

/// As often as the timers have it.
pub const UNLIMITED_REPEATS: u8 = u8::MAX;

/// A message as the layer keeps it to send it again: bytes with an address live, a few numbers in a simulation.
pub trait KeptMessage: Sized {
    /// A response as it comes in.
    type Response<'a>;

    /// Of an INVITE that was sent: the ACK to a failure response (RFC 3261 §17.1.1.3). `None` when the INVITE is no
    /// message at all.
    fn ack(&self, response: &Self::Response<'_>) -> Option<Self>;

    /// Of a response: its To tag. Asked only for responses to RFC 2543 peers.
    fn to_tag(&self) -> Tag;

    /// Of a final response to INVITE: how often timer G may repeat it, where its user wants fewer repetitions than
    /// RFC 3261 §17.2.1 has.
    fn repeats(&self) -> u8 {
        UNLIMITED_REPEATS
    }

    /// Bytes of memory that it holds beside its own size.
    fn memory(&self) -> usize {
        0
    }
}

/// Why a message is sent: a simulation prices them differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sending {
    /// The user gave it, or it is the first ACK.
    First,
    /// A timer fired: work that nobody outside asked for.
    Timer(Timer),
    /// The peer sent its message again.
    Repeat,
}

/// What the user is told, and why it is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionNews {
    /// The message that was handed to the layer in this step is for the user.
    Message,
    /// The request has no response yet: a 100 is due unless something better is at hand.
    TryingDue,
    /// Nobody answered, or nobody acknowledged; the timer says which.
    Timeout(Timer),
    /// What was sent could not be delivered.
    TransportError,
}

/// Takes the effects of a step, in order. `T` is what the user keeps with a transaction.
pub trait Effects<T, M> {
    /// This message is to be sent now.
    fn send(&mut self, id: Id, user: &T, message: &M, why: Sending);
    /// The user is to know this.
    fn tell(&mut self, id: Id, user: &mut T, news: TransactionNews);
    /// The transaction is over and `id` names nothing any more.
    fn ended(&mut self, id: Id, user: T);
}

/// One effect, for those who collect them in a `Vec`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransactionEffect<T, M> {
    /// See [`Effects::send`].
    Send(Id, M, Sending),
    /// See [`Effects::tell`].
    Tell(Id, T, TransactionNews),
    /// See [`Effects::ended`].
    Ended(Id, T),
}

impl<T: Clone, M: Clone> Effects<T, M> for Vec<TransactionEffect<T, M>> {
    fn send(&mut self, id: Id, _: &T, message: &M, why: Sending) {
        self.push(TransactionEffect::Send(id, message.clone(), why));
    }

    fn tell(&mut self, id: Id, user: &mut T, news: TransactionNews) {
        self.push(TransactionEffect::Tell(id, user.clone(), news));
    }

    fn ended(&mut self, id: Id, user: T) {
        self.push(TransactionEffect::Ended(id, user));
    }
}
