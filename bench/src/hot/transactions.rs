//! The four state machines of RFC 3261 §17 alone, each created, answered and removed.

use super::Length;
use anyhow::{Context, Result};
use base::Instant;
use core::time::Duration;
use std::hint::black_box;
use transaction::{
    Effects, Id, KeptMessage, Layer, New, Sending, ServerKey, Side, StatusClass, Tag, Timers, TransactionKey,
    TransactionKind, TransactionNews, TransportKind,
};
use wire::Method;

/// Time between two rounds of all machines. 64*T1 is 32 s, so 1,000 rounds are alive.
const BETWEEN: Duration = Duration::from_millis(32);
const WARM_UP: u64 = 1_500;
const ROUNDS: u64 = 3_000;

/// An empty message.
struct Blank;

impl KeptMessage for Blank {
    type Response<'a> = Self;

    fn ack(&self, _: &Self) -> Option<Self> {
        Some(Self)
    }

    fn to_tag(&self) -> Tag {
        Tag::NONE
    }
}

/// Discards all effects.
struct Ignore;

impl Effects<(), Blank> for Ignore {
    fn send(&mut self, id: Id, (): &(), _: &Blank, _: Sending) {
        black_box(id);
    }

    fn tell(&mut self, id: Id, (): &mut (), _: TransactionNews) {
        black_box(id);
    }

    fn ended(&mut self, id: Id, (): ()) {
        black_box(id);
    }
}

/// Runs a transaction of either side that is answered with `class`.
fn live(
    layer: &mut Layer<(), Blank>,
    now: Instant,
    serial: u64,
    kind: TransactionKind,
    class: StatusClass,
) -> Result<()> {
    let method = if kind == TransactionKind::Invite { Method::Invite } else { Method::Bye };
    let transport = TransportKind::Unreliable;

    let key = TransactionKey::from_numbers(Side::Server, serial, method);
    let key = ServerKey { key, tag: Tag::NONE, is_ack: false };
    let new = New { key, kind, transport, user: () };
    let id = layer.accept(now, new, &mut Ignore).context("a transaction with this key exists")?;
    layer.respond(now, id, class, Blank, &mut Ignore);
    if kind == TransactionKind::Invite {
        layer
            .received(now, &ServerKey { is_ack: true, ..key }, &mut Ignore)
            .context("the ACK matches no transaction")?;
    }

    let key = TransactionKey::from_numbers(Side::Client, serial, method);
    let new = New { key, kind, transport, user: () };
    layer.request(now, new, Blank, &mut Ignore).context("a transaction with this key exists")?;
    layer.response(now, key, class, &Blank, &mut Ignore).context("the response matches no transaction")?;
    Ok(())
}

/// Runs the rounds, each with four transactions.
pub(super) fn lives(length: Length) -> Result<u64> {
    let (mut layer, mut now) = (Layer::new(Timers::default()), Instant::ZERO);
    let rounds = length.pick(WARM_UP, WARM_UP + ROUNDS);
    for serial in 0..rounds {
        now += BETWEEN;
        while layer.deadline().is_some_and(|due| due <= now) {
            layer.expire(now, &mut Ignore);
        }
        live(&mut layer, now, serial, TransactionKind::Invite, StatusClass::Failure)?;
        live(&mut layer, now, serial, TransactionKind::NonInvite, StatusClass::Success)?;
    }
    Ok(4 * rounds)
}
