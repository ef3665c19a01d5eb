//! Parts of a request that conditions test. Each is parsed when first needed.

use crate::field::{Key, Part, UriPlace};
use crate::header_names::HeaderNames;
use crate::tel::TelUri;
use base::Flow;
use core::cell::OnceCell;
use std::borrow::Cow;
use std::net::IpAddr;
use wire::{Host, Message, Method, NameAddr, SipUri};

/// A request that looks for its route.
#[derive(Clone, Copy)]
pub struct Query<'m> {
    /// The request, checked for form.
    pub message: &'m Message<'m>,
    /// Request-URI of the message, or the URI that a strict router moved to the end of Route (RFC 3261 §16.4).
    pub uri: &'m [u8],
    /// Ingress flow.
    pub flow: Flow,
    /// Whether a member of a pool sent it.
    pub from_member: bool,
    /// Whether the Request-URI is an address of this program, and so names no other destination. Read only if
    /// [`Table::asks_for_hosts`](crate::Table::asks_for_hosts).
    pub names_us: bool,
}

impl<'m> Query<'m> {
    /// Query with the Request-URI of the message.
    pub fn new(message: &'m Message<'m>, flow: Flow, from_member: bool) -> Self {
        Self { message, uri: message.uri().unwrap_or_default(), flow, from_member, names_us: false }
    }

    /// Method for routing: ACK and CANCEL take the path of their INVITE (RFC 3261 §9.1, §17.1.1.3).
    pub(crate) fn method(&self) -> Method {
        match self.message.method().unwrap_or(Method::Other) {
            Method::Ack | Method::Cancel => Method::Invite,
            method => method,
        }
    }

    /// IP address in the Request-URI, unless it is an address of this program.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        SipUri::parse(self.uri).ok()?.host.ip().filter(|_| !self.names_us)
    }

    /// Method as written.
    pub(crate) fn method_name(&self) -> &'m [u8] {
        match self.message.start() {
            wire::Start::Request { method_span, .. } => method_span.of(self.message.bytes()),
            wire::Start::Response { .. } => &[],
        }
    }
}

/// User and host of a URI, in the form that rules compare.
#[derive(Default)]
struct Parts<'m> {
    user: Option<Cow<'m, [u8]>>,
    host: Option<Cow<'m, [u8]>>,
}

impl<'m> Parts<'m> {
    fn of(uri: &'m [u8]) -> Self {
        if let Ok(parsed) = SipUri::parse(uri) {
            return Self { user: parsed.user.map(user_text), host: Some(host_text(uri, &parsed)) };
        }
        // RFC 3966: the number of a `tel` URI takes the place of the user.
        Self { user: TelUri::of(uri).map(|tel| tel.number().into()), host: None }
    }
}

/// The user up to its first parameter (RFC 3966 §3 as RFC 3261 §19.1.6 embeds it), with escapes decoded: `%2B44` is
/// `+44` (RFC 3261 §19.1.4). So another spelling does not evade a rule.
fn user_text(user: &[u8]) -> Cow<'_, [u8]> {
    let end = user.iter().position(|&byte| byte == b';').unwrap_or(user.len());
    let user = &user[..end];
    if user.contains(&b'%') { wire::unescape(user).collect::<Vec<_>>().into() } else { user.into() }
}

/// Host as rules compare it: a name without its final dot, an IPv4 address as it is, an IPv6 address in usual form
/// without brackets.
fn host_text<'m>(uri: &'m [u8], parsed: &SipUri<'m>) -> Cow<'m, [u8]> {
    match parsed.host {
        Host::Name(name) => name.strip_suffix(b".").unwrap_or(name).into(),
        Host::V4(_) => {
            // An IPv4 address has only one spelling. It follows the `@`, or without a user the scheme.
            let mark = if parsed.user.is_some() { b'@' } else { b':' };
            let start = uri.iter().position(|&byte| byte == mark).map_or(0, |at| at + 1);
            let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
            let length = uri[start..].iter().position(|byte| !is_part(byte)).unwrap_or(uri.len() - start);
            uri[start..start + length].into()
        }
        Host::V6(ip) => ip.to_canonical().to_string().into_bytes().into(),
    }
}

/// Reader of a request's parts; parses each part once.
pub(crate) struct Reader<'q, 'm> {
    pub(crate) query: &'q Query<'m>,
    /// Names of the header fields that the table tests.
    names: &'q HeaderNames,
    /// Parts of Request-URI, From and To.
    parts: [OnceCell<Parts<'m>>; 3],
    /// Values of the fields with one of the names, by index of the name.
    values: OnceCell<Vec<(u16, &'m [u8])>>,
}

impl<'q, 'm> Reader<'q, 'm> {
    pub(crate) fn new(query: &'q Query<'m>, names: &'q HeaderNames) -> Self {
        Self { query, names, parts: Default::default(), values: OnceCell::new() }
    }

    /// Whether some text of a field satisfies `test`. Only header fields have more than one text.
    pub(crate) fn any(&self, key: Key, mut test: impl FnMut(&[u8]) -> bool) -> bool {
        match key {
            Key::Uri(place, part) => {
                let parts = self.parts(place);
                let text = match part {
                    Part::User => &parts.user,
                    Part::Host => &parts.host,
                };
                text.as_deref().is_some_and(&mut test)
            }
            Key::Header(name) => self.values().iter().any(|&(index, value)| index == name && test(value)),
        }
    }

    fn parts(&self, place: UriPlace) -> &Parts<'m> {
        let message = self.query.message;
        self.parts[place as usize].get_or_init(|| match place {
            UriPlace::RequestUri => Parts::of(self.query.uri),
            UriPlace::From => {
                NameAddr::parse(message.from()).map_or_else(Parts::default, |from| Parts::of(from.uri))
            }
            UriPlace::To => NameAddr::parse(message.to()).map_or_else(Parts::default, |to| Parts::of(to.uri)),
        })
    }

    /// Values of the header fields that the table tests, by index of the name.
    pub(crate) fn values(&self) -> &[(u16, &'m [u8])] {
        self.values.get_or_init(|| {
            let fields = self.query.message.fields_beginning(|byte| self.names.is_beginning(byte));
            fields.filter_map(|(name, value)| Some((self.names.find(name)?, value))).collect()
        })
    }
}
