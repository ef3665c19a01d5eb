//! Traits that the user of the proxy implements: the form of messages, their editing, their routing, and their sending.

use crate::branch::ProxyEvent;
use base::Instant;
use core::time::Duration;
use transaction::{KeptMessage, Sending, TransactionKey, TransportKind};

/// Status code with which the proxy itself refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyRefusal(pub u16);

/// Number of an attempt to send a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attempt {
    /// Number of the branch, from zero, over all groups of targets.
    pub branch: u8,
    /// Number of alternates that this branch has tried before this attempt.
    pub alternate: u8,
}

/// New branch with a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewBranch {
    /// Serial number, never used twice, so that each branch has its own id (RFC 3261 §16.6 step 8).
    pub serial: u64,
    /// Max-Breadth of the forwarded request (RFC 5393 §5.3.3): the number of branches that it may have after this hop.
    pub breadth: u8,
}

/// Representation of messages, as bytes or small typed values, with the types that handle it. These are types and not
/// trait objects, since the proxy calls them several times for each message.
pub trait Form: Sized {
    /// A message to send, with its destination.
    type Message: KeptMessage;
    /// A received request, as kept until it is answered.
    type Request: KeptRequest;
    /// Identifier of a request's call.
    type Call: Copy;
    /// Destination of a request.
    type Hop: Copy;
    /// Reads, makes and edits messages.
    type Medium<'a>: Medium<Self>;
    /// Chooses destinations of requests.
    type Router<'a>: Router<Self>;
}

/// A received request, as kept until it is answered.
pub trait KeptRequest {
    /// Return path of its responses.
    type Back: Copy;

    /// Destination of its responses (§18.2.2). It is kept longer than the request, for further 2xx (§16.7 step 5).
    fn back(&self) -> Self::Back;
}

/// Request that a response answers.
pub enum Answered<'a, R: KeptRequest> {
    /// A request without a final response so far.
    Waiting(&'a mut R),
    /// A request with its final response, of which only the return path is kept.
    Final(R::Back),
}

/// Reading, making and editing of messages.
pub trait Medium<F: Form> {
    /// Call of a request, kept as long as a retransmission of the request may arrive
    /// ([`Proxy::calls`](crate::Proxy::calls)).
    fn call(&self, request: &F::Request) -> F::Call;

    /// Transport of a request to a hop, as [`forward`](Self::forward) has made `message`.
    fn transport(&self, request: &F::Request, hop: F::Hop, message: &F::Message) -> TransportKind;

    /// Max-Breadth of a request: at most 60, and 60 if the request has none (RFC 5393 §5.3.3).
    fn breadth(&self, request: &F::Request) -> u8 {
        let _ = request;
        60
    }

    /// Makes the forwarded request (§16.6) and its key. Removes this proxy's Route, edits Max-Forwards, adds a
    /// Record-Route if a dialog may be created, and adds a Via with a branch made from the serial number. `branch` is
    /// `None` for an ACK and for a request forwarded without a transaction. The branch parameter of such a request
    /// depends only on the request (§16.11).
    fn forward(
        &mut self,
        request: &F::Request,
        hop: F::Hop,
        branch: Option<NewBranch>,
    ) -> (F::Message, TransactionKey);

    /// Makes the forwarded response from the next hop's response (§16.7 steps 3, 8 and 9): removes this proxy's Via,
    /// and addresses the response to the previous hop. `None` if there is no other Via.
    fn relay(
        &mut self,
        answered: Answered<'_, F::Request>,
        response: &<F::Message as KeptMessage>::Response<'_>,
    ) -> Option<F::Message>;

