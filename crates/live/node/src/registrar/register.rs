//! Processing of a REGISTER, with one step for each answer of the store (RFC 3261 §10.3).

use super::services::{Registrar, keep_answer};
use super::waiting::Pending;
use crate::address::target::Target;
use crate::forward::keep_alive::note_registered;
use crate::outcome::event::ShardEvent;
use crate::outcome::question::StoreQuery;
use crate::outcome::rejection::{OwnResponse, Rejection};
use crate::read::arrival::{Arrival, Inbound};
use crate::read::progress::{Progress, User};
use crate::step::Step;
use base::UnixTime;
use location::{
    Authorization, Purpose, Reach, Register, RegistrarResponse, Registration, RegistrationStep, Source,
    StoreReply,
};
use std::net::SocketAddr;
use wire::Message;

impl Registrar {
    /// Starts a REGISTER whose sender is authenticated, if required.
    pub(crate) fn register(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let Arrival { flow, message, .. } = *arrival;
        let authorization = progress.user().map_or(Authorization::Open, User::authorization);
        let local = step.site.topology.ports.get(flow.listener);
        let source = local.map(|local| Source::of(flow, local.advertised));
        match Register::read(message, source, authorization) {
            Ok(register) => {
                let (registration, next) = Registration::begin(register);
                self.go_on(step, arrival.inbound(), Box::new(registration), next, progress)
            }
            Err(answer) => {
                self.answer_register(step, arrival.inbound(), &answer, None, progress);
                Ok(())
            }
        }
    }

    pub(super) fn go_on_registering(
        &mut self,
        step: &mut Step<'_>,
        inbound: Inbound<'_>,
        mut registration: Box<Registration>,
        reply: StoreReply,
        date: UnixTime,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let next = registration.reply(date, &self.decisions, reply);
        self.go_on(step, inbound, registration, next, progress)
    }

    fn go_on(
        &mut self,
        step: &mut Step<'_>,
        inbound: Inbound<'_>,
        registration: Box<Registration>,
        next: RegistrationStep,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        match next {
            RegistrationStep::Request(ask) => {
                let (about, pending) = (StoreQuery::Location(ask), Pending::Register(registration));
                self.ask(step, inbound, about, pending, progress)
            }
            RegistrationStep::Done(answer) => {
                let purpose = Some(registration.purpose());
                self.answer_register(step, inbound, &answer, purpose, progress);
                Ok(())
            }
        }
    }

    /// Answers a REGISTER. Keeps the response for retransmissions, since the request must not be processed twice.
    fn answer_register(
        &mut self,
        step: &mut Step<'_>,
        Inbound { flow, message }: Inbound<'_>,
        answer: &RegistrarResponse,
        purpose: Option<Purpose>,
        progress: &mut Progress,
    ) {
        self.counters.registered(purpose, answer.status);
        if answer.status == 200 && self.decisions.settings().reach == Reach::Source {
            report_missing_path(step, flow.peer, message);
            let settings = self.decisions.settings();
            note_registered(step.site, flow, message, [settings.expires_default, settings.expires_max]);
        }
        let sent = step.out.transmits().len();
        step.answer(flow, message, OwnResponse::OfRegistrar(answer, progress.user().is_some()));
        progress.settle();
        keep_answer(step, flow.peer, message, sent);
    }
}

/// Reports once that calls will go back to a proxy that may not know the contact. This happens if a REGISTER came
/// through that proxy for a contact at another address, without Path (RFC 3327 §5.1).
fn report_missing_path(step: &mut Step<'_>, peer: SocketAddr, message: &Message<'_>) {
    if step.site.has_reported_pathless || !message.has_lower_vias() {
        return;
    }
    let is_elsewhere =
        |uri: &[u8]| matches!(Target::of(uri), Target::Address(at) if at.address.ip() != peer.ip());
    if message.header("Path").is_none() && message.contact().is_some_and(is_elsewhere) {
        step.site.has_reported_pathless = true;
        step.out.event(ShardEvent::NoPath(peer));
    }
}
