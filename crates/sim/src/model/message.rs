//! The small typed message that the fast simulation sends around: what RFC 3261's machines and the proxy's routing
//! look at, and nothing else.

use arrayvec::ArrayVec;
use transaction::{Key, ServerKey, Side, Tag};
use wire::Method;

/// A host of the model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub u16);

impl HostId {
    /// All user agents together.
    pub const AGENTS: Self = Self(u16::MAX);

    /// Its place in a list of all hosts.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Hosts between two agents, at most.
pub const HOPS_MAX: usize = 6;

/// A Via: who sent the request, and under which branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Via {
    /// The host that it leads back to.
    pub host: HostId,
    /// Unique to the transaction at that host (RFC 3261 §8.1.1.7).
    pub branch: u32,
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// A request of the method in CSeq.
    Request,
    /// A response with this status.
    Response(u16),
}

/// Names a call: its place, and who has the place now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallId {
    pub(crate) at: u32,
    pub(crate) generation: u32,
}

/// What a response tells an upstream neighbour about load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Notice {
    /// Hop by hop.
    Hop(overload::hop::Feedback),
    /// For a target.
    Target(overload::end_to_end::Report),
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Request or response.
    pub start: Start,
    /// Method in CSeq: of a request, its own.
    pub method: Method,
    /// Whether the callee's side made the request; its responses say the same.
    pub by_callee: bool,
    /// Who made its To tag, if it has one: the agents in a dialog, a host for an answer of its own.
    pub to_tag: Option<HostId>,
    /// How many hosts of its stream's path an initial request has passed.
    pub stage: u8,
    /// Which stream its call belongs to.
    pub stream: u16,
    /// Retry-After of a 503, in seconds; 0 = none.
    pub retry_after: u16,
    /// The last host of the path: what the Request-URI leads to.
    pub target: HostId,
    /// The host that was chosen to get it next; meaningful within one host only.
    pub hop: HostId,
    pub(crate) call: CallId,
    /// Only in responses between hosts that control overload together.
    pub(crate) notice: Option<Box<Notice>>,
    /// Top Via last.
    pub vias: ArrayVec<Via, { HOPS_MAX + 1 }>,
    /// In a dialog, the Route, next host last. In a dialog being made, the Record-Route, latest host last.
    pub route: ArrayVec<HostId, HOPS_MAX>,
}

impl Message {
    /// Whether it is a request.
    pub fn is_request(&self) -> bool {
        self.start == Start::Request
    }

    /// Whether it begins a call.
    pub fn is_initial_invite(&self) -> bool {
        self.is_request() && self.method == Method::Invite && self.to_tag.is_none()
    }

    /// The Via on top.
    pub fn top(&self) -> Via {
        *self.vias.last().expect("whoever sends a message puts a Via on it")
    }

    /// CSeq number: an INVITE and what belongs to it has 1, a BYE 2.
    pub fn cseq(&self) -> u32 {
        if self.method == Method::Bye { 2 } else { 1 }
    }

    /// Whether it is a request in a dialog, which follows its Route.
    pub fn is_in_dialog(&self) -> bool {
        self.is_request() && self.to_tag == Some(HostId::AGENTS)
    }

    /// A response to this request, made by `host`. A 100 has no To tag of its own (RFC 3261 §8.2.6.2).
    #[must_use]
    pub fn response(&self, status: u16, host: HostId) -> Self {
        let to_tag = if status > 100 { self.to_tag.or(Some(host)) } else { self.to_tag };
        Self { start: Start::Response(status), to_tag, ..self.clone() }
    }

    /// Of a request that came in: the key of its server transaction (RFC 3261 §17.2.3).
    pub fn server_key(&self) -> ServerKey {
        let is_ack = self.method == Method::Ack;
        self.server_key_as(if is_ack { Method::Invite } else { self.method }, is_ack)
    }

    /// Of a CANCEL: the key of what it is about.
    pub fn cancelled_key(&self) -> ServerKey {
        self.server_key_as(Method::Invite, false)
    }

    fn server_key_as(&self, method: Method, is_ack: bool) -> ServerKey {
        let Via { host, branch } = self.top();
        let branch = u64::from(host.0) << 32 | u64::from(branch);
        ServerKey { key: Key::from_numbers(Side::Server, branch, method), tag: Tag::NONE, is_ack }
    }

    /// The key of the client transaction that it belongs to at the host of its top Via (§17.1.3).
    pub fn client_key(&self) -> Key {
        Key::from_numbers(Side::Client, self.top().branch.into(), self.method)
    }
}

/// A message on its way to a host.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: HostId,
    pub(crate) message: Message,
}

impl Sent {
    /// Of an INVITE as it was sent: the request of another method that has its top Via only (§9.1, §17.1.1.3).
    pub(crate) fn sibling(&self, method: Method, to_tag: Option<HostId>) -> Self {
        let mut message = Message { method, to_tag, ..self.message.clone() };
        let top = message.top();
        message.vias.clear();
        message.vias.push(top);
        Self { to: self.to, message }
    }
}

impl transaction::Message for Sent {
    type Response<'a> = Message;

    fn ack(&self, response: &Message) -> Option<Self> {
        Some(self.sibling(Method::Ack, response.to_tag))
    }

    fn to_tag(&self) -> Tag {
        Tag::NONE
    }
}
