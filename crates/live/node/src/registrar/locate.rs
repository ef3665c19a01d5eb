//! Look-ups of contacts for requests to users of the registrar (RFC 3261 §16.5).

use super::services::Registrar;
use super::waiting::Pending;
use crate::address::hop_name::HopName;
use crate::address::target::Target;
use crate::outcome::question::StoreQuery;
use crate::outcome::rejection::Rejection;
use crate::read::arrival::Arrival;
use crate::read::progress::{Progress, Stage};
use crate::site::Site;
use crate::site::edit::is_trusted;
use crate::step::Step;
use base::Transport;
use location::{Aor, StoreRequest};
use wire::NameAddr;

impl Registrar {
    /// Asks the store for the bindings of a request's address-of-record.
    pub(crate) fn look_up(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        aor: Aor,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let about = StoreQuery::Location(StoreRequest::Read(aor));
        self.ask(step, arrival.inbound(), about, Pending::Location, progress)
    }

    /// Lets a request wait for the address of its contact's host name, whose look-up has started.
    pub(crate) fn wait_for_name(
        &mut self,
        step: &Step<'_>,
        arrival: &Arrival<'_>,
        name: HopName,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        progress.resolved.push(name.clone());
        self.wait(step, arrival.inbound(), Pending::Name(name), progress)?;
        Ok(())
    }

    /// Returns the address-of-record of a caller that may be behind a NAT: its request came directly over UDP, with a
    /// Contact other than its source. `None`: its Contact is reachable, or its connection is known.
    pub(crate) fn caller(&self, site: &Site, arrival: &Arrival<'_>) -> Option<Aor> {
        let Arrival { flow, message, .. } = *arrival;
        let is_direct =
            flow.transport == Transport::Udp && !message.has_lower_vias() && !is_trusted(site, flow);
        let contact = message.contact().filter(|_| is_direct)?;
        let is_elsewhere = Target::of(contact) != Target::Address(flow.remote());
        let from = NameAddr::parse(message.from()).filter(|_| is_elsewhere)?;
        Aor::of(from.uri).filter(|_| self.decisions.serves(from.uri))
    }

    /// Asks the store whether a caller has registered from its source address. If the store cannot be asked, the
    /// request proceeds.
    pub(crate) fn look_up_caller(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        aor: Aor,
        progress: &mut Progress,
    ) -> Stage {
        let about = StoreQuery::Location(StoreRequest::Read(aor));
        if self.ask(step, arrival.inbound(), about, Pending::Caller, progress).is_ok() {
            return Stage::Done;
        }
        progress.is_at_source = Some(false);
        Stage::GoesOn
    }
}
