//! Requests for users of the home domain: where their contacts are (RFC 3261 §16.5).

use super::waiting::Pending;
use super::{Asked, Known};
use crate::edge::Edge;
use crate::examine::Facts;
use crate::forward::stateful::{Contact, Located};
use crate::forward::{Onward, Refresh, Stay};
use crate::reply::Halt;
use crate::route::{RouteInfo, Target};
use crate::token::route::TokenOwner;
use crate::validate::{Refused, check_from_tag, check_room, refused};
use crate::{Drop, Shard, ShardEvent};
use ::route::{Forward, RING_TIME};
use balance::CallKey;
use base::{Flow, Outbox};
use location::{Aor, Ask, Binding};
use std::sync::Arc;
use wire::{Message, NameAddr};

impl Shard {
    /// Sends a request to the contacts of the address-of-record in its Request-URI; asks for them first.
    pub(super) fn locate(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        known: &mut Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        let Some(bindings) = known.bindings.take() else {
            let aor = self.edge.sought(facts.rule, (flow, message), &facts.route)?;
            let asked = Asked::Location(Ask::Read(aor));
            return self.ask(flow, message, (asked, Pending::Location, core::mem::take(known)), out);
        };
        let forward = self.home.as_ref().map(|home| home.forward).unwrap_or_default();
        let Some((stateful, lent)) = self.transactions(out) else {
            return Err(refused(480, "Temporarily Unavailable").into());
        };
        check_from_tag(message, forward == Forward::Dialog)?;
        if forward != Forward::Stateless {
            stateful.check_new(lent.edge, message, forward, facts)?;
        }
        let contacts = contacts(lent.edge, flow, message, (facts.request.key, &bindings), lent.out)?;
        let rule = facts.rule.map(|rule| (Arc::clone(&lent.edge.routes), rule));
        self.goes_on(facts);
        if let (Forward::Stateless, Some(contact)) = (forward, contacts.first()) {
            let onward = Onward {
                from: flow,
                hop: contact.hop,
                element: TokenOwner::Proxy,
                rule: rule.as_ref().map(|(routes, rule)| routes.rule(*rule)),
                contact: Some(contact),
                breadth: None,
                stay: Stay::Stateless,
                keeps: None,
            };
            self.edge.pass(message, &onward, (facts.routing, &Refresh::of(true)), out);
        } else if let Some((stateful, mut lent)) = self.transactions(out) {
            let located = Located::new(contacts, RING_TIME, rule);
            stateful.begin_located(&mut lent, flow, message, facts, (located, forward == Forward::Dialog))?;
        }
        Ok(())
    }
}

impl Edge {
    /// The user to whose contacts a request goes by this rule.
    pub(crate) fn sought(
        &self,
        rule: Option<usize>,
        (flow, message): (Flow, &Message<'_>),
        route: &RouteInfo<'_>,
    ) -> Result<Aor, Refused> {
        // [16.5] A Route that leads on is no request for the location service.
        if route.next.is_some() {
            return Err(refused(403, "Forbidden"));
        }
        let received = route.uri(message);
        let rewritten = rule.and_then(|rule| self.rewrite(self.routes.rule(rule), received, flow.listener));
        Aor::of(rewritten.as_deref().unwrap_or(received)).ok_or(refused(404, "Not Found"))
    }
}

/// The contacts that can be reached, in the order in which they are tried.
fn contacts(
    edge: &mut Edge,
    flow: Flow,
    message: &Message<'_>,
    (call, bindings): (CallKey, &[Binding]),
    out: &mut Outbox<ShardEvent>,
) -> Result<Vec<Contact>, Halt> {
    // [16.5] Who has no contact is not there now; who does not exist is not told apart from that.
    let mut none: Halt = refused(480, "Temporarily Unavailable").into();
    let mut contacts = Vec::new();
    for binding in bindings {
        if let Err(too_long) = check_room(message, binding.uri.len() + binding.path.len()) {
            none = too_long.into();
            continue;
        }
        match way(edge, flow, binding, call, out) {
            // What leads back to us goes in circles.
            Ok(hop) if edge.topology.listeners.iter().any(|own| own.advertised == hop.peer) => {}
            Ok(hop) => {
                let (uri, path) = (binding.uri.clone(), binding.path.clone());
                contacts.push(Contact { uri, path, q: binding.q, hop });
            }
            // Its repetition finds the address.
            Err(halt @ Halt::Dropped(Drop::Unresolved)) => none = halt,
            Err(_) => {}
        }
    }
    if contacts.is_empty() { Err(none) } else { Ok(contacts) }
}

/// The way to a contact: by its Path (RFC 3327 §5.4), else to where its REGISTER came from, else where it leads.
fn way(
    edge: &mut Edge,
    flow: Flow,
    binding: &Binding,
    call: CallKey,
    out: &mut Outbox<ShardEvent>,
) -> Result<Flow, Halt> {
    let unreachable = refused(480, "Temporarily Unavailable");
    let target = match NameAddr::parse(&binding.path).filter(|_| !binding.path.is_empty()) {
        Some(first) => Target::of(first.uri),
        None => match &binding.source {
            Some(source) => {
                // Only from the address that it was sent to does a NAT let anything back in.
                let listeners = &edge.topology.listeners;
                let asked = listeners.iter().position(|listener| listener.advertised == source.local);
                let listener = asked.map_or(flow.listener, |index| index as u16);
                return edge.topology.way_to(listener, source.peer).ok_or(unreachable.into());
            }
            None => Target::of(&binding.uri),
        },
    };
    let preferred = (&*edge.topology, flow.listener);
    edge.names.next_hop(edge.now, target, call, preferred, out)
}
