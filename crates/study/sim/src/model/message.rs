//! The small typed message of the fast simulation. It has only the fields that RFC 3261's state machines and the
//! proxy's routing read.

use overload::UpstreamFeedback;
use std::ops::Deref;
use transaction::{ServerKey, Side, Tag, TransactionKey};
use wire::Method;

/// A host of the model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub u16);

impl HostId {
    /// All user agents together.
    pub const AGENTS: Self = Self(u16::MAX);

    /// Returns the host as a neighbour for overload control; `None` for the user agents.
    pub(crate) fn server(self) -> Option<Self> {
        (self != Self::AGENTS).then_some(self)
    }

    /// Index in a list of all hosts.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Maximum of hosts between two agents.
pub const HOPS_MAX: usize = 6;

/// A Via: sender of the request and its branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelVia {
    /// Host that the response is sent to.
    pub host: HostId,
    /// In halves, so that a Via takes six bytes.
    branch: [u16; 2],
}

impl ModelVia {
    /// `branch` is unique to the transaction at that host (RFC 3261 §8.1.1.7).
    pub fn new(host: HostId, branch: u32) -> Self {
        Self { host, branch: [(branch >> 16) as u16, branch as u16] }
    }

    /// Returns the branch; see [`new`](Self::new).
    pub fn branch(self) -> u32 {
        u32::from(self.branch[0]) << 16 | u32::from(self.branch[1])
    }

    /// Whether its host forwarded the request without a transaction.
    pub(crate) fn is_stateless(self) -> bool {
        self.branch() & STATELESS != 0
    }
}

/// Bit of a branch that distinguishes requests without a transaction from counted ones.
const STATELESS: u32 = 1 << 31;

/// A short list that is always copied as a whole, which is faster than element by element.
#[derive(Clone, Copy)]
pub struct Few<T, const N: usize> {
    items: [T; N],
    len: u8,
}

impl<T: Copy, const N: usize> Few<T, N> {
    /// Returns an empty list; `filler` fills the unused places.
    pub fn new(filler: T) -> Self {
        Self { items: [filler; N], len: 0 }
    }

    /// Appends an item.
    ///
    /// # Panics
    /// When the list is full.
    pub fn push(&mut self, item: T) {
        self.items[usize::from(self.len)] = item;
        self.len += 1;
    }

    /// Removes the last item.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.last().copied()?;
        self.len -= 1;
        Some(last)
    }

    /// Returns the same items in reverse order.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        self.items[..usize::from(self.len)].reverse();
        self
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..usize::from(self.len)]
    }
}

impl<T: std::fmt::Debug, const N: usize> std::fmt::Debug for Few<T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// Vias of a message, top one last.
pub(crate) type Vias = Few<ModelVia, { HOPS_MAX + 1 }>;

/// Hosts of a route, next or latest one last.
pub(crate) type Route = Few<HostId, HOPS_MAX>;

impl Vias {
    /// Returns a list of one Via.
    pub fn one(via: ModelVia) -> Self {
        let mut vias = Self::new(via);
        vias.push(via);
        vias
    }
}

impl Route {
    /// Returns an empty route.
    pub fn none() -> Self {
        Self::new(HostId::AGENTS)
    }
}

/// Start line of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelStart {
    /// A request of the method in CSeq.
    Request,
    /// A response with this status.
    Response(u16),
}

/// Identifies a call: its slot, and the generation that tells it from earlier calls of the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallId {
    pub(crate) at: u32,
    pub(crate) generation: u32,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct ModelMessage {
    /// Request or response.
    pub start: ModelStart,
    /// Method in CSeq; for a request, its own method.
    pub method: Method,
    /// Whether the callee's side sent the request. Its responses have the same value.
    pub by_callee: bool,
    /// Creator of the To tag, if there is one: the agents in a dialog, or a host for a response of its own.
    pub to_tag: Option<HostId>,
    /// Number of hosts on its stream's path that an initial request has passed.
    pub stage: u8,
    /// Index of the stream of its call.
    pub stream: u16,
    /// Retry-After of a 503, in seconds; 0 means none.
    pub retry_after: u16,
    /// Last host of the path, which the Request-URI leads to. In a dialog with a server, that server.
    pub target: HostId,
    /// Host chosen as the next hop; valid within one host only.
    pub hop: HostId,
    /// The proxy that keeps the state of its call; [`HostId::AGENTS`] if no proxy has announced it. In an INVITE it is
    /// the mark in the sender's Via, in a dialog it comes from that proxy's Record-Route.
    pub keeper: HostId,
    pub(crate) call: CallId,
    /// Path of its responses.
    pub vias: Vias,
    /// In a dialog, the Route, next host last. In a dialog being created, the Record-Route, latest host last.
    pub route: Route,
}

impl ModelMessage {
    /// Whether it is a request.
    pub fn is_request(&self) -> bool {
        self.start == ModelStart::Request
    }

    /// Whether it starts a call.
    pub fn is_initial_invite(&self) -> bool {
        self.is_request() && self.method == Method::Invite && self.to_tag.is_none()
    }

