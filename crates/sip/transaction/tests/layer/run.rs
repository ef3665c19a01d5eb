//! A layer on virtual time, with all effects and their times.

use base::Instant;
use core::time::Duration;
use transaction::{
    Id, KeptMessage, Layer, New, Sending, ServerKey, Side, StatusClass, Tag, Timers, TransactionEffect,
    TransactionKey, TransactionKind, TransactionNews, TransportKind,
};
use wire::Method;

/// Minimal messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Msg {
    Request,
    Ack,
    Response(u16),
}

impl KeptMessage for Msg {
    type Response<'a> = u16;

    fn ack(&self, _: &u16) -> Option<Self> {
        assert_eq!(*self, Self::Request, "an ACK is made from the INVITE");
        Some(Self::Ack)
    }

    fn to_tag(&self) -> Tag {
        Tag::of(Some(b"answer"))
    }

    fn memory(&self) -> usize {
        1_000
    }
}

pub(crate) struct Run {
    pub(crate) layer: Layer<u8, Msg>,
    pub(crate) now: Instant,
    pub(crate) log: Vec<(f64, TransactionEffect<u8, Msg>)>,
}

pub(crate) fn client_key(method: Method) -> TransactionKey {
    TransactionKey::from_numbers(Side::Client, 7, method)
}

pub(crate) fn server_key(method: Method) -> ServerKey {
    let is_ack = method == Method::Ack;
    let method = if is_ack { Method::Invite } else { method };
    ServerKey { key: TransactionKey::from_numbers(Side::Server, 7, method), tag: Tag::NONE, is_ack }
}

fn method(kind: TransactionKind) -> Method {
    if kind == TransactionKind::Invite { Method::Invite } else { Method::Options }
}

impl Run {
    pub(crate) fn new() -> Self {
        Self { layer: Layer::new(Timers::default()), now: Instant::ZERO, log: Vec::new() }
    }

    fn note<R>(
        &mut self,
        step: impl FnOnce(&mut Layer<u8, Msg>, Instant, &mut Vec<TransactionEffect<u8, Msg>>) -> R,
    ) -> R {
        let mut out = Vec::new();
        let result = step(&mut self.layer, self.now, &mut out);
        let at = self.now.as_secs_f64();
        self.log.extend(out.into_iter().map(|effect| (at, effect)));
        assert!(self.layer.timers_set() <= self.layer.len());
        assert!(!self.layer.is_empty() || self.layer.memory() == 0);
        result
    }

    pub(crate) fn request(&mut self, kind: TransactionKind, transport: TransportKind) -> Id {
        let new = New { key: client_key(method(kind)), kind, transport, user: 0 };
        self.note(|layer, now, out| layer.request(now, new, Msg::Request, out)).expect("a new key")
    }

    pub(crate) fn response(&mut self, kind: TransactionKind, status: u16) -> Option<Id> {
        let key = client_key(method(kind));
        self.note(|layer, now, out| layer.response(now, key, StatusClass::of(status), &status, out))
    }

    pub(crate) fn accept(&mut self, kind: TransactionKind, transport: TransportKind) -> Id {
        let new = New { key: server_key(method(kind)), kind, transport, user: 0 };
        self.note(|layer, now, out| layer.accept(now, new, out)).expect("a new key")
    }

    pub(crate) fn again(&mut self, kind: TransactionKind) -> Option<Id> {
        self.received(&server_key(method(kind)))
    }

    pub(crate) fn ack(&mut self) -> Option<Id> {
        self.received(&server_key(Method::Ack))
    }

    pub(crate) fn received(&mut self, key: &ServerKey) -> Option<Id> {
        self.note(|layer, now, out| layer.received(now, key, out))
    }

    pub(crate) fn respond(&mut self, id: Id, status: u16) -> bool {
        self.note(|layer, now, out| {
            layer.respond(now, id, StatusClass::of(status), Msg::Response(status), out)
        })
    }

    pub(crate) fn cancel(&mut self, id: Id) -> bool {
        self.note(|layer, now, out| layer.cancel(now, id, out))
    }

    pub(crate) fn transport_error(&mut self, id: Id) {
        self.note(|layer, now, out| layer.transport_error(now, id, out));
    }

    /// Lets time pass until `seconds` after the start; timers fire when they are due.
    pub(crate) fn until(&mut self, seconds: f64) {
        let end = Instant::ZERO + Duration::from_secs_f64(seconds);
        while let Some(deadline) = self.layer.deadline().filter(|&deadline| deadline <= end) {
            self.now = deadline.max(self.now);
            self.note(Layer::expire);
        }
        self.now = end;
        self.note(Layer::expire);
    }

    /// Takes the effects since the last call, without the times.
    pub(crate) fn take(&mut self) -> Vec<What> {
        self.log.drain(..).map(|(_, effect)| What::of(&effect)).collect()
    }

    /// Times at which `message` was sent, in seconds.
    pub(crate) fn sent(&self, message: Msg) -> Vec<f64> {
        let is = |effect: &TransactionEffect<u8, Msg>| matches!(effect, TransactionEffect::Send(_, m, _) if *m == message);
        self.log.iter().filter(|(_, effect)| is(effect)).map(|&(at, _)| at).collect()
    }

    /// Time at which the transaction ended.
    pub(crate) fn ended(&self) -> Option<f64> {
        self.log.iter().find(|(_, effect)| matches!(effect, TransactionEffect::Ended(..))).map(|&(at, _)| at)
    }
}

/// Effect without its transaction, to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Sent(Msg, Sending),
    Told(TransactionNews),
    Ended,
}

impl What {
    fn of(effect: &TransactionEffect<u8, Msg>) -> Self {
        match *effect {
            TransactionEffect::Send(_, message, why) => Self::Sent(message, why),
            TransactionEffect::Tell(_, _, news) => Self::Told(news),
            TransactionEffect::Ended(..) => Self::Ended,
        }
    }
}

/// Checks that each time is nominal: timers are not late by themselves.
pub(crate) fn assert_times(times: &[f64], nominal: &[f64]) {
    assert_eq!(times.len(), nominal.len(), "{times:?}");
    for (time, nominal) in times.iter().zip(nominal) {
        assert!((time - nominal).abs() < 1e-9, "{nominal} s came at {time} s");
    }
}
