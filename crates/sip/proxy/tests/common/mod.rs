//! A proxy between a caller and next hops that the test plays: messages are a few numbers, time is virtual.

use base::Instant;
use core::time::Duration;
use proxy::{
    Answered, Arrived, Attempt, Form, KeptRequest, Medium, NewBranch, Proxy, ProxyEvent, ProxyRefusal,
    ProxyStep, ProxyTimers, Router, Sink,
};
use transaction::{KeptMessage, Sending, ServerKey, Side, Tag, TransactionKey, TransportKind};
use wire::Method;

/// Max-Breadth of requests by default, also of requests that name none.
pub(crate) const WHOLE: u8 = 60;

/// Message that the proxy sends. It prints as `INVITE 1 > b`, to next hop b with branch 1, or `180 < 7`, to the caller
/// whose branch is 7. `/20` is added if Max-Breadth is 20 and not 60, and `+2` if two challenges of other branches were
/// added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Msg {
    /// `below` is the caller's branch.
    Request {
        method: Method,
        branch: u64,
        hop: u8,
        breadth: u8,
        below: u64,
    },
    Response {
        status: u16,
        branch: u64,
        challenges: u8,
    },
}

impl std::fmt::Display for Msg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request { method, branch, hop, breadth, .. } => {
                let method = format!("{method:?}").to_uppercase();
                write!(f, "{method} {branch} > {}", char::from(b'a' + hop))?;
                if *breadth == WHOLE { Ok(()) } else { write!(f, " /{breadth}") }
            }
            Self::Response { status, branch, challenges: 0 } => write!(f, "{status} < {branch}"),
            Self::Response { status, branch, challenges } => write!(f, "{status} < {branch} +{challenges}"),
        }
    }
}

/// Response of a next hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The caller's branch, below ours.
    pub(crate) below: Option<u64>,
}

impl KeptMessage for Msg {
    type Response<'a> = Reply;

    fn ack(&self, _: &Reply) -> Option<Self> {
        match *self {
            Self::Request { branch, hop, below, .. } => {
                Some(Self::Request { method: Method::Ack, branch, hop, breadth: WHOLE, below })
            }
            Self::Response { .. } => None,
        }
    }

    fn to_tag(&self) -> Tag {
        Tag::NONE
    }
}

/// A received request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) branch: u64,
}

impl KeptRequest for Request {
    type Back = ();

    fn back(&self) {}
}

/// Next hops a, b, ... in order for the branches, and for the alternates of a branch.
pub(crate) struct Script {
    /// Number of hops of a branch; with none every request is refused.
    pub(crate) hops: u8,
    /// Number of targets of each group.
    pub(crate) groups: Vec<u8>,
    pub(crate) ring_time: Option<Duration>,
    /// Time after which another next hop gets an INVITE as well, if there is one.
    pub(crate) patience: Option<Duration>,
    /// Number of other next hops.
    pub(crate) others: u8,
    /// Branches that were the first to answer.
    pub(crate) won: Vec<u8>,
}

/// Branch numbers of requests forwarded without a transaction.
pub(crate) const STATELESS: u64 = 1_000_000;

/// Form of the messages in the tests.
pub(crate) enum Scripted {}

impl Form for Scripted {
    type Message = Msg;
    type Request = Request;
    type Call = ();
    type Hop = u8;
    type Medium<'a> = Numbers;
    type Router<'a> = &'a mut Script;
}

impl Router<Scripted> for &mut Script {
    fn next_group(&mut self, _: &mut Request, group: u8, most: u8) -> u8 {
        self.groups.get(usize::from(group)).copied().unwrap_or(0).min(most)
    }

    fn has_group(&self, _: &Request, after: u8) -> bool {
        usize::from(after) + 1 < self.groups.len()
    }

    fn ring_time(&self, _: &Request) -> Option<Duration> {
        self.ring_time
    }

    fn patience(&self, request: &Request) -> Option<Duration> {
        self.patience.filter(|_| request.method == Method::Invite)
    }

