//! What a transaction costs from beginning to end: created, answered, expired, with 100,000 of them alive.
//!
//! `cargo bench -p transaction` prints transactions a second; messages are those of a simulation, or packets of 400
//! bytes as they are kept live. Allocations are counted: a live transaction has one for each message that it keeps.

use base::{Flow, Instant};
use core::time::Duration;
use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher};
use std::net::SocketAddr;
use transaction::{
    Effects, Id, KeptMessage, Layer, New, Packet, Sending, ServerKey, Side, StatusClass, Tag, Timers,
    TransactionKey, TransactionKind, TransactionNews, TransportKind,
};
use wire::Method;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Between two transactions; 64*T1 is 32 s, so 100,000 are alive.
const BETWEEN: Duration = Duration::from_micros(320);

/// A simulated message.
#[derive(Clone, Copy)]
struct Small(#[expect(dead_code, reason = "a message has a size")] u64);

impl KeptMessage for Small {
    type Response<'a> = Self;

    fn ack(&self, _: &Self) -> Option<Self> {
        Some(*self)
    }

    fn to_tag(&self) -> Tag {
        Tag::NONE
    }
}

/// Where effects end.
#[derive(Default)]
struct Count(u64);

impl<M> Effects<u32, M> for Count {
    fn send(&mut self, _: Id, user: &u32, _: &M, _: Sending) {
        self.0 += u64::from(*user);
    }

    fn tell(&mut self, _: Id, _: &mut u32, _: TransactionNews) {
        self.0 += 1;
    }

    fn ended(&mut self, _: Id, user: u32) {
        self.0 += u64::from(user);
    }
}

/// A layer in its steady state, and how far it has come.
struct Stage<M> {
    layer: Layer<u32, M>,
    now: Instant,
    branch: u64,
    out: Count,
}

impl<M: KeptMessage> Stage<M> {
    /// Brought to its steady state by `one`.
    fn new(one: impl Fn(&mut Self)) -> Self {
        let layer = Layer::new(Timers::default());
        let mut stage = Self { layer, now: Instant::ZERO, branch: 0, out: Count::default() };
        for _ in 0..200_000 {
            one(&mut stage);
        }
        stage
    }

    fn step(&mut self) -> u64 {
        self.now += BETWEEN;
        self.branch += 1;
        if self.layer.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.layer.expire(self.now, &mut self.out);
        }
        self.branch
    }

    /// A server transaction: created, answered, in time expired.
    fn served(&mut self, kind: TransactionKind, class: StatusClass, message: M) {
        let method = if kind == TransactionKind::Invite { Method::Invite } else { Method::Bye };
        let key = TransactionKey::from_numbers(Side::Server, self.step(), method);
        let key = ServerKey { key, tag: Tag::NONE, is_ack: false };
        assert!(self.layer.received(self.now, &key, &mut self.out).is_none());
        let new = New { key, kind, transport: TransportKind::Unreliable, user: 1 };
        let id = self.layer.accept(self.now, new, &mut self.out).expect("a new key");
        self.layer.respond(self.now, id, class, message, &mut self.out);
        if class == StatusClass::Failure {
            let ack = ServerKey { is_ack: true, ..key };
            assert!(self.layer.received(self.now, &ack, &mut self.out).is_some());
        }
    }

    /// A client transaction: created, answered, in time expired.
    fn asked(&mut self, kind: TransactionKind, class: StatusClass, message: M, response: &M::Response<'_>) {
        let method = if kind == TransactionKind::Invite { Method::Invite } else { Method::Bye };
        let key = TransactionKey::from_numbers(Side::Client, self.step(), method);
        let new = New { key, kind, transport: TransportKind::Unreliable, user: 1 };
        self.layer.request(self.now, new, message, &mut self.out).expect("a new key");
        assert!(self.layer.response(self.now, key, class, response, &mut self.out).is_some());
    }
}

/// Transactions an iteration, so that each has its share of the expiring ones.
const MANY: u32 = 10_000;

fn measure<M>(bencher: Bencher<'_, '_>, mut stage: Stage<M>, one: impl Fn(&mut Stage<M>)) {
    bencher.counter(ItemsCount::new(MANY)).bench_local(|| {
        for _ in 0..MANY {
            one(&mut stage);
        }
        stage.out.0
    });
}

#[divan::bench]
fn server_non_invite(bencher: Bencher<'_, '_>) {
    let one =
        |stage: &mut Stage<Small>| stage.served(TransactionKind::NonInvite, StatusClass::Success, Small(1));
    let stage = Stage::new(one);
    measure(bencher, stage, one);
}

#[divan::bench]
fn server_invite_accepted(bencher: Bencher<'_, '_>) {
    let one =
        |stage: &mut Stage<Small>| stage.served(TransactionKind::Invite, StatusClass::Success, Small(1));
    let stage = Stage::new(one);
    measure(bencher, stage, one);
}

#[divan::bench]
fn server_invite_refused(bencher: Bencher<'_, '_>) {
    let one =
        |stage: &mut Stage<Small>| stage.served(TransactionKind::Invite, StatusClass::Failure, Small(1));
    let stage = Stage::new(one);
    measure(bencher, stage, one);
}

#[divan::bench]
fn client_non_invite(bencher: Bencher<'_, '_>) {
    let one =
        |s: &mut Stage<Small>| s.asked(TransactionKind::NonInvite, StatusClass::Success, Small(1), &Small(2));
    let stage = Stage::new(one);
    measure(bencher, stage, one);
}

#[divan::bench]
fn client_invite_refused(bencher: Bencher<'_, '_>) {
    let one =
        |s: &mut Stage<Small>| s.asked(TransactionKind::Invite, StatusClass::Failure, Small(1), &Small(2));
    let stage = Stage::new(one);
    measure(bencher, stage, one);
}

/// With bytes: the response is copied into a box of its own, as a live element has to.
#[divan::bench]
fn server_non_invite_live(bencher: Bencher<'_, '_>) {
    let to: SocketAddr = "127.0.0.1:5060".parse().expect("an address");
    let bytes = [b'x'; 400];
    let one = |stage: &mut Stage<Packet>| {
        let response = Packet::new(bytes.to_vec(), Flow::udp(0, to));
        stage.served(TransactionKind::NonInvite, StatusClass::Success, response);
    };
    let stage = Stage::new(one);
    measure(bencher, stage, one);
}
