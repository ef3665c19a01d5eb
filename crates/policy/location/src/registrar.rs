//! Decision of the registrar about one REGISTER (RFC 3261 §10.3).

use crate::outbound::FlowId;
use crate::{Binding, BindingsRecord, Contact, Contacts, Register, RegistrarResponse, Source};
use base::{Transport, UnixTime};
use std::net::{IpAddr, SocketAddr};
use wire::{NameAddr, SipUri, same_uri};

/// An hour: an interval this long is never rejected as too brief (RFC 3261 §10.3 step 7).
const HOUR: u32 = 3600;

/// Handling of Path from a client that does not announce support for it (RFC 3327 §5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathRule {
    /// Refuse with 420, so that the client learns that an element on the path has added a Path. This is the recommended
    /// policy.
    #[default]
    Refuse,
    /// Store the Path nevertheless.
    Accept,
}

/// Destination of requests for a contact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// The source address of the contact's REGISTER, whatever the contact URI is. This reaches clients behind a NAT,
    /// and a user cannot have requests sent to other hosts. With a Path, it is the first element of the Path, which
    /// must be the sender.
    #[default]
    Source,
    /// The Path, or the contact URI. Any registered user can have requests sent to any address.
    Contact,
}

/// Settings of a registrar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistrationSettings {
    /// Hosts of the addresses-of-record kept here, in lower case, with the port if it is not the default.
    pub domains: Vec<Box<[u8]>>,
    /// Realm whose users own the address-of-record of their name in each of the domains. Any other realm is valid only
    /// for the domain with the realm's name.
    pub shared_realm: Option<Box<[u8]>>,
    /// Shortest interval in seconds, at most an hour.
    pub expires_min: u32,
    /// Interval of contacts that request none, in seconds.
    pub expires_default: u32,
    /// Longest interval in seconds. A longer interval is reduced to this one.
    pub expires_max: u32,
    /// Most bindings of an address-of-record, and most contacts of a request.
    pub contacts_max: usize,
    /// Most bytes of a record, at most 65,535.
    pub record_max: usize,
    /// Handling of Path from clients that do not support it.
    pub path: PathRule,
    /// Destination of requests for contacts.
    pub reach: Reach,
}

impl Default for RegistrationSettings {
    /// Intervals from one minute to two hours, one hour by default; ten bindings in at most 16 KiB.
    fn default() -> Self {
        Self {
            domains: Vec::new(),
            shared_realm: None,
            expires_min: 60,
            expires_default: HOUR,
            expires_max: 2 * HOUR,
            contacts_max: 10,
            record_max: 16 << 10,
            path: PathRule::default(),
            reach: Reach::default(),
        }
    }
}

/// Result of a REGISTER.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistrarDecision {
    /// No change; send this response.
    Answer(RegistrarResponse),
    /// Replace the record that was read by this one (`None` for no bindings), and then send this response.
    Replace(Option<BindingsRecord>, RegistrarResponse),
}

/// Decides about REGISTER requests.
#[derive(Clone, Debug)]
pub struct Registrar {
    settings: RegistrationSettings,
}

impl Registrar {
    /// Creates a registrar.
    pub fn new(settings: RegistrationSettings) -> Self {
        Self { settings }
    }

    /// Settings.
    pub fn settings(&self) -> &RegistrationSettings {
        &self.settings
    }

    /// Whether bindings are kept for this Request-URI (§10.3 step 1). REGISTER requests for other URIs are forwarded
    /// like any request. [10.3-3]
    pub fn serves(&self, request_uri: &[u8]) -> bool {
        crate::Aor::of(request_uri).is_some_and(|aor| self.has_domain(aor.host()))
    }

    fn has_domain(&self, host: &[u8]) -> bool {
        self.settings.domains.iter().any(|domain| **domain == *host)
    }

    /// Decides about a request, given the present record of its address-of-record. Changes nothing itself: a request is
    /// processed completely or not at all. [10.3-5]
    pub fn decide(
        &self,
        now: UnixTime,
        register: &Register,
        present: Option<&BindingsRecord>,
    ) -> RegistrarDecision {
        match self.settle(now, register, present) {
            Ok(decision) => decision,
            Err(answer) => RegistrarDecision::Answer(answer),
        }
    }

