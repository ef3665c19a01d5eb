//! Content of one REGISTER.

use crate::{Aor, Authorization, RegistrarResponse, Source};
use wire::{ContactValue, Message, NameAddr};

/// Most contacts read from one request.
const CONTACTS_MAX: usize = 64;

/// Longest accepted contact URI, in bytes. Usual URIs have some hundred bytes.
const URI_MAX: usize = 1024;

/// Longest accepted Path, in bytes. Each call to the user contains it as Route.
const PATH_MAX: usize = 2048;

/// Most parameters of a contact URI. The comparison of two URIs takes as many steps as the product of their numbers of
/// parameters.
const PARAMS_MAX: usize = 32;

/// Contact to be added, refreshed or removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contact {
    /// Contact URI.
    pub uri: Box<[u8]>,
    /// Parameters without `q` and `expires`, each preceded by a semicolon.
    pub params: Box<[u8]>,
    /// Preference in thousandths.
    pub q: u16,
    /// Interval in seconds that the contact itself names.
    pub expires: Option<u32>,
}

/// Content of the Contact header fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contacts {
    /// `*` alone: remove all bindings.
    All,
    /// These contacts; an empty list queries the bindings.
    List(Vec<Contact>),
}

/// Purpose of a REGISTER.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Add or refresh bindings.
    Add,
    /// Remove some or all bindings, and add none.
    Remove,
    /// Query the bindings (RFC 3261 §10.2.3).
    Fetch,
}

/// A well-formed REGISTER.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    /// Address-of-record whose bindings it concerns.
    pub aor: Aor,
    /// Call-ID.
    pub call_id: Box<[u8]>,
    /// CSeq number.
    pub cseq: u32,
    /// Contacts.
    pub contacts: Contacts,
    /// Interval in seconds for contacts that name no interval.
    pub expires: Option<u32>,
    /// Values of Path, joined by commas.
    pub path: Box<[u8]>,
    /// Whether the client supports Path.
    pub supports_path: bool,
    /// Whether the client supports flows (RFC 5626).
    pub supports_outbound: bool,
    /// Whether it came directly from the client, according to its Via.
    pub is_direct: bool,
    /// Source of the request.
    pub source: Option<Source>,
    /// Authenticated sender.
    pub authorization: Authorization,
}

impl Register {
    /// Returns the removal of one contact, or of all contacts, by an operator. It is a REGISTER with a Call-ID that no
    /// client uses, so that no client's CSeq prevents it.
    pub fn removal(aor: Aor, contact: Option<&[u8]>) -> Self {
        let removed = |uri: &[u8]| {
            let (uri, params) = (uri.into(), Box::default());
            Contacts::List(vec![Contact { uri, params, q: 0, expires: Some(0) }])
        };
        Self {
            aor,
            call_id: Box::default(),
            cseq: 0,
            contacts: contact.map_or(Contacts::All, removed),
            expires: Some(0),
            path: Box::default(),
            supports_path: false,
            supports_outbound: false,
            is_direct: true,
            source: None,
            authorization: Authorization::Open,
        }
    }

    /// Purpose.
    pub fn purpose(&self) -> Purpose {
        match &self.contacts {
            Contacts::All => Purpose::Remove,
            Contacts::List(contacts) if contacts.is_empty() => Purpose::Fetch,
            Contacts::List(contacts) => {
                let is_removed = |contact: &Contact| contact.expires.or(self.expires) == Some(0);
                if contacts.iter().all(is_removed) { Purpose::Remove } else { Purpose::Add }
            }
        }
    }

    /// Reads a well-formed REGISTER; the error is the response to send. Ignores Record-Route. [10.3-2]
    pub fn read(
        message: &Message<'_>,
        source: Option<Source>,
        authorization: Authorization,
    ) -> Result<Self, RegistrarResponse> {
        required(message)?;
        let to = NameAddr::parse(message.to()).ok_or_else(|| RegistrarResponse::bare(400, "Bad To"))?;
        // A URI of another scheme has no bindings here.
        let aor = Aor::of(to.uri).ok_or_else(|| RegistrarResponse::bare(404, "Not Found"))?;
        let mut path = Vec::new();
        for value in message.path() {
            // [5.3-1] In the order of the fields and of their values.
            let value = value.map_err(|_| RegistrarResponse::bare(400, "Bad Path"))?;
            if !path.is_empty() {
                path.push(b',');
            }
            // A line fold becomes a space.
            path.extend(value.iter().map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }));
        }
        if path.len() > PATH_MAX {
            return Err(RegistrarResponse::bare(400, "Path Too Long"));
        }
        Ok(Self {
            aor,
            call_id: message.call_id().into(),
            cseq: message.cseq().number,
            contacts: contacts(message)?,
            expires: message.expires(),
            path: path.into(),
            supports_path: message.option_tags("Supported").any(is_path),
            supports_outbound: message.option_tags("Supported").any(is_outbound),
            is_direct: !message.has_lower_vias(),
            source,
            authorization,
        })
    }
}

fn is_path(tag: &[u8]) -> bool {
    tag.eq_ignore_ascii_case(b"path")
}

fn is_outbound(tag: &[u8]) -> bool {
    tag.eq_ignore_ascii_case(b"outbound")
}

/// [10.3-4] §8.2.2.3: required option tags that are not supported are listed in Unsupported.
fn required(message: &Message<'_>) -> Result<(), RegistrarResponse> {
    let unknown: Vec<_> = message.option_tags("Require").filter(|tag| !is_path(tag)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    // Line ends are removed, so the value stays on one line.
    let tags = unknown.join(&b", "[..]).into_iter().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    Err(RegistrarResponse::with(420, "Bad Extension", "Unsupported", tags))
}

fn contacts(message: &Message<'_>) -> Result<Contacts, RegistrarResponse> {
    let mut list = Vec::new();
    let mut star = false;
    for value in message.contacts() {
        match value.map_err(|_| RegistrarResponse::bare(400, "Bad Contact"))? {
            ContactValue::Star => star = true,
            ContactValue::Address(address) => {
                // Counts each semicolon as the start of a parameter. A semicolon in the user part, which is rare, is
                // counted as well.
                let params = address.uri.split(|&b| b == b';').skip(1);
                if address.uri.len() > URI_MAX || params.count() > PARAMS_MAX {
                    return Err(RegistrarResponse::bare(403, "Contact Too Long"));
                }
                let params: Vec<u8> = address
                    .other_params()
                    .flat_map(|param| b";".iter().chain(param))
                    .map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b })
                    .collect();
                list.push(Contact {
                    uri: address.uri.into(),
                    params: params.into(),
                    q: address.q,
                    expires: address.expires,
                });
            }
        }
        if list.len() > CONTACTS_MAX {
            return Err(RegistrarResponse::bare(400, "Too Many Contacts"));
        }
    }
    if !star {
        return Ok(Contacts::List(list));
    }
    // [10.3-9] `*` with other contacts, or with an interval other than 0, is invalid.
    let is_alone = list.is_empty() && message.contacts().count() == 1;
    if !is_alone || message.expires() != Some(0) {
        return Err(RegistrarResponse::bare(400, "Contact * Needs Expires 0 and No Other Contact"));
    }
    Ok(Contacts::All)
}
