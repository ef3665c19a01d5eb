//! The small typed message that the fast simulation sends around: what RFC 3261's machines and the proxy's routing
//! look at, and nothing else.

use overload::Notice;
use std::ops::Deref;
use transaction::{ServerKey, Side, Tag, TransactionKey};
use wire::Method;

/// A host of the model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub u16);

impl HostId {
    /// All user agents together.
    pub const AGENTS: Self = Self(u16::MAX);

    /// Itself, if it is not the user agents: a neighbour that takes part in overload control.
    pub(crate) fn server(self) -> Option<Self> {
        (self != Self::AGENTS).then_some(self)
    }

    /// Its place in a list of all hosts.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Hosts between two agents, at most.
pub const HOPS_MAX: usize = 6;

/// A Via: who sent the request, and under which branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelVia {
    /// The host that it leads back to.
    pub host: HostId,
    /// In halves, so that it fits in six bytes.
    branch: [u16; 2],
}

impl ModelVia {
    /// `branch` is unique to the transaction at that host (RFC 3261 §8.1.1.7).
    pub fn new(host: HostId, branch: u32) -> Self {
        Self { host, branch: [(branch >> 16) as u16, branch as u16] }
    }

    /// See [`new`](Self::new).
    pub fn branch(self) -> u32 {
        u32::from(self.branch[0]) << 16 | u32::from(self.branch[1])
    }

    /// Whether its host has forwarded the request without a transaction.
    pub(crate) fn is_stateless(self) -> bool {
        self.branch() & STATELESS != 0
    }
}

/// The bit of a branch that keeps those without a transaction apart from those that count up.
const STATELESS: u32 = 1 << 31;

/// A short list that is copied whole, whatever its length: quicker than element by element.
#[derive(Clone, Copy)]
pub struct Few<T, const N: usize> {
    items: [T; N],
    len: u8,
}

impl<T: Copy, const N: usize> Few<T, N> {
    /// An empty list; `filler` stands where nothing is.
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

    /// Takes the last item off.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.last().copied()?;
        self.len -= 1;
        Some(last)
    }

    /// The same items, last one first.
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

/// Hosts on a way, next or latest one last.
pub(crate) type Route = Few<HostId, HOPS_MAX>;

impl Vias {
    /// One Via.
    pub fn one(via: ModelVia) -> Self {
        let mut vias = Self::new(via);
        vias.push(via);
        vias
    }
}

impl Route {
    /// No hosts.
    pub fn none() -> Self {
        Self::new(HostId::AGENTS)
    }
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelStart {
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

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct ModelMessage {
    /// Request or response.
    pub start: ModelStart,
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
    /// The last host of the path: what the Request-URI leads to. In a dialog with a server, that one.
    pub target: HostId,
    /// The host that was chosen to get it next; meaningful within one host only.
    pub hop: HostId,
    /// The proxy that keeps the state of its call; [`HostId::AGENTS`] while nobody says that it does. In an INVITE
    /// this is the mark in the Via of whoever sent it, in a dialog what that proxy's Record-Route says.
    pub keeper: HostId,
    pub(crate) call: CallId,
    /// Who is to get its responses.
    pub vias: Vias,
    /// In a dialog, the Route, next host last. In a dialog being made, the Record-Route, latest host last.
    pub route: Route,
}

impl ModelMessage {
    /// Whether it is a request.
    pub fn is_request(&self) -> bool {
        self.start == ModelStart::Request
    }

    /// Whether it begins a call.
    pub fn is_initial_invite(&self) -> bool {
        self.is_request() && self.method == Method::Invite && self.to_tag.is_none()
    }

    /// The Via on top.
    pub fn top(&self) -> ModelVia {
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
        Self { start: ModelStart::Response(status), to_tag, ..*self }
    }

    /// Of a request that came in: the key of its server transaction (RFC 3261 §17.2.3).
    pub fn server_key(&self) -> ServerKey {
        self.server_key_at(HostId(0))
    }

    /// Of a CANCEL: the key of what it is about.
    pub fn cancelled_key(&self) -> ServerKey {
        self.cancelled_key_at(HostId(0))
    }

    /// [`server_key`](Self::server_key) among the transactions of several hosts: a balancer may send one request to
    /// several servers.
    pub fn server_key_at(&self, host: HostId) -> ServerKey {
        let is_ack = self.method == Method::Ack;
        self.server_key_as(host, if is_ack { Method::Invite } else { self.method }, is_ack)
    }

    /// [`cancelled_key`](Self::cancelled_key) among them.
    pub fn cancelled_key_at(&self, host: HostId) -> ServerKey {
        self.server_key_as(host, Method::Invite, false)
    }

    fn server_key_as(&self, at: HostId, method: Method, is_ack: bool) -> ServerKey {
        let via = self.top();
        let branch = u64::from(at.0) << 48 | u64::from(via.host.0) << 32 | u64::from(via.branch());
        ServerKey { key: TransactionKey::from_numbers(Side::Server, branch, method), tag: Tag::NONE, is_ack }
    }

    /// The branch of a request that is forwarded without a transaction depends on the request alone (RFC 3261
    /// §16.11): copies, the CANCEL and the ACK to a failure get that of their INVITE. It is unlike those of the 2^26
    /// calls before, and of the other visits where a call comes to a host more than once.
    pub(crate) fn stateless_branch(&self) -> u32 {
        let of_call = match self.method {
            Method::Bye => 2 + u32::from(self.by_callee),
            Method::Ack if self.to_tag == Some(HostId::AGENTS) => 1,
            _ => 0,
        };
        STATELESS | self.call.generation << 5 | u32::from(self.stage) << 2 | of_call
    }

    /// The key of the client transaction that it belongs to at the host of its top Via (§17.1.3).
    ///
    /// A host counts its branches, so the branch is the number of its transaction; a CANCEL has that of its INVITE.
    pub fn client_key(&self) -> TransactionKey {
        let branch = self.top().branch().into();
        if self.method == Method::Cancel {
            return TransactionKey::from_numbers(Side::Client, branch, self.method);
        }
        TransactionKey::counted(branch, self.method)
    }
}

/// A message that is sent, and where to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) to: HostId,
    pub(crate) message: ModelMessage,
}

/// It, on its way.
#[derive(Clone, Debug)]
pub(crate) struct LinkMessage {
    pub(crate) from: HostId,
    pub(crate) sent: Sent,
    pub(crate) notices: Notices,
}

/// What a response tells the next host alone, of what holds when it leaves.
#[derive(Clone, Default, Debug)]
pub(crate) struct Notices {
    /// Between hosts that control overload together.
    pub(crate) overload: Option<Box<Notice>>,
    /// Between proxies that share out state.
    pub(crate) room: Option<Box<distribute::Notice>>,
}

impl LinkMessage {
    pub(crate) fn new(from: HostId, sent: Sent) -> Self {
        Self { from, sent, notices: Notices::default() }
    }
}

impl Sent {
    /// Of an INVITE as it was sent: the request of another method that has its top Via only (§9.1, §17.1.1.3).
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
