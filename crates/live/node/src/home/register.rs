//! A REGISTER on its way through the store (RFC 3261 §10.3).

use super::waiting::Pending;
use super::{Asked, Known, User};
use crate::reply::{Halt, Own};
use crate::route::Target;
use crate::{Shard, ShardEvent};
use base::{Flow, Outbox, UnixTime};
use location::{Answer, Authorization, Purpose, Register, Registration, Reply, Source, Step};
use std::net::SocketAddr;
use wire::Message;

impl Shard {
    /// Takes a REGISTER whose sender is known, if that is asked for.
    pub(super) fn register(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        known: &mut Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        let authorization = known.user.as_ref().map_or(Authorization::Open, User::authorization);
        let local = self.edge.topology.listeners.get(usize::from(flow.listener));
        let source =
            local.map(|local| Source { transport: flow.transport, peer: flow.peer, local: local.advertised });
        match Register::read(message, source, authorization) {
            Ok(register) => {
                let (registration, step) = Registration::begin(register);
                self.step(flow, message, (Box::new(registration), step), core::mem::take(known), out)
            }
            Err(answer) => {
                self.answer_register(flow, message, (&answer, None, known), out);
                Ok(())
            }
        }
    }

    /// The store has answered.
    pub(super) fn go_on_registering(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        (mut registration, reply, date): (Box<Registration>, Reply, UnixTime),
        known: Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        let Some(home) = &self.home else { return Err(super::STORE_SILENT.into()) };
        let step = registration.reply(date, &home.registrar, reply);
        self.step(flow, message, (registration, step), known, out)
    }

    fn step(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        (registration, step): (Box<Registration>, Step),
        known: Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        match step {
            Step::Ask(ask) => {
                self.ask(flow, message, (Asked::Location(ask), Pending::Register(registration), known), out)
            }
            Step::Done(answer) => {
                let purpose = Some(registration.purpose());
                self.answer_register(flow, message, (&answer, purpose, &known), out);
                Ok(())
            }
        }
    }

    /// Tells once that a REGISTER came through a proxy that calls go back to, as the address that it came from, though the contact
    /// is elsewhere and no Path says that the proxy knows the way on (RFC 3327 §5.1).
    fn look_for_path(&mut self, peer: SocketAddr, message: &Message<'_>, out: &mut Outbox<ShardEvent>) {
        let by_source = self.home.as_ref().is_some_and(|home| home.reaches_sources());
        if self.edge.is_pathless_told || !by_source || !message.has_lower_vias() {
            return;
        }
        let is_elsewhere =
            |uri: &[u8]| matches!(Target::of(uri), Target::Address(at) if at.ip() != peer.ip());
        if message.header("Path").is_none() && message.contact().is_some_and(is_elsewhere) {
            self.edge.is_pathless_told = true;
            out.event(ShardEvent::NoPath(peer));
        }
    }

    /// Answers, and keeps the answer: the request cannot be taken a second time.
    fn answer_register(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        (answer, purpose, known): (&Answer, Option<Purpose>, &Known),
        out: &mut Outbox<ShardEvent>,
    ) {
        self.count(|counters| counters.registered(purpose, answer.status));
        if answer.status == 200 {
            self.look_for_path(flow.peer, message, out);
        }
        let sent = out.transmits().len();
        self.edge.answer(flow, message, Own::OfHome(answer, known.user.is_some()), out);
        self.keep_answer(flow.peer, message, sent, out);
    }
}
