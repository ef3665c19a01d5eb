//! The registrar's decision about one REGISTER (RFC 3261 §10.3).

use crate::outbound::FlowId;
use crate::{Answer, Binding, Contact, Contacts, Record, Register, Source};
use base::{Transport, UnixTime};
use std::net::{IpAddr, SocketAddr};
use wire::{NameAddr, SipUri, same_uri};

/// An hour: who asks for as much is never told that it is too brief (RFC 3261 §10.3 step 7).
const HOUR: u32 = 3600;

/// What becomes of Path from a client that does not say that it knows it (RFC 3327 §5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathRule {
    /// 420, so that the client learns that somebody on the way has added it. The recommended policy.
    #[default]
    Refuse,
    /// It is stored all the same.
    Accept,
}

/// Where requests for a contact go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// To the address that its REGISTER came from, wherever the contact leads: clients behind a NAT are reached, and
    /// nobody has requests sent to somebody else. With a Path, to its first element, which has to be the sender.
    #[default]
    Source,
    /// Where the Path leads, or the contact. Whoever may register can have requests sent anywhere.
    Contact,
}

/// What a registrar goes by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Hosts whose addresses-of-record are kept here, small letters, with the port where it is not the usual one.
    pub domains: Vec<Box<[u8]>>,
    /// A realm whose users have the address-of-record of their name in each of the domains; any other realm counts
    /// for the domain of that name alone.
    pub shared_realm: Option<Box<[u8]>>,
    /// Shortest interval in seconds, at most an hour.
    pub expires_min: u32,
    /// The interval of contacts that ask for none.
    pub expires_default: u32,
    /// Longest interval; who asks for more gets this.
    pub expires_max: u32,
    /// Most bindings of an address-of-record, and most contacts of a request.
    pub contacts_max: usize,
    /// Most bytes of a record, at most 65,535.
    pub record_max: usize,
    /// Path from clients that do not know it.
    pub path: PathRule,
    /// Where requests for contacts go.
    pub reach: Reach,
}

impl Default for Settings {
    /// A minute to two hours, one hour if not asked; ten bindings in at most 16 KiB.
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

/// What becomes of a REGISTER.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Nothing changes; answer this.
    Answer(Answer),
    /// Put this record in the place of the one that was looked at, `None` for no bindings; once that is done, answer
    /// this.
    Replace(Option<Record>, Answer),
}

/// Decides about REGISTER requests.
#[derive(Clone, Debug)]
pub struct Registrar {
    settings: Settings,
}

impl Registrar {
    /// With these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// What it goes by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether bindings are kept for this Request-URI (§10.3 step 1). Others are forwarded as any request is.
    /// [10.3-3]
    pub fn serves(&self, request_uri: &[u8]) -> bool {
        crate::Aor::of(request_uri).is_some_and(|aor| self.has_domain(aor.host()))
    }

    fn has_domain(&self, host: &[u8]) -> bool {
        self.settings.domains.iter().any(|domain| **domain == *host)
    }

    /// Decides about a request, given the record of its address-of-record. Whatever the result, nothing has changed
    /// yet: a request is processed whole or not at all. [10.3-5]
    pub fn decide(&self, now: UnixTime, register: &Register, present: Option<&Record>) -> Decision {
        match self.settle(now, register, present) {
            Ok(decision) => decision,
            Err(answer) => Decision::Answer(answer),
        }
    }

    fn settle(
        &self,
        now: UnixTime,
        register: &Register,
        present: Option<&Record>,
    ) -> Result<Decision, Answer> {
        // [10.3-7] Step 5, before the user's right: whose domain is not ours, nobody here has a right to.
        if !self.has_domain(register.aor.host()) {
            return Err(Answer::bare(404, "Not Found"));
        }
        // [10.3-6] Step 4: a user has the right to the address-of-record of that name and domain.
        if !register.authorization.covers(&register.aor, self.settings.shared_realm.as_deref()) {
            return Err(Answer::bare(403, "Forbidden"));
        }
        let is_empty = present.is_none();
        let present: Vec<Binding> = present.map(Record::bindings).unwrap_or_default();
        let live: Vec<Binding> = present.into_iter().filter(|binding| binding.is_live(now)).collect();
        let bindings = match &register.contacts {
            // Step 6: without Contact, nothing changes. [10.3-10]
            Contacts::List(contacts) if contacts.is_empty() => {
                return Ok(Decision::Answer(success(now, register, &live)));
            }
            // Before any two are compared: the number of comparisons is bounded by the square of the limit.
            Contacts::List(contacts) if contacts.len() > self.settings.contacts_max => {
                return Err(Answer::bare(403, "Too Many Contacts"));
            }
            Contacts::List(contacts) => self.update(now, register, contacts, &live)?,
            Contacts::All => remove_all(register, &live)?,
        };
        // [10.3-17] What cannot be stored changes nothing.
        let record = Record::of(&bindings);
        let size = record.as_ref().map_or(0, |record| record.as_bytes().len());
        if bindings.len() > self.settings.contacts_max || size > self.settings.record_max.min(0xffff) {
            return Err(Answer::bare(403, "Too Many Contacts"));
        }
        if record.is_none() && !bindings.is_empty() {
            return Err(Answer::bare(403, "Contact Too Long"));
        }
        let answer = success(now, register, &bindings);
        // Nothing to remove, and nothing removed: no reason to write.
        if record.is_none() && is_empty {
            return Ok(Decision::Answer(answer));
        }
        Ok(Decision::Replace(record, answer))
    }

