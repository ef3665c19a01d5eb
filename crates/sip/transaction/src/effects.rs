//! Effects of the layer, and the messages that it handles.

use crate::key::Tag;
use crate::machine::Timer;
use crate::store::Id;

/// Value for as many retransmissions as the timers allow.
pub const UNLIMITED_REPEATS: u8 = u8::MAX;

/// A message that the layer keeps for retransmission. In a live proxy it is bytes with an address, in a simulation a
/// few numbers.
pub trait KeptMessage: Sized {
    /// A received response.
    type Response<'a>;

    /// ACK of a sent INVITE to a failure response (RFC 3261 §17.1.1.3). `None` if the INVITE cannot be read.
    fn ack(&self, response: &Self::Response<'_>) -> Option<Self>;

    /// To tag of a response. Called only for responses to RFC 2543 peers.
    fn to_tag(&self) -> Tag;

    /// Maximum number of retransmissions of a final response by timer G, if the user wants fewer than RFC 3261 §17.2.1
    /// specifies.
    fn repeats(&self) -> u8 {
        UNLIMITED_REPEATS
    }

    /// Memory that the message takes besides its own size, in bytes.
    fn memory(&self) -> usize {
        0
    }
}

/// Reason why a message is sent. Simulations assign a different cost to each reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sending {
    /// First sending: a message from the user, or the first ACK.
    First,
    /// Retransmission by a timer, without any input.
    Timer(Timer),
    /// The peer retransmitted its message.
    Repeat,
}

/// News for the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionNews {
    /// The message given to the layer in this step is passed on.
    Message,
    /// The request has no response so far, so the user has to send a 100 unless it has a better response.
    TryingDue,
    /// No response or no ACK arrived; the timer shows which of the two.
    Timeout(Timer),
    /// A message could not be delivered.
    TransportError,
}

/// Receiver of the effects of a step, in order. `T` is the user's data of a transaction.
pub trait Effects<T, M> {
    /// Sends this message now.
    fn send(&mut self, id: Id, user: &T, message: &M, why: Sending);
    /// Passes news to the user.
    fn tell(&mut self, id: Id, user: &mut T, news: TransactionNews);
    /// Reports the end of the transaction; `id` is invalid from now on.
    fn ended(&mut self, id: Id, user: T);
}

/// One effect, for callers that collect effects in a `Vec`.
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
