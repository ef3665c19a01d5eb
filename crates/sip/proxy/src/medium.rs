//! What a proxy is built upon: how messages look, how they are edited, where they go, and who sends them.

use crate::branch::ProxyEvent;
use base::Instant;
use core::time::Duration;
use transaction::{KeptMessage, Sending, TransactionKey, TransportKind};

/// A refusal of the request by the proxy itself, as a status code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyRefusal(pub u16);

/// Which try of a request it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attempt {
    /// The number of the branch, from zero, over all groups of targets.
    pub branch: u8,
    /// The alternates that this branch has tried before.
    pub alternate: u8,
}

/// A branch that begins with a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewBranch {
    /// Never used twice, so that each branch has another id (RFC 3261 §16.6 step 8).
    pub serial: u64,
    /// How many branches the request may have beyond this hop: its Max-Breadth (RFC 5393 §5.3.3).
    pub breadth: u8,
}

/// What messages are made of: bytes, or small typed values. And who knows how to treat them, by their types: the
/// proxy calls them several times for each message.
pub trait Form: Sized {
    /// A message on its way out: what is sent, and where to.
    type Message: KeptMessage;
    /// A request that came in, as it is kept until it is answered.
    type Request: KeptRequest;
    /// What the call of a request is known by.
    type Call: Copy;
    /// Where a request can be sent.
    type Hop: Copy;
    /// Reads, makes and edits messages.
    type Medium<'a>: Medium<Self>;
    /// Says where requests go.
    type Router<'a>: Router<Self>;
}

/// A request that came in, as it is kept until it is answered.
pub trait KeptRequest {
    /// The way back of its responses.
    type Back: Copy;

    /// Where its responses go (§18.2.2). Kept longer than the request, for further 2xx (§16.7 step 5).
    fn back(&self) -> Self::Back;
}

/// The request that a response answers.
pub enum Answered<'a, R: KeptRequest> {
    /// It has had no final response.
    Waiting(&'a mut R),
    /// It has had its final response: the way back is all that is kept of it.
    Final(R::Back),
}

/// How messages are read, made and edited.
pub trait Medium<F: Form> {
    /// The call of a request, kept as long as a repetition of the request may come
    /// ([`Proxy::calls`](crate::Proxy::calls)).
    fn call(&self, request: &F::Request) -> F::Call;

    /// What carries a request to a hop, in the form that [`forward`](Self::forward) has made for that.
    fn transport(&self, request: &F::Request, hop: F::Hop, message: &F::Message) -> TransportKind;

    /// The Max-Breadth that a request has, or gets where it has none (RFC 5393 §5.3.3: 60, and no more than that).
    fn breadth(&self, request: &F::Request) -> u8 {
        let _ = request;
        60
    }

    /// The request as it is forwarded (§16.6): own Route taken off, Max-Forwards, Record-Route where a dialog may
    /// begin, a Via whose branch is made of the serial number. And the key of its client transaction. An ACK and what
    /// is forwarded without a transaction gets a branch that depends on the request alone (§16.11): `branch` is
    /// `None` then.
    fn forward(
        &mut self,
        request: &F::Request,
        hop: F::Hop,
        branch: Option<NewBranch>,
    ) -> (F::Message, TransactionKey);

    /// A response of the next hop as it goes back (§16.7 steps 3, 8 and 9): our Via popped, to where the request came
    /// from. `None` when there is no other Via.
    fn relay(
        &mut self,
        answered: Answered<'_, F::Request>,
        response: &<F::Message as KeptMessage>::Response<'_>,
    ) -> Option<F::Message>;

    /// Adds the challenges of a response, its WWW-Authenticate and Proxy-Authenticate, to another one that is to go
    /// back (§16.7 step 7).
    fn add_challenges(&mut self, best: &mut F::Message, response: &<F::Message as KeptMessage>::Response<'_>);

    /// An answer of ours (§8.2.6); `None` if the request gets none, whatever happens to it.
    fn respond(&mut self, request: &F::Request, status: u16) -> Option<F::Message>;

    /// Whether an INVITE gets its 100 at once. Otherwise it gets it after 200 ms, unless another response has gone back by then
    /// (§17.2.1).
    fn tries_at_once(&self, request: &F::Request) -> bool {
        let _ = request;
        true
    }

    /// The request gets its final response now, which is no 2xx: one of a next hop that was kept for it, unless it is
    /// of ours (`is_own`). A 2xx is heard of by [`relay`](Self::relay).
    fn concluded(&mut self, request: &F::Request, status: u16, is_own: bool) {
        let _ = (request, status, is_own);
    }

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
    /// How many targets the next group of a request has, which are tried in parallel (RFC 3261 §16.6); groups are
    /// counted from zero, and `most` branches may still begin. The first group has a target; of a later one without
    /// any, the next is asked for.
    fn next_group(&mut self, request: &mut F::Request, group: u8, most: u8) -> u8 {
        let _ = (request, most);
        u8::from(group == 0)
    }

    /// Whether there would be another group after this one.
    fn has_group(&self, request: &F::Request, after: u8) -> bool {
        let _ = (request, after);
        false
    }

    /// How long a group is tried before the next one is; without end if that is not said.
    fn ring_time(&self, request: &F::Request) -> Option<Duration> {
        let _ = request;
        None
    }

    /// How long a next hop may leave an INVITE without a response before another one, that of
    /// [`next_hop`](Self::next_hop) for another branch, gets it as well; where there is none then, it is asked for
    /// again, less and less often. Without end if that is not said. Of a request whose targets are one group of one.
    fn patience(&self, request: &F::Request) -> Option<Duration> {
        let _ = request;
        None
    }

    /// Of the next hops that have got an INVITE, each since those before were silent, this one has answered first, or
    /// has sent the first 2xx: it has the request, and the others are cancelled; this one as well if it
    /// `is_cancelled`.
    fn won(&mut self, request: &mut F::Request, attempt: Attempt, is_cancelled: bool) {
        let _ = (request, attempt, is_cancelled);
    }

    /// The next hop of a try (RFC 3261 §16.4 to §16.6): by the Route of the request, else by its target. Asked for
    /// the targets of a group in turn.
    ///
    /// # Errors
    /// The refusal, if the request is to go nowhere. Only the first one of all refuses the request; another target is
    /// left out.
    fn next_hop(&mut self, request: &mut F::Request, attempt: Attempt) -> Result<F::Hop, ProxyRefusal>;

    /// Whether there would be another hop after this one, in the same branch.
    fn has_alternate(&self, request: &F::Request, attempt: Attempt) -> bool;

    /// An attempt has failed with this event, perhaps after a provisional response, and [`next_hop`](Self::next_hop) is asked
    /// for an alternate next.
    fn failed(&mut self, request: &mut F::Request, attempt: Attempt, event: ProxyEvent) {
        let _ = (request, attempt, event);
    }

    /// How often the request is sent again at most, if less often than its timers would have it: for a next hop of
    /// which nobody knows whether it wants to hear of us.
    fn most_repeats(&self, request: &F::Request) -> Option<u8> {
        let _ = request;
        None
    }

    /// The next hop of this attempt has given its first response other than 100, or never will give one: told once an
    /// attempt with that event, and `last` unless another attempt of its branch is to follow. Senders that limit what
    /// is under way count by it. Branches that are left when the request has its final response are not told of.
    fn settled(&mut self, request: &mut F::Request, attempt: Attempt, event: ProxyEvent, last: bool) {
        let _ = (request, attempt, event, last);
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
