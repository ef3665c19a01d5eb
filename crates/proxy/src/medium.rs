use transaction::{Key, Message, Sending, TransportKind};

/// A refusal of the request by the proxy itself, as a status code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal(pub u16);

/// A representation of messages: how they are read, edited and routed.
pub trait Medium {
    /// A message on its way out: what is sent, and where to.
    type Message: Message;
    /// A request that came in, as it is kept until it is answered.
    type Request;
    /// What the call of a request is known by.
    type Call: Copy;
    /// Where a request can be sent.
    type Hop: Copy;

    /// The call of a request, kept as long as a repetition of the request may come ([`Proxy::calls`](crate::Proxy::calls)).
    fn call(&self, request: &Self::Request) -> Self::Call;

    /// The next hop of a request (RFC 3261 §16.4 to §16.6): by its Route, else by its target. `attempt` counts the
    /// alternates tried before, from zero.
    ///
    /// # Errors
    /// The refusal, if the request is to go nowhere.
    fn next_hop(&mut self, request: &Self::Request, attempt: u8) -> Result<Self::Hop, Refusal>;

    /// Whether there would be another hop after `attempt` of them.
    fn has_alternate(&self, request: &Self::Request, attempt: u8) -> bool;

    /// What carries messages to a hop.
    fn transport(&self, hop: Self::Hop) -> TransportKind;

    /// The request as it is forwarded (§16.6): own Route taken off, Max-Forwards, Record-Route where a dialog may
    /// begin, a Via whose branch is made of `serial`, which is never used twice. And the key of its client
    /// transaction. An ACK and what is forwarded without a transaction gets a branch that depends on the request alone
    /// (§16.11): `serial` is `None` then.
    fn forward(
        &mut self,
        request: &Self::Request,
        hop: Self::Hop,
        serial: Option<u64>,
    ) -> (Self::Message, Key);

    /// How often the request is sent again at most, if less often than its timers would have it: for a next hop of which
    /// nobody knows whether it wants to hear of us.
    fn most_repeats(&self, request: &Self::Request) -> Option<u8> {
        let _ = request;
        None
    }

    /// A response of the next hop as it goes back (§16.7 steps 3, 8 and 9): our Via popped, to where the next Via leads.
    /// `None` when there is none. `request` is what it answers, until that has its final response.
    fn relay(
        &mut self,
        request: Option<&mut Self::Request>,
        response: &<Self::Message as Message>::Response<'_>,
    ) -> Option<Self::Message>;

    /// An answer of ours (§8.2.6); `None` if the request gets none, whatever happens to it.
    fn respond(&mut self, request: &Self::Request, status: u16) -> Option<Self::Message>;

    /// The next hop of this attempt has given its first response other than 100, or never will give one: told once an
    /// attempt with the status of that response, and `last` unless another attempt follows. Senders that limit what is
    /// under way count by it.
    fn settled(&mut self, request: &Self::Request, attempt: u8, status: Option<u16>, last: bool) {
        let _ = (request, attempt, status, last);
    }

    /// Bytes of memory that a request holds beside its own size.
    fn memory(request: &Self::Request) -> usize {
        let _ = request;
        0
    }

    /// The CANCEL of a request that was forwarded (§9.1), and the key of its client transaction.
    fn cancel(&mut self, invite: &Self::Message) -> (Self::Message, Key);
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