    /// Adds the challenges of a response, its WWW-Authenticate and Proxy-Authenticate, to the response to be forwarded
    /// (§16.7 step 7).
    fn add_challenges(&mut self, best: &mut F::Message, response: &<F::Message as KeptMessage>::Response<'_>);

    /// Makes a response of this proxy (§8.2.6); `None` if the request must not get any response.
    fn respond(&mut self, request: &F::Request, status: u16) -> Option<F::Message>;

    /// Whether an INVITE gets its 100 at once. Otherwise it gets a 100 after 200 ms, unless another response was sent
    /// by then (§17.2.1).
    fn tries_at_once(&self, request: &F::Request) -> bool {
        let _ = request;
        true
    }

    /// Reports the final response to a request, if it is not a 2xx. It is a kept response of a next hop, or a response
    /// of this proxy (`is_own`). [`relay`](Self::relay) reports a 2xx.
    fn concluded(&mut self, request: &F::Request, status: u16, is_own: bool) {
        let _ = (request, status, is_own);
    }

    /// Makes the CANCEL of a forwarded request (§9.1), and the key of its client transaction.
    fn cancel(&mut self, invite: &F::Message) -> (F::Message, TransactionKey);

    /// Memory that a request takes besides its own size, in bytes.
    fn memory(&self, request: &F::Request) -> usize {
        let _ = request;
        0
    }
}

/// Chooses the destinations of requests.
pub trait Router<F: Form> {
    /// Number of targets in the next group of a request, to be tried in parallel (RFC 3261 §16.6). Groups are counted
    /// from zero, and at most `most` further branches may start. The first group has at least one target. A later group
    /// without targets is skipped.
    fn next_group(&mut self, request: &mut F::Request, group: u8, most: u8) -> u8 {
        let _ = (request, most);
        u8::from(group == 0)
    }

    /// Whether another group would follow this one.
    fn has_group(&self, request: &F::Request, after: u8) -> bool {
        let _ = (request, after);
        false
    }

    /// Time for which a group is tried before the next one. `None`: no limit.
    fn ring_time(&self, request: &F::Request) -> Option<Duration> {
        let _ = request;
        None
    }

    /// Time for which a next hop may leave an INVITE without a response. After it a further next hop gets the INVITE as
    /// well. [`next_hop`](Self::next_hop) chooses the further next hop for another branch. If there is none, `next_hop`
    /// is called again at growing intervals. `None`: no limit. Called only for requests with one group of one target.
    fn patience(&self, request: &F::Request) -> Option<Duration> {
        let _ = request;
        None
    }

    /// Reports which next hop has the request, after several got the INVITE because earlier ones were silent. It is the
    /// first next hop that answers, or the sender of the first 2xx. The branches to the other next hops are cancelled,
    /// and if `is_cancelled`, the reported branch as well.
    fn won(&mut self, request: &mut F::Request, attempt: Attempt, is_cancelled: bool) {
        let _ = (request, attempt, is_cancelled);
    }

    /// Next hop of an attempt (RFC 3261 §16.4 to §16.6): by the Route of the request, or without a Route by its target.
    /// Called for the targets of a group one after the other.
    ///
    /// # Errors
    /// A refusal, if there is no destination. If this is the first attempt, the request is refused. A later target
    /// without a destination is skipped.
    fn next_hop(&mut self, request: &mut F::Request, attempt: Attempt) -> Result<F::Hop, ProxyRefusal>;

    /// Whether there would be another next hop in the same branch.
    fn has_alternate(&self, request: &F::Request, attempt: Attempt) -> bool;

    /// Reports that an attempt has failed with this event, perhaps after a provisional response. A call of
    /// [`next_hop`](Self::next_hop) for an alternate follows.
    fn failed(&mut self, request: &mut F::Request, attempt: Attempt, event: ProxyEvent) {
        let _ = (request, attempt, event);
    }

    /// Maximum number of retransmissions of the request, if it is lower than its timers allow. Used for a next hop that
    /// may not want the traffic.
    fn most_repeats(&self, request: &F::Request) -> Option<u8> {
        let _ = request;
        None
    }

    /// Reports, once for each attempt, its first response other than 100, or its failure. `last` is set unless another
    /// attempt of its branch follows. A router that limits outstanding requests counts by these reports. Branches that
    /// are still active when the request gets its final response are not reported.
    fn settled(&mut self, request: &mut F::Request, attempt: Attempt, event: ProxyEvent, last: bool) {
        let _ = (request, attempt, event, last);
    }
}

/// One step of a proxy: its time, and the objects that it works with.
pub struct ProxyStep<'a, F: Form> {
    /// Time of the step.
    pub now: Instant,
    /// Reads, makes and edits messages.
    pub medium: F::Medium<'a>,
    /// Chooses destinations of requests.
    pub router: F::Router<'a>,
    /// Receives messages to send.
    pub sink: &'a mut dyn Sink<F::Message>,
}

/// Receiver of messages to send.
pub trait Sink<M> {
    /// Sends this message now.
    fn send(&mut self, message: &M, why: Sending);
}

impl<M: Clone> Sink<M> for Vec<M> {
    fn send(&mut self, message: &M, _: Sending) {
        self.push(message.clone());
    }
}
