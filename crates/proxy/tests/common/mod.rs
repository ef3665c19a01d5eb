//! A proxy between a caller and next hops that the test plays: messages are a few numbers, time is virtual.
#![allow(dead_code, reason = "each test file uses its part of it")]

use base::Instant;
use core::time::Duration;
use proxy::{Arrived, Form, Medium, Proxy, ProxyRefusal, ProxyStep, ProxyTimers, Router};
use transaction::{KeptMessage, ServerKey, Side, Tag, TransactionKey, TransportKind};
use wire::Method;

/// What the proxy sends. It prints as `INVITE 1 > b`, to next hop b with branch 1, or `180 < 7`, to the caller whose branch
/// is 7.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Msg {
    Request { method: Method, branch: u64, hop: u8 },
    Response { status: u16, branch: u64 },
}

impl std::fmt::Display for Msg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request { method, branch, hop } => {
                let method = format!("{method:?}").to_uppercase();
                write!(f, "{method} {branch} > {}", char::from(b'a' + hop))
            }
            Self::Response { status, branch } => write!(f, "{status} < {branch}"),
        }
    }
}

/// A response of a next hop.
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
            Self::Request { branch, hop, .. } => Some(Self::Request { method: Method::Ack, branch, hop }),
            Self::Response { .. } => None,
        }
    }

    fn to_tag(&self) -> Tag {
        Tag::NONE
    }
}

/// A request as it came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) branch: u64,
}

/// Next hops a, b, ... in turn; none refuses every request.
pub(crate) struct Script {
    pub(crate) hops: u8,
}

/// Branches of what is forwarded without a transaction.
pub(crate) const STATELESS: u64 = 1_000_000;

/// Messages of the tests.
pub(crate) enum Scripted {}

impl Form for Scripted {
    type Message = Msg;
    type Request = Request;
    type Call = ();
    type Hop = u8;
    type Medium<'a> = Numbers;
    type Router<'a> = &'a mut Script;
}

impl Router<Scripted> for Script {
    fn next_hop(&mut self, _: &mut Request, attempt: u8) -> Result<u8, ProxyRefusal> {
        if attempt < self.hops { Ok(attempt) } else { Err(ProxyRefusal(404)) }
    }

    fn has_alternate(&self, _: &Request, attempt: u8) -> bool {
        attempt + 1 < self.hops
    }
}

/// Makes messages of numbers.
pub(crate) struct Numbers;

impl Medium<Scripted> for Numbers {
    fn call(&self, _request: &Request) {}

    fn transport(&self, _: &Request, _: u8) -> TransportKind {
        TransportKind::Unreliable
    }

    fn forward(&mut self, request: &Request, hop: u8, serial: Option<u64>) -> (Msg, TransactionKey) {
        let (method, branch) = (request.method, serial.unwrap_or(STATELESS + request.branch));
        (Msg::Request { method, branch, hop }, TransactionKey::from_numbers(Side::Client, branch, method))
    }

    fn relay(&mut self, _: Option<&mut Request>, response: &Reply) -> Option<Msg> {
        Some(Msg::Response { status: response.status, branch: response.below? })
    }

    fn respond(&mut self, request: &Request, status: u16) -> Option<Msg> {
        Some(Msg::Response { status, branch: request.branch })
    }

    fn cancel(&mut self, invite: &Msg) -> (Msg, TransactionKey) {
        let Msg::Request { branch, hop, .. } = *invite else { panic!("an INVITE is a request") };
        let method = Method::Cancel;
        (Msg::Request { method, branch, hop }, TransactionKey::from_numbers(Side::Client, branch, method))
    }
}

pub(crate) struct Bed {
    pub(crate) proxy: Proxy<Scripted>,
    pub(crate) script: Script,
    pub(crate) now: Instant,
    sent: Vec<Msg>,
}

/// The caller's branch in tests with one call.
pub(crate) const CALL: u64 = 7;

fn key(branch: u64, method: Method, is_ack: bool) -> ServerKey {
    ServerKey { key: TransactionKey::from_numbers(Side::Server, branch, method), tag: Tag::NONE, is_ack }
}

impl Bed {
    /// Serial numbers begin at 1.
    pub(crate) fn new(hops: u8) -> Self {
        let proxy = Proxy::new(ProxyTimers::default(), 1);
        Self { proxy, script: Script { hops }, now: Instant::from_millis(1_000), sent: Vec::new() }
    }

    fn step<T>(&mut self, act: impl FnOnce(&mut Proxy<Scripted>, &mut ProxyStep<'_, Scripted>) -> T) -> T {
        let Self { proxy, script, now, sent } = self;
        act(proxy, &mut ProxyStep { now: *now, medium: Numbers, router: script, sink: sent })
    }

    /// A request comes in; what is sent at once.
    pub(crate) fn request(&mut self, method: Method, branch: u64) -> Vec<String> {
        let is_ack = method == Method::Ack;
        let arrived = Arrived {
            method,
            key: key(branch, if is_ack { Method::Invite } else { method }, is_ack),
            cancels: (method == Method::Cancel).then(|| key(branch, Method::Invite, false)),
            transport: TransportKind::Unreliable,
        };
        let request = Request { method, branch };
        self.step(|proxy, step| proxy.request(&arrived, request, step));
        self.sent()
    }

    /// A next hop answers the request with this branch.
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
        self.step(|proxy, step| proxy.unreachable(key, |_| true, step));
        self.sent()
    }

    /// Time passes; what is sent meanwhile, with its time in milliseconds since the beginning of the wait, rounded
    /// down to halves of a second: the wheel is late by its ticks.
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
        self.sent.drain(..).map(|message| message.to_string()).collect()
    }

    /// Nothing is left: no transaction, no request, no timer.
    pub(crate) fn assert_empty(&self) {
        assert_eq!((self.proxy.transactions(), self.proxy.in_progress(), self.proxy.unanswered()), (0, 0, 0));
        assert_eq!(self.proxy.deadline(), None);
    }
}