    fn settle(
        &self,
        now: UnixTime,
        register: &Register,
        present: Option<&BindingsRecord>,
    ) -> Result<RegistrarDecision, RegistrarResponse> {
        // [10.3-7] Step 5, before authorization: no user here has a right to another domain.
        if !self.has_domain(register.aor.host()) {
            return Err(RegistrarResponse::bare(404, "Not Found"));
        }
        // [10.3-6] Step 4: a user owns the address-of-record of that name and domain.
        if !register.authorization.covers(&register.aor, self.settings.shared_realm.as_deref()) {
            return Err(RegistrarResponse::bare(403, "Forbidden"));
        }
        let is_empty = present.is_none();
        let present: Vec<Binding> = present.map(BindingsRecord::bindings).unwrap_or_default();
        let live: Vec<Binding> = present.into_iter().filter(|binding| binding.is_live(now)).collect();
        let bindings = match &register.contacts {
            // Step 6: without Contact, nothing changes. [10.3-10]
            Contacts::List(contacts) if contacts.is_empty() => {
                return Ok(RegistrarDecision::Answer(success(now, register, &live)));
            }
            // Checked before any comparison, so that the number of comparisons is at most the square of the limit.
            Contacts::List(contacts) if contacts.len() > self.settings.contacts_max => {
                return Err(RegistrarResponse::bare(403, "Too Many Contacts"));
            }
            Contacts::List(contacts) => self.update(now, register, contacts, &live)?,
            Contacts::All => remove_all(register, &live)?,
        };
        // [10.3-17] If the result cannot be stored, nothing changes.
        let record = BindingsRecord::of(&bindings);
        let size = record.as_ref().map_or(0, |record| record.as_bytes().len());
        if bindings.len() > self.settings.contacts_max || size > self.settings.record_max.min(0xffff) {
            return Err(RegistrarResponse::bare(403, "Too Many Contacts"));
        }
        if record.is_none() && !bindings.is_empty() {
            return Err(RegistrarResponse::bare(403, "Contact Too Long"));
        }
        let answer = success(now, register, &bindings);
        // There was no record before and there is none now, so no write is needed.
        if record.is_none() && is_empty {
            return Ok(RegistrarDecision::Answer(answer));
        }
        Ok(RegistrarDecision::Replace(record, answer))
    }

    /// Step 7: processes each contact in turn.
    fn update(
        &self,
        now: UnixTime,
        register: &Register,
        contacts: &[Contact],
        live: &[Binding],
    ) -> Result<Vec<Binding>, RegistrarResponse> {
        // [5.3-3] RFC 3327 §5.3.
        if !register.path.is_empty() && !register.supports_path && self.settings.path == PathRule::Refuse {
            return Err(RegistrarResponse::with(420, "Bad Extension", "Unsupported", b"path".to_vec()));
        }
        if self.settings.reach == Reach::Source && leads_elsewhere(&register.path, register.source.as_ref()) {
            return Err(RegistrarResponse::bare(403, "Path Of Another Element"));
        }
        register.check_flows(contacts)?;
        let mut bindings = live.to_vec();
        for contact in contacts {
            let expires = self.interval(register, contact)?;
            // [10.3-14] Compares by the rules of RFC 3261 §19.1.4. [6-6] A binding with a flow identity is found by
            // this identity, a binding without one by its URI.
            let flow_id = register.flow_id(contact);
            let is_it = |known: &Binding| match (flow_id, FlowId::of(&known.params)) {
                (Some(ours), Some(known)) => ours == known,
                _ => same_uri(&known.uri, &contact.uri),
            };
            // The order is checked against the previous bindings, so that a contact may appear twice in one request.
            if live.iter().any(|known| is_out_of_order(register, known) && is_it(known)) {
                return Err(out_of_order());
            }
            bindings.retain(|known| !is_it(known));
            if expires > 0 {
                bindings.push(self.binding(now, register, contact, expires));
            }
        }
        Ok(bindings)
    }

    /// [10.3-11] [10.3-12] Interval of the contact. If it has none, the interval of the request; without one, the
    /// default. Limited to the longest interval.
    fn interval(&self, register: &Register, contact: &Contact) -> Result<u32, RegistrarResponse> {
        let requested = contact.expires.or(register.expires).unwrap_or(self.settings.expires_default);
        let shortest = self.settings.expires_min.min(HOUR);
        // [10.3-13] An interval is refused only if it is more than zero, less than an hour, and less than the minimum.
        if (1..shortest).contains(&requested) {
            let shortest = shortest.to_string().into_bytes();
            return Err(RegistrarResponse::with(423, "Interval Too Brief", "Min-Expires", shortest));
        }
        Ok(requested.min(self.settings.expires_max))
    }