    /// The topmost Via.
    pub fn top(&self) -> ModelVia {
        *self.vias.last().expect("the sender of each message adds a Via")
    }

    /// CSeq number: 1 for an INVITE and its CANCEL and ACK, 2 for a BYE.
    pub fn cseq(&self) -> u32 {
        if self.method == Method::Bye { 2 } else { 1 }
    }

    /// Whether it is a request in a dialog, which follows its Route.
    pub fn is_in_dialog(&self) -> bool {
        self.is_request() && self.to_tag == Some(HostId::AGENTS)
    }

    /// Returns a response to this request from `host`. A 100 adds no To tag (RFC 3261 §8.2.6.2).
    #[must_use]
    pub fn response(&self, status: u16, host: HostId) -> Self {
        let to_tag = if status > 100 { self.to_tag.or(Some(host)) } else { self.to_tag };
        Self { start: ModelStart::Response(status), to_tag, ..*self }
    }

    /// Key of the server transaction of a received request (RFC 3261 §17.2.3).
    pub fn server_key(&self) -> ServerKey {
        self.server_key_at(HostId(0))
    }

    /// Key of the transaction that a CANCEL cancels.
    pub fn cancelled_key(&self) -> ServerKey {
        self.cancelled_key_at(HostId(0))
    }

    /// Returns [`server_key`](Self::server_key) for a list with the transactions of several hosts: a balancer may send
    /// one request to several servers.
    pub fn server_key_at(&self, host: HostId) -> ServerKey {
        let is_ack = self.method == Method::Ack;
        self.server_key_as(host, if is_ack { Method::Invite } else { self.method }, is_ack)
    }

    /// Returns [`cancelled_key`](Self::cancelled_key) for a list with the transactions of several hosts.
    pub fn cancelled_key_at(&self, host: HostId) -> ServerKey {
        self.server_key_as(host, Method::Invite, false)
    }

    fn server_key_as(&self, at: HostId, method: Method, is_ack: bool) -> ServerKey {
        let via = self.top();
        let branch = u64::from(at.0) << 48 | u64::from(via.host.0) << 32 | u64::from(via.branch());
        ServerKey { key: TransactionKey::from_numbers(Side::Server, branch, method), tag: Tag::NONE, is_ack }
    }

    /// Branch of a request that is forwarded without a transaction. It depends on the request alone (RFC 3261 §16.11):
    /// copies, the CANCEL and the ACK to a failure get the branch of their INVITE. It differs from the branches of the
    /// 2^26 calls before, and of other visits of the same call to this host.
    pub(crate) fn stateless_branch(&self) -> u32 {
        let of_call = match self.method {
            Method::Bye => 2 + u32::from(self.by_callee),
            Method::Ack if self.to_tag == Some(HostId::AGENTS) => 1,
            _ => 0,
        };
        STATELESS | self.call.generation << 5 | u32::from(self.stage) << 2 | of_call
    }

    /// Key of the message's client transaction at the host of its top Via (§17.1.3).
    ///
    /// A host counts its branches, so the branch is the number of the transaction. A CANCEL has the branch of its
    /// INVITE.
    pub fn client_key(&self) -> TransactionKey {
        let branch = self.top().branch().into();
        if self.method == Method::Cancel {
            return TransactionKey::from_numbers(Side::Client, branch, self.method);
        }
        TransactionKey::counted(branch, self.method)
    }
}

/// A sent message and its destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) to: HostId,
    pub(crate) message: ModelMessage,
}

/// A sent message on its way, with its sender.
#[derive(Clone, Debug)]
pub(crate) struct LinkMessage {
    pub(crate) from: HostId,
    pub(crate) sent: Sent,
    pub(crate) notices: Notices,
}

/// Notices in a response to the next host alone, valid when the response leaves.
#[derive(Clone, Default, Debug)]
pub(crate) struct Notices {
    /// Notice between hosts that control overload together.
    pub(crate) overload: Option<Box<UpstreamFeedback>>,
    /// Notice between proxies that share out state.
    pub(crate) room: Option<Box<distribute::Notice>>,
}

impl LinkMessage {
    pub(crate) fn new(from: HostId, sent: Sent) -> Self {
        Self { from, sent, notices: Notices::default() }
    }
}

impl Sent {
    /// Returns the CANCEL or ACK of a sent INVITE, with only the top Via of the INVITE (§9.1, §17.1.1.3).
    pub(crate) fn sibling(&self, method: Method, to_tag: Option<HostId>) -> Self {
        let vias = Vias::one(self.message.top());
        let message = ModelMessage { method, to_tag, vias, ..self.message };
        Self { to: self.to, message }
    }
}

impl transaction::KeptMessage for Sent {
    type Response<'a> = ModelMessage;

    fn ack(&self, response: &ModelMessage) -> Option<Self> {
        Some(self.sibling(Method::Ack, response.to_tag))
    }

    fn to_tag(&self) -> Tag {
        Tag::NONE
    }
}
