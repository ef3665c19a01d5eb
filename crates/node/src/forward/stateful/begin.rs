//! Requests to a pool that keeps transactions, and that no dialog has led there (RFC 3261 §16.5).

use super::attempts::Assigned;
use super::editor::{Received, Refresh, Way};
use super::located::Located;
use super::{Lent, Stateful};
use crate::Drop;
use crate::edge::Edge;
use crate::examine::Facts;
use crate::reply::{self, Halt};
use balance::Request;
use base::Flow;
use wire::{Message, Method, SipUri};

impl Stateful {
    /// Whether a request may begin a transaction, before a member is chosen for it.
    pub(crate) fn check_new(&mut self, edge: &mut Edge, message: &Message<'_>) -> Result<(), Halt> {
        // What is that short begins no transaction, which would answer again and again.
        if message.bytes().len() < reply::ANSWERED_MIN && message.method() != Some(Method::Ack) {
            return Err(Halt::Dropped(Drop::Unanswerable));
        }
        self.check_limit(edge, message, false)?;
        Ok(())
    }

    /// Sends a request on to the member that it is assigned to; `is_noted`: the balancer has taken note of it.
    pub(crate) fn begin(
        &mut self,
        lent: &mut Lent<'_>,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        (assigned, is_noted): (Assigned, bool),
    ) {
        let noted = is_noted.then(|| Box::new(assigned.request));
        self.begin_by(lent, flow, message, facts, (Way::Pool(Box::new(assigned)), noted));
    }

    /// Sends a request for a user on to the user's contacts.
    pub(crate) fn begin_located(
        &mut self,
        lent: &mut Lent<'_>,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        located: Located,
    ) {
        self.begin_by(lent, flow, message, facts, (Way::Contacts(Box::new(located)), None));
    }

    fn begin_by(
        &mut self,
        lent: &mut Lent<'_>,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        (way, noted): (Way, Option<Box<Request<'static>>>),
    ) {
        let received = Received {
            bytes: message.bytes().into(),
            call: facts.request.key,
            flow,
            routing: facts.routing,
            refresh: Refresh::of(true),
            noted,
            way,
        };
        self.notes.source = flow.peer;
        self.forward(lent, message, received);
    }
}

/// Whether it is an OPTIONS about this proxy itself, whose URI has no user part (RFC 3261 §11): who asks whether we are alive
/// must not be told how somebody behind us is. Where an INVITE had nowhere to go, nor has this.
pub(crate) fn is_about_us(edge: &Edge, message: &Message<'_>) -> bool {
    let ours = |uri: SipUri<'_>| uri.user.is_none() && edge.topology.is_ours(&uri);
    message.method() == Some(Method::Options)
        && message.to_tag().is_none()
        && message.uri().and_then(|uri| SipUri::parse(uri).ok()).is_some_and(ours)
}
