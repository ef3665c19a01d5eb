//! The contacts of an address-of-record, as the targets of a request (RFC 3261 §16.5).

use crate::arrival::Arrival;
use crate::edge::Edge;
use crate::hop_name::HopName;
use crate::names::NoHop;
use crate::rejection::{Refused, refused};
use crate::route_header::RouteHeader;
use crate::step::Step;
use crate::target::Target;
use crate::validate::check_room;
use base::{Flow, Peer};
use location::{Aor, Binding};
use route::Rule;
use wire::{Message, NameAddr};

/// [16.5] A user without a contact is not there now. A user who does not exist is not told apart from that.
pub(crate) const NO_CONTACT: Refused = refused(480, "Temporarily Unavailable");

/// A contact of an address-of-record.
pub(crate) struct Contact {
    /// What the Request-URI becomes (§16.6 step 2).
    pub(crate) uri: Box<[u8]>,
    /// The route set that is put before it (RFC 3327 §5.4); empty for none.
    pub(crate) path: Box<[u8]>,
    /// Preference in thousandths.
    pub(crate) q: u16,
    /// The way there.
    pub(crate) hop: Flow,
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
    let mut contacts = Vec::new();
    for binding in bindings {
        if let Err(too_long) = check_room(arrival.message, binding.uri.len() + binding.path.len()) {
            none = too_long.into();
            continue;
        }
        match way(step, arrival, binding) {
            // What leads back to us goes in circles.
            Ok(hop) if step.edge.topology.ports.advertised_at(hop.remote()).is_some() => {}
            Ok(hop) => {
                let (uri, path) = (binding.uri.clone(), binding.path.clone());
                contacts.push(Contact { uri, path, q: binding.q, hop });
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
                let way = topology.ports.toward(asked.unwrap_or(flow.listener), to);
                // By the connection of the REGISTER: nobody connects to a client behind a NAT (RFC 5626 §7).
                let way = way.map(|way| Flow { connection: source.connection, ..way });
                return way.ok_or(NO_CONTACT.into());
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
