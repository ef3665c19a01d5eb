//! Requests to a pool that keeps transactions, and that no dialog has led there (RFC 3261 §16.5).

use super::attempts::Assigned;
use super::editor::{Received, Refresh, Way, way_back};
use super::located::Located;
use super::{Lent, Stateful};
use crate::Drop;
use crate::allowance::Sender;
use crate::edge::Edge;
use crate::examine::Facts;
use crate::forward::Stay;
use crate::reply::{self, Halt};
use crate::route::max_breadth;
use crate::validate::refused_until;
use ::route::Forward;
use balance::Request;
use base::Flow;
use std::cell::Cell;
use wire::{Message, Method, SipUri};

impl Stateful {
    /// Whether a request that goes on in this way may begin a transaction, and a call whose dialogs are kept, before a member is
    /// chosen for it.
    pub(crate) fn check_new(
        &mut self,
        edge: &mut Edge,
        message: &Message<'_>,
        forward: Forward,
        facts: &Facts<'_>,
    ) -> Result<(), Halt> {
        // None begins before a stop, but for those that were taken in before.
        let is_new = facts.may_begin_call() && !facts.is_admitted;
        if let Some(end) = edge.settings.stopping.filter(|_| is_new) {
            return Err(refused_until(end, edge.now).into());
        }
        // What is that short begins no transaction, which would answer again and again.
        if message.bytes().len() < reply::ANSWERED_MIN && message.method() != Some(Method::Ack) {
            return Err(Halt::Dropped(Drop::Unanswerable));
        }
        self.check_limit(edge, message, false)?;
        match &self.dialogs {
            Some(dialogs) if forward == Forward::Dialog && begins_call(facts) => dialogs.check(edge, message),
            _ => Ok(()),
        }
    }

    /// Sends a request on to the member that it is assigned to; `is_noted`: the balancer has taken note of it.
    pub(crate) fn begin(
        &mut self,
        lent: &mut Lent<'_>,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        (assigned, is_noted): (Assigned, bool),
    ) -> Result<(), Halt> {
        let noted = is_noted.then(|| Box::new(assigned.request));
        let keeps_dialogs = assigned.stay == Stay::WithDialogs;
        let way = Way::Pool(Box::new(assigned));
        self.begin_by(lent, flow, message, facts, (way, noted, keeps_dialogs))
    }

    /// Sends a request for a user on to the user's contacts.
    pub(crate) fn begin_located(
        &mut self,
        lent: &mut Lent<'_>,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        (located, keeps_dialogs): (Located, bool),
    ) -> Result<(), Halt> {
        let way = Way::Contacts(Box::new(located));
        self.begin_by(lent, flow, message, facts, (way, None, keeps_dialogs))
    }

    fn begin_by(
        &mut self,
        lent: &mut Lent<'_>,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        (way, noted, keeps_dialogs): (Way, Option<Box<Request<'static>>>, bool),
    ) -> Result<(), Halt> {
        let pool = match &way {
            Way::Pool(assigned) => Some(assigned.request.pool.0),
            Way::There(..) | Way::Contacts(_) => None,
        };
        let tracked = match &mut self.dialogs {
            Some(dialogs) => {
                let known = message.to_tag().and_then(|_| dialogs.untold(lent.edge, message));
                match known {
                    None if keeps_dialogs && begins_call(facts) => {
                        Some(Box::new(dialogs.begin(lent.edge, message, flow.peer, (facts.rule, pool))?))
                    }
                    known => known,
                }
            }
            None => None,
        };
        let received = Received {
            bytes: message.bytes().into(),
            call: facts.request.key,
            flow,
            back: way_back(lent.edge, message, flow),
            routing: facts.routing,
            breadth: max_breadth(message),
            refresh: Refresh::of(true),
            noted,
            tracked,
            is_genuine: facts.sender == Sender::Genuine,
            told: Cell::default(),
            way,
        };
        self.notes.source = flow.peer;
        self.forward(lent, message, received);
        Ok(())
    }
}

/// Whether it is the INVITE of a call. A To tag that somebody made up makes no difference.
fn begins_call(facts: &Facts<'_>) -> bool {
    facts.request.method == Method::Invite && !facts.request.in_dialog
}

/// Whether it is an OPTIONS about this proxy itself, whose URI has no user part (RFC 3261 §11): who asks whether we are alive
/// must not be told how somebody behind us is. Where an INVITE had nowhere to go, nor has this.
pub(crate) fn is_about_us(edge: &Edge, message: &Message<'_>) -> bool {
    let ours = |uri: SipUri<'_>| uri.user.is_none() && edge.topology.is_ours(&uri);
    message.method() == Some(Method::Options)
        && message.to_tag().is_none()
        && message.uri().and_then(|uri| SipUri::parse(uri).ok()).is_some_and(ours)
}
