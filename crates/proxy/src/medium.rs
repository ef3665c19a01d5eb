//! What a proxy is built upon: how messages look, how they are edited, where they go, and who sends them.

use crate::context::ProxyEvent;
use base::Instant;
use transaction::{KeptMessage, Sending, TransactionKey, TransportKind};

/// A refusal of the request by the proxy itself, as a status code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyRefusal(pub u16);

/// What messages are made of: bytes, or small typed values. And who knows how to treat them, by their types: the proxy calls
/// them several times for each message.
pub trait Form: Sized {
    /// A message on its way out: what is sent, and where to.
    type Message: KeptMessage;
    /// A request that came in, as it is kept until it is answered.
    type Request;
    /// What the call of a request is known by.
    type Call: Copy;
    /// Where a request can be sent.
    type Hop: Copy;
    /// Reads, makes and edits messages.
    type Medium<'a>: Medium<Self>;
    /// Says where requests go.
    type Router<'a>: Router<Self>;
}

/// How messages are read, made and edited.
pub trait Medium<F: Form> {
    /// The call of a request, kept as long as a repetition of the request may come ([`Proxy::calls`](crate::Proxy::calls)).
    fn call(&self, request: &F::Request) -> F::Call;

    /// What carries a request to a hop.
    fn transport(&self, request: &F::Request, hop: F::Hop) -> TransportKind;

    /// The request as it is forwarded (§16.6): own Route taken off, Max-Forwards, Record-Route where a dialog may
    /// begin, a Via whose branch is made of `serial`, which is never used twice. And the key of its client
    /// transaction. An ACK and what is forwarded without a transaction gets a branch that depends on the request alone
    /// (§16.11): `serial` is `None` then.
    fn forward(
        &mut self,
        request: &F::Request,
        hop: F::Hop,
        serial: Option<u64>,
    ) -> (F::Message, TransactionKey);

    /// A response of the next hop as it goes back (§16.7 steps 3, 8 and 9): our Via popped, to where the next Via leads.
    /// `None` when there is none. `request` is what it answers, until that has its final response.
    fn relay(
        &mut self,
        request: Option<&mut F::Request>,
        response: &<F::Message as KeptMessage>::Response<'_>,
    ) -> Option<F::Message>;

    /// An answer of ours (§8.2.6); `None` if the request gets none, whatever happens to it.
    fn respond(&mut self, request: &F::Request, status: u16) -> Option<F::Message>;

    /// The CANCEL of a request that was forwarded (§9.1), and the key of its client transaction.
    fn cancel(&mut self, invite: &F::Message) -> (F::Message, TransactionKey);

    /// Bytes of memory that a request holds beside its own size.
    fn memory(&self, request: &F::Request) -> usize {
        let _ = request;
        0
    }
}

/// Where requests go.
pub trait Router<F: Form> {
    /// The next hop of a request (RFC 3261 §16.4 to §16.6): by its Route, else by its target. `attempt` counts the
    /// alternates tried before, from zero.
    ///
    /// # Errors
    /// The refusal, if the request is to go nowhere.
    fn next_hop(&mut self, request: &mut F::Request, attempt: u8) -> Result<F::Hop, ProxyRefusal>;

    /// Whether there would be another hop after `attempt` of them.
    fn has_alternate(&self, request: &F::Request, attempt: u8) -> bool;

    /// How often the request is sent again at most, if less often than its timers would have it: for a next hop of which
    /// nobody knows whether it wants to hear of us.
    fn most_repeats(&self, request: &F::Request) -> Option<u8> {
        let _ = request;
        None
    }

    /// The next hop of this attempt has given its first response other than 100, or never will give one: told once an
    /// attempt with that event, and `last` unless another attempt is to follow. Senders that limit what is under way count
    /// by it.
    fn settled(&mut self, request: &mut F::Request, attempt: u8, event: ProxyEvent, last: bool) {
        let _ = (request, attempt, event, last);
    }
}

impl<F: Form, M: Medium<F>> Medium<F> for &mut M {
    fn call(&self, request: &F::Request) -> F::Call {
        (**self).call(request)
    }

    fn transport(&self, request: &F::Request, hop: F::Hop) -> TransportKind {
        (**self).transport(request, hop)
    }

    fn forward(
        &mut self,
        request: &F::Request,
        hop: F::Hop,
        serial: Option<u64>,
    ) -> (F::Message, TransactionKey) {
        (**self).forward(request, hop, serial)
    }

    fn relay(
        &mut self,
        request: Option<&mut F::Request>,
        response: &<F::Message as KeptMessage>::Response<'_>,
    ) -> Option<F::Message> {
        (**self).relay(request, response)
    }

    fn respond(&mut self, request: &F::Request, status: u16) -> Option<F::Message> {
        (**self).respond(request, status)
    }

    fn cancel(&mut self, invite: &F::Message) -> (F::Message, TransactionKey) {
        (**self).cancel(invite)
    }

    fn memory(&self, request: &F::Request) -> usize {
        (**self).memory(request)
    }
}

impl<F: Form, R: Router<F>> Router<F> for &mut R {
    fn next_hop(&mut self, request: &mut F::Request, attempt: u8) -> Result<F::Hop, ProxyRefusal> {
        (**self).next_hop(request, attempt)
    }

    fn has_alternate(&self, request: &F::Request, attempt: u8) -> bool {
        (**self).has_alternate(request, attempt)
    }

    fn most_repeats(&self, request: &F::Request) -> Option<u8> {
        (**self).most_repeats(request)
    }

    fn settled(&mut self, request: &mut F::Request, attempt: u8, event: ProxyEvent, last: bool) {
        (**self).settled(request, attempt, event, last);
    }
}

/// One step of a proxy: when it is, and what it works with.
pub struct ProxyStep<'a, F: Form> {
    /// The time.
    pub now: Instant,
    /// Reads, makes and edits messages.
    pub medium: F::Medium<'a>,
    /// Says where requests go.
    pub router: F::Router<'a>,
    /// Takes what is sent.
    pub sink: &'a mut dyn Sink<F::Message>,
}

/// Takes what is sent.
pub trait Sink<M> {
    /// This message leaves now.
    fn send(&mut self, message: &M, why: Sending);
}

impl<M: Clone> Sink<M> for Vec<M> {
    fn send(&mut self, message: &M, _: Sending) {
        self.push(message.clone());
    }
}
