//! A REGISTER on its way through the store (RFC 3261 §10.3).

use super::waiting::Pending;
use super::{Asked, Known, User};
use crate::reply::{Halt, Own};
use crate::{Shard, ShardEvent};
use base::{Flow, Outbox, UnixTime};
use location::{Answer, Authorization, Purpose, Register, Registration, Reply, Source, Step};
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

    /// Answers, and keeps the answer: the request cannot be taken a second time.
    fn answer_register(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        (answer, purpose, known): (&Answer, Option<Purpose>, &Known),
        out: &mut Outbox<ShardEvent>,
    ) {
        self.count(|counters| counters.registered(purpose, answer.status));
        let sent = out.transmits().len();
        self.edge.answer(flow, message, Own::OfHome(answer, known.user.is_some()), out);
        self.keep_answer(flow.peer, message, sent, out);
    }
}
