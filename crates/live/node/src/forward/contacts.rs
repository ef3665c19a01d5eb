//! The contacts of an address-of-record, as the targets of a request (RFC 3261 §16.5).

use crate::arrival::Arrival;
use crate::edge::Edge;
use crate::hop_name::HopName;
use crate::names::NoHop;
use crate::ports::Ports;
use crate::rejection::{Refused, refused};
use crate::route_header::RouteHeader;
use crate::step::Step;
use crate::target::Target;
use crate::validate::{SIPS_NOT_ALLOWED, check_room, is_sips};
use base::{Flow, Peer, Transport};
use location::{Aor, Binding};
use route::Rule;
use wire::{Message, NameAddr};

/// [16.5] A user without a contact is not there now. A user who does not exist is not told apart from that.
pub(crate) const NO_CONTACT: Refused = refused(480, "Temporarily Unavailable");

/// A contact of an address-of-record.
#[derive(Clone)]
pub(crate) struct Contact {
    /// What the Request-URI becomes (§16.6 step 2).
    pub(crate) uri: Box<[u8]>,
    /// The route set that is put before it (RFC 3327 §5.4); empty for none.
    pub(crate) path: Box<[u8]>,
    /// Preference in thousandths.
    pub(crate) q: u16,
    /// The way there.
    pub(crate) hop: Flow,
    /// Other ways to the same user agent, for when the connection is gone: its other flows (RFC 5626 §7), and a new
    /// connection where its address can be reached.
    pub(crate) spare: Vec<Contact>,
}

impl Edge {
    /// The user to whose contacts a request goes by this rule.
    pub(crate) fn sought(&self, rule: Option<usize>, arrival: &Arrival<'_>) -> Result<Aor, Refused> {
        let Arrival { flow, message, route, .. } = arrival;
        // [16.5] A Route that leads on is no request for the location service.
        if route.next.is_some() {
            return Err(refused(403, "Forbidden"));
        }
        let received = route.uri(message);
        let rewritten = rule.and_then(|rule| self.rewrite(self.routes.rule(rule), received, flow.listener));
        Aor::of(rewritten.as_deref().unwrap_or(received)).ok_or(refused(404, "Not Found"))
    }
}

/// The contacts that can be reached, in the order in which they are tried. `resolved`: names whose look-up has ended;
/// one without an address leads nowhere.
pub(crate) fn contacts(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    bindings: &[Binding],
    resolved: &[HopName],
) -> Result<Vec<Contact>, NoHop> {
    let mut none = NoHop::Refused(NO_CONTACT);
    let (mut contacts, mut instances) = (Vec::<Contact>::new(), Vec::new());
    for binding in bindings {
        if let Err(too_long) = check_room(arrival.message, binding.uri.len() + binding.path.len()) {
            none = too_long.into();
            continue;
        }
        // RFC 5630 §5.3: SIPS does not become SIP on its way.
        if arrival.is_sips && !is_sips(&binding.uri) {
            none = SIPS_NOT_ALLOWED.into();
            continue;
        }
        match way(step, arrival, binding).and_then(|hop| Ok(arrival.check_hop(hop).map(|()| hop)?)) {
            // What leads back to us goes in circles.
            Ok(hop) if step.edge.topology.ports.advertised_at(hop.remote()).is_some() => {}
            Ok(hop) => {
                let mut contact = contact(&step.edge.topology.ports, binding, hop);
                // RFC 5626 §7: one contact of an instance at a time. The one that was refreshed last comes first.
                let instance = binding.instance().filter(|_| hop.connection.is_some());
                let same = instances.iter().position(|known| instance.is_some() && *known == instance);
                if let Some(at) = same {
                    let spare = core::mem::take(&mut contact.spare);
                    contacts[at].spare.splice(0..0, core::iter::once(contact).chain(spare));
                } else {
                    contacts.push(contact);
                    instances.push(instance);
                }
            }
            // The first one is preferred.
            Err(NoHop::Unresolved(name))
                if matches!(none, NoHop::Refused(_)) && !resolved.contains(&name) =>
            {
                none = NoHop::Unresolved(name);
            }
            Err(_) => {}
        }
    }
    if contacts.is_empty() { Err(none) } else { Ok(contacts) }
}

/// The contact of a binding that is reached this way.
fn contact(ports: &Ports, binding: &Binding, hop: Flow) -> Contact {
    let (uri, path, q) = (binding.uri.clone(), binding.path.clone(), binding.q);
    let contact = Contact { uri, path, q, hop, spare: Vec::new() };
    let anew = hop.connection.and_then(|_| anew(ports, hop, &Target::of(&binding.uri)));
    let spare = anew.map(|hop| Contact { hop, ..contact.clone() });
    Contact { spare: spare.into_iter().collect(), ..contact }
}

/// The way to a client by a new connection, for when its own is gone: if its Contact is the address that it is at, so
/// that no NAT is in between (RFC 5626 §5.3.1 has no more than its own).
pub(crate) fn anew(ports: &Ports, by: Flow, target: &Target<'_>) -> Option<Flow> {
    let Target::Address(at) = *target else { return None };
    let is_there = at.transport == by.transport && target.is_at(by.peer);
    let is_open = matches!(at.transport, Transport::Tcp | Transport::Tls);
    ports.toward(by.listener, at).filter(|_| is_there && is_open)
}

/// The way to a contact: by its Path (RFC 3327 §5.4), else to where its REGISTER came from, else where it leads.
fn way(step: &mut Step<'_>, arrival: &Arrival<'_>, binding: &Binding) -> Result<Flow, NoHop> {
    let Edge { topology, names, now, .. } = &mut *step.edge;
    let flow = arrival.flow;
    let target = match NameAddr::parse(&binding.path).filter(|_| !binding.path.is_empty()) {
        Some(first) => Target::of(first.uri),
        None => match &binding.source {
            Some(source) => {
                // Only from the address that it was sent to does a NAT let anything back in.
                let asked = topology.ports.advertised_at(Peer::new(source.transport, source.local));
                let to = Peer::new(source.transport, source.peer);
                let way = topology.ports.toward(asked.unwrap_or(flow.listener), to).ok_or(NO_CONTACT)?;
                if source.connection.is_none() {
                    return Ok(way);
                }
                // By the connection of the REGISTER: nobody connects to a client behind a NAT (RFC 5626 §7). Another
                // process, which has the other end, is another address: its numbers say nothing here.
                let by = Flow { connection: source.connection, ..way };
                if asked.is_some() {
                    return Ok(by);
                }
                let anew = anew(&topology.ports, by, &Target::of(&binding.uri));
                return anew.ok_or(NO_CONTACT.into());
            }
            None => Target::of(&binding.uri),
        },
    };
    names.next_hop(*now, target, arrival.call, topology, flow.listener, step.out)
}

impl Edge {
    /// §16.6 steps 2 and 6: the Request-URI becomes the contact, and its Path the Route.
    pub(crate) fn edit_for_contact(
        &mut self,
        message: &Message<'_>,
        route: &RouteHeader<'_>,
        rule: Option<&Rule>,
        contact: &Contact,
    ) {
        route.edit(message, Some(&contact.uri), &mut self.edits, &mut self.scratch);
        if !contact.path.is_empty() {
            self.edits.add_header(message, "Route", &contact.path);
        }
        if let Some(rule) = rule {
            rule.actions.headers(message, &mut self.edits);
        }
    }
}