    fn won(&mut self, _: &mut Request, attempt: Attempt, _: bool) {
        self.won.push(attempt.branch);
    }

    fn next_hop(&mut self, _: &mut Request, attempt: Attempt) -> Result<u8, ProxyRefusal> {
        let Attempt { branch, alternate } = attempt;
        let is_there = self.patience.is_none() || branch <= self.others;
        if alternate < self.hops && is_there { Ok(branch + alternate) } else { Err(ProxyRefusal(404)) }
    }

    fn has_alternate(&self, _: &Request, attempt: Attempt) -> bool {
        attempt.alternate + 1 < self.hops
    }
}

/// Makes messages of numbers.
pub(crate) struct Numbers {
    breadth: u8,
}

impl Medium<Scripted> for Numbers {
    fn call(&self, _request: &Request) {}

    fn transport(&self, _: &Request, _: u8, _: &Msg) -> TransportKind {
        TransportKind::Unreliable
    }

    fn breadth(&self, _: &Request) -> u8 {
        self.breadth
    }

    fn forward(&mut self, request: &Request, hop: u8, branch: Option<NewBranch>) -> (Msg, TransactionKey) {
        let breadth = branch.map_or(WHOLE, |branch| branch.breadth);
        let (method, branch) =
            (request.method, branch.map_or(STATELESS + request.branch, |branch| branch.serial));
        (
            Msg::Request { method, branch, hop, breadth, below: request.branch },
            TransactionKey::from_numbers(Side::Client, branch, method),
        )
    }

    fn relay(&mut self, _: Answered<'_, Request>, response: &Reply) -> Option<Msg> {
        Some(Msg::Response { status: response.status, branch: response.below?, challenges: 0 })
    }

    fn add_challenges(&mut self, best: &mut Msg, _: &Reply) {
        if let Msg::Response { challenges, .. } = best {
            *challenges += 1;
        }
    }

    fn respond(&mut self, request: &Request, status: u16) -> Option<Msg> {
        Some(Msg::Response { status, branch: request.branch, challenges: 0 })
    }

    fn cancel(&mut self, invite: &Msg) -> (Msg, TransactionKey) {
        let Msg::Request { branch, hop, below, .. } = *invite else { panic!("an INVITE is a request") };
        let method = Method::Cancel;
        (
            Msg::Request { method, branch, hop, breadth: WHOLE, below },
            TransactionKey::from_numbers(Side::Client, branch, method),
        )
    }
}

pub(crate) struct Bed {
    pub(crate) proxy: Proxy<Scripted>,
    pub(crate) script: Script,
    pub(crate) now: Instant,
    /// Max-Breadth of received requests.
    pub(crate) breadth: u8,
    /// All first sendings, without retransmissions.
    pub(crate) log: Vec<Msg>,
    sent: Sent,
}

/// Sent messages, and whether each was a first sending.
#[derive(Default)]
struct Sent(Vec<(Msg, bool)>);

impl Sink<Msg> for Sent {
    fn send(&mut self, message: &Msg, why: Sending) {
        self.0.push((message.clone(), why == Sending::First));
    }
}

/// The caller's branch in tests with one call.
pub(crate) const CALL: u64 = 7;

fn key(branch: u64, method: Method, is_ack: bool) -> ServerKey {
    ServerKey { key: TransactionKey::from_numbers(Side::Server, branch, method), tag: Tag::NONE, is_ack }
}

impl Bed {
    /// Serial numbers begin at 1.
    pub(crate) fn new(hops: u8) -> Self {
        Self::forking(hops, &[1], None)
    }

    /// Makes a bed whose requests have groups of these numbers of targets, with this ring time for each group.
    pub(crate) fn forking(hops: u8, groups: &[u8], ring_time: Option<Duration>) -> Self {
        Self {
            proxy: Proxy::new(ProxyTimers::default(), 1),
            script: Script {
                hops,
                groups: groups.to_vec(),
                ring_time,
                patience: None,
                others: 1,
                won: Vec::new(),
            },
            now: Instant::from_millis(1_000),
            breadth: WHOLE,
            log: Vec::new(),
            sent: Sent::default(),
        }
    }