    /// Step 7: each contact in turn.
    fn update(
        &self,
        now: UnixTime,
        register: &Register,
        contacts: &[Contact],
        live: &[Binding],
    ) -> Result<Vec<Binding>, Answer> {
        // [5.3-3] RFC 3327 §5.3.
        if !register.path.is_empty() && !register.supports_path && self.settings.path == PathRule::Refuse {
            return Err(Answer::with(420, "Bad Extension", "Unsupported", b"path".to_vec()));
        }
        if self.settings.reach == Reach::Source && leads_elsewhere(&register.path, register.source.as_ref()) {
            return Err(Answer::bare(403, "Path Of Another Element"));
        }
        register.check_flows(contacts)?;
        let mut bindings = live.to_vec();
        for contact in contacts {
            let expires = self.interval(register, contact)?;
            // [10.3-14] By URI comparison, as RFC 3261 §19.1.4 has it. [6-6] A flow by what it is known by; its URI
            // finds what was bound without.
            let flow_id = register.flow_id(contact);
            let is_it = |known: &Binding| match (flow_id, FlowId::of(&known.params)) {
                (Some(ours), Some(known)) => ours == known,
                _ => same_uri(&known.uri, &contact.uri),
            };
            // Order is judged by what was there before: a contact that stands twice in one request is in order.
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

    /// [10.3-11] [10.3-12] The contact's own interval, else that of the request, else the default; not longer than
    /// the longest.
    fn interval(&self, register: &Register, contact: &Contact) -> Result<u32, Answer> {
        let requested = contact.expires.or(register.expires).unwrap_or(self.settings.expires_default);
        let shortest = self.settings.expires_min.min(HOUR);
        // [10.3-13] If and only if more than zero, less than an hour, and less than the minimum.
        if (1..shortest).contains(&requested) {
            let shortest = shortest.to_string().into_bytes();
            return Err(Answer::with(423, "Interval Too Brief", "Min-Expires", shortest));
        }
        Ok(requested.min(self.settings.expires_max))
    }

    /// [10.3-16] With the Call-ID and CSeq of the request.
    fn binding(&self, now: UnixTime, register: &Register, contact: &Contact, expires: u32) -> Binding {
        // Where a path leads to the client, its last element knows how to reach it.
        // [6-7] A connection is kept: that of a browser, to which nobody connects, and of whoever asks for it.
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

/// Whether a contact leads elsewhere than to its sender, as behind a NAT. A name may lead anywhere.
fn hides(contact: &[u8], peer: SocketAddr) -> bool {
    address(contact).is_none_or(|(ip, port)| ip != peer.ip().to_canonical() || port != peer.port())
}

/// Whether the first element of a path is another one than the sender. It may send from another port than it listens
/// on.
fn leads_elsewhere(path: &[u8], source: Option<&Source>) -> bool {
    if path.is_empty() {
        return false;
    }
    let first = NameAddr::parse(path).and_then(|first| address(first.uri));
    first.map(|(ip, _)| ip) != source.map(|source| source.peer.ip().to_canonical())
}

/// The address that a URI leads to; none for a name, and where `maddr` leads elsewhere.
pub(crate) fn address(uri: &[u8]) -> Option<(IpAddr, u16)> {
    let uri = SipUri::parse(uri).ok().filter(|uri| uri.param("maddr").is_none())?;
    Some((uri.host.ip()?.to_canonical(), uri.port.unwrap_or(5060)))
}

/// [10.3-15] The same Call-ID with a CSeq that is not higher.
fn is_out_of_order(register: &Register, known: &Binding) -> bool {
    known.call_id == register.call_id && register.cseq <= known.cseq
}

/// The update is aborted and the request fails.
fn out_of_order() -> Answer {
    Answer::bare(500, "CSeq Out of Order")
}

/// Step 6: `*` removes all, unless one of them is newer. [10.3-10]
fn remove_all(register: &Register, live: &[Binding]) -> Result<Vec<Binding>, Answer> {
    if live.iter().any(|known| is_out_of_order(register, known)) {
        Err(out_of_order())
    } else {
        Ok(Vec::new())
    }
}

/// [10.3-18] Step 8: 200 with all bindings and what is left of their intervals. [5.3-2] RFC 3327 §5.3: and with the
/// Path of the request.
fn success(now: UnixTime, register: &Register, bindings: &[Binding]) -> Answer {
    let mut answer = Answer::bare(200, "OK");
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