    /// [10.3-16] Binding with the Call-ID and CSeq of the request.
    fn binding(&self, now: UnixTime, register: &Register, contact: &Contact, expires: u32) -> Binding {
        // With a path, its last element knows how to reach the client. [6-7] A connection is kept if the client is a
        // browser, which accepts no connections, or if the client asks for it.
        let is_hidden = |source: &Source| {
            let is_sought = match self.settings.reach {
                Reach::Source => source.connection.is_some() || hides(&contact.uri, source.peer),
                Reach::Contact => {
                    let is_browser = matches!(source.transport, Transport::Ws | Transport::Wss);
                    let is_flow = source.connection.is_some() && register.flow_id(contact).is_some();
                    is_browser || (is_flow && register.supports_outbound)
                }
            };
            is_sought && register.path.is_empty()
        };
        Binding {
            uri: contact.uri.clone(),
            params: contact.params.clone(),
            q: contact.q,
            updated: now,
            expires,
            call_id: register.call_id.clone(),
            cseq: register.cseq,
            // [5.3-1] RFC 3327 §5.3: the path vector is stored with the contact.
            path: register.path.clone(),
            source: register.source.filter(is_hidden),
        }
    }
}

/// Whether the contact differs from the sender's address, for example behind a NAT. True for a host name.
fn hides(contact: &[u8], peer: SocketAddr) -> bool {
    address(contact).is_none_or(|(ip, port)| ip != peer.ip().to_canonical() || port != peer.port())
}

/// Whether the first element of a path is not the sender. Ports are ignored, since an element may send from another
/// port than the one on which it listens.
fn leads_elsewhere(path: &[u8], source: Option<&Source>) -> bool {
    if path.is_empty() {
        return false;
    }
    let first = NameAddr::parse(path).and_then(|first| address(first.uri));
    first.map(|(ip, _)| ip) != source.map(|source| source.peer.ip().to_canonical())
}

/// IP address and port of a URI; `None` for a host name or with `maddr`.
pub(crate) fn address(uri: &[u8]) -> Option<(IpAddr, u16)> {
    let uri = SipUri::parse(uri).ok().filter(|uri| uri.param("maddr").is_none())?;
    Some((uri.host.ip()?.to_canonical(), uri.port.unwrap_or(5060)))
}

/// [10.3-15] Whether the Call-ID is the same and the CSeq is not higher.
fn is_out_of_order(register: &Register, known: &Binding) -> bool {
    known.call_id == register.call_id && register.cseq <= known.cseq
}

/// Response when the update is aborted and the request fails.
fn out_of_order() -> RegistrarResponse {
    RegistrarResponse::bare(500, "CSeq Out of Order")
}

/// Step 6: `*` removes all bindings, unless one of them is newer. [10.3-10]
fn remove_all(register: &Register, live: &[Binding]) -> Result<Vec<Binding>, RegistrarResponse> {
    if live.iter().any(|known| is_out_of_order(register, known)) {
        Err(out_of_order())
    } else {
        Ok(Vec::new())
    }
}

/// [10.3-18] Step 8: 200 with all bindings and their remaining intervals. [5.3-2] RFC 3327 §5.3: also with the Path of
/// the request.
fn success(now: UnixTime, register: &Register, bindings: &[Binding]) -> RegistrarResponse {
    let mut answer = RegistrarResponse::bare(200, "OK");
    for binding in bindings {
        let mut value = b"<".to_vec();
        value.extend_from_slice(&binding.uri);
        value.push(b'>');
        if binding.q < 1000 {
            value.extend_from_slice(format!(";q=0.{:03}", binding.q).as_bytes());
        }
        value.extend_from_slice(format!(";expires={}", binding.remaining_secs(now)).as_bytes());
        value.extend_from_slice(&binding.params);
        answer.headers.push(("Contact", value));
    }
    if !register.path.is_empty() {
        answer.headers.push(("Path", register.path.to_vec()));
    }
    if let Contacts::List(contacts) = &register.contacts
        && register.keeps_flow(contacts)
    {
        answer.headers.push(("Require", b"outbound".to_vec()));
    }
    answer.headers.push(("Date", now.to_string().into_bytes()));
    answer
}
