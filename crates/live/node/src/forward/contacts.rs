//! The contacts of an address-of-record, as the targets of a request (RFC 3261 §16.5).

use crate::address::contact::Contact;
use crate::address::hop_name::HopName;
use crate::address::ports::Ports;
use crate::address::target::Target;
use crate::message::validate::{SIPS_NOT_ALLOWED, check_room, is_sips};
use crate::outcome::rejection::{Refused, refused};
use crate::read::arrival::Arrival;
use crate::site::Site;
use crate::site::edit::{is_trusted, rewrite};
use crate::site::names::NoHop;
use crate::step::Step;
use base::{Flow, Peer, Transport};
use location::{Aor, Binding};
use wire::NameAddr;

/// [16.5] Refusal for a user without a contact. An unknown user gets the same response.
pub(crate) const NO_CONTACT: Refused = refused(480, "Temporarily Unavailable");

/// Returns the user to whose contacts a request of this rule goes.
pub(crate) fn sought(site: &Site, rule: Option<usize>, arrival: &Arrival<'_>) -> Result<Aor, Refused> {
    let Arrival { flow, message, route, .. } = arrival;
    // [16.5] A request whose Route leads to another element is not for the location service.
    if route.next.is_some() {
        return Err(refused(403, "Forbidden"));
    }
    let received = route.uri(message);
    let rewritten = rule.and_then(|rule| rewrite(site, site.routes.rule(rule), received, flow.listener));
    Aor::of(rewritten.as_deref().unwrap_or(received)).ok_or(refused(404, "Not Found"))
}

/// Returns the reachable contacts in the order of tries. `resolved` are the names whose look-up has ended. A contact
/// whose name has no address is left out.
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
        // RFC 5630 §5.3: a SIPS request must not become a SIP request on its way.
        if arrival.is_sips && !is_sips(&binding.uri) {
            none = SIPS_NOT_ALLOWED.into();
            continue;
        }
        match way(step, arrival, binding).and_then(|hop| Ok(arrival.check_hop(hop).map(|()| hop)?)) {
            // A request to a contact at this proxy would loop.
            Ok(hop) if step.site.topology.ports.is_own(hop.remote()) => {}
            Ok(hop) => {
                let mut contact = contact(step.site, binding, hop);
                // RFC 5626 §7: one contact of an instance at a time, the most recently refreshed first.
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
            // The first unresolved name is preferred.
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

/// Returns the contact of a binding with this hop.
fn contact(site: &Site, binding: &Binding, hop: Flow) -> Contact {
    let (uri, path, q) = (binding.uri.clone(), binding.path.clone(), binding.q);
    let by_udp = binding.source.is_some_and(|source| source.transport == Transport::Udp);
    let is_registered = by_udp && path.is_empty() && !is_trusted(site, hop);
    let contact = Contact { uri, path, q, hop, is_registered, spare: Vec::new() };
    let anew = hop.connection.and_then(|_| anew(&site.topology.ports, hop, &Target::of(&binding.uri)));
    let spare = anew.map(|hop| Contact { hop, ..contact.clone() });
    Contact { spare: spare.into_iter().collect(), ..contact }
}

/// Returns a flow to a client by a new connection, used when the client's own connection is closed. The Contact must be
/// the client's address, so that no NAT is in between (RFC 5626 §5.3.1 provides only the client's connection).
pub(crate) fn anew(ports: &Ports, by: Flow, target: &Target<'_>) -> Option<Flow> {
    let Target::Address(at) = *target else { return None };
    let is_there = at.transport == by.transport && target.is_at(by.peer);
    let is_open = matches!(at.transport, Transport::Tcp | Transport::Tls);
    ports.toward(by.listener, at).filter(|_| is_there && is_open)
}

/// Returns the next hop of a contact: by its Path (RFC 3327 §5.4); without one, the source of its REGISTER or its URI.
fn way(step: &mut Step<'_>, arrival: &Arrival<'_>, binding: &Binding) -> Result<Flow, NoHop> {
    let Site { topology, names, now, .. } = &mut *step.site;
    let flow = arrival.flow;
    let first = NameAddr::parse(&binding.path).filter(|_| !binding.path.is_empty());
    let target = match (first, &binding.source) {
        (Some(first), _) => Target::of(first.uri),
        (None, None) => Target::of(&binding.uri),
        (None, Some(source)) => {
            // A NAT lets packets in only from the address that the REGISTER was sent to.
            let asked = topology.ports.advertised_at(Peer::new(source.transport, source.local));
            let to = Peer::new(source.transport, source.peer);
            let way = topology.ports.toward(asked.unwrap_or(flow.listener), to).ok_or(NO_CONTACT)?;
            // Uses the connection of the REGISTER, since a client behind a NAT accepts no connections (RFC 5626 §7).
            // With another local address the connection belongs to another process, whose connection numbers mean
            // nothing here.
            let by = Flow { connection: source.connection, ..way };
            if source.connection.is_none() || asked.is_some() {
                return Ok(by);
            }
            let anew = anew(&topology.ports, by, &Target::of(&binding.uri));
            return anew.ok_or(NO_CONTACT.into());
        }
    };
    names.next_hop(*now, target, arrival.call, topology, flow.listener, step.out)
}