    fn step<T>(&mut self, act: impl FnOnce(&mut Proxy<Scripted>, &mut ProxyStep<'_, Scripted>) -> T) -> T {
        let Self { proxy, script, now, breadth, sent, .. } = self;
        let medium = Numbers { breadth: *breadth };
        act(proxy, &mut ProxyStep { now: *now, medium, router: script, sink: sent })
    }

    /// Receives a request; returns the messages sent at once.
    pub(crate) fn request(&mut self, method: Method, branch: u64) -> Vec<String> {
        self.request_as(method, branch, branch)
    }

    /// Like [`Self::request`], with another number in the response.
    pub(crate) fn request_as(&mut self, method: Method, branch: u64, answered: u64) -> Vec<String> {
        let is_ack = method == Method::Ack;
        let arrived = Arrived {
            method,
            key: key(branch, if is_ack { Method::Invite } else { method }, is_ack),
            cancels: (method == Method::Cancel).then(|| key(branch, Method::Invite, false)),
            transport: TransportKind::Unreliable,
        };
        let request = Request { method, branch: answered };
        self.step(|proxy, step| proxy.request(&arrived, request, step));
        self.sent()
    }

    /// Receives a next hop's response to the request with this branch; returns the messages sent at once.
    pub(crate) fn answer(&mut self, method: Method, branch: u64, status: u16) -> Vec<String> {
        self.answer_below(method, branch, Reply { status, below: Some(CALL) })
    }

    pub(crate) fn answer_below(&mut self, method: Method, branch: u64, reply: Reply) -> Vec<String> {
        let key = TransactionKey::from_numbers(Side::Client, branch, method);
        self.step(|proxy, step| proxy.response(key, reply.status, &reply, step));
        self.sent()
    }

    pub(crate) fn unreachable(&mut self, method: Method, branch: u64) -> Vec<String> {
        let key = TransactionKey::from_numbers(Side::Client, branch, method);
        self.step(|proxy, step| proxy.unreachable(key, |_| Some(ProxyEvent::Unreachable), step));
        self.sent()
    }

    /// Lets time pass. Returns the messages sent meanwhile, with their times in milliseconds since the call, rounded
    /// down to half seconds, as the wheel is late by its ticks.
    pub(crate) fn wait(&mut self, time: Duration) -> Vec<String> {
        let (begin, end) = (self.now, self.now + time);
        let mut all = Vec::new();
        while let Some(due) = self.proxy.deadline().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.step(Proxy::expire);
            let at = self.now.saturating_since(begin).as_millis() / 500 * 500;
            all.extend(self.sent().into_iter().map(|sent| format!("{at}: {sent}")));
        }
        self.now = end;
        all
    }

    fn sent(&mut self) -> Vec<String> {
        let sent = core::mem::take(&mut self.sent.0);
        self.log.extend(sent.iter().filter(|(_, is_first)| *is_first).map(|(message, _)| message.clone()));
        sent.into_iter().map(|(message, _)| message.to_string()).collect()
    }

    /// Whether there is a client transaction of this branch.
    pub(crate) fn expects(&self, method: Method, branch: u64) -> bool {
        self.proxy.expects(TransactionKey::from_numbers(Side::Client, branch, method))
    }

    /// Whether there is a server transaction of this request.
    pub(crate) fn has_transaction(&self, method: Method, branch: u64) -> bool {
        self.proxy.knows(&key(branch, method, false))
    }

    /// Checks that nothing remains: no transaction, no request, no timer.
    pub(crate) fn assert_empty(&self) {
        assert_eq!((self.proxy.transactions(), self.proxy.in_progress(), self.proxy.unanswered()), (0, 0, 0));
        assert_eq!(self.proxy.deadline(), None);
    }
}
