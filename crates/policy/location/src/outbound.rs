//! Registrations of one user agent over several flows (RFC 5626 §6). Marks in brackets are the rules of
//! `docs/rfc/5626.md`.

use crate::{Answer, Contact, Register};
use wire::{NameAddr, SipUri};

/// What a binding is known by, in place of its URI: an instance and one of its registrations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowId<'a> {
    instance: &'a [u8],
    reg_id: &'a [u8],
}

impl<'a> FlowId<'a> {
    /// By the parameters of a contact. [6-3] `None`: it has no instance, or no `reg-id`.
    pub(crate) fn of(params: &'a [u8]) -> Option<Self> {
        let reg_id = param(params, b"reg-id")?;
        let is_number = !reg_id.is_empty() && reg_id.iter().all(u8::is_ascii_digit);
        Some(Self { instance: instance(params)?, reg_id }).filter(|_| is_number)
    }
}

/// The value of `+sip.instance` without its quotes.
pub(crate) fn instance(params: &[u8]) -> Option<&[u8]> {
    let quoted = param(params, b"+sip.instance")?;
    quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// The value of a parameter; each has a semicolon before it, and a value in quotes may have some of its own.
fn param<'a>(params: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut is_quoted = false;
    let parts = params.split(|&byte| {
        is_quoted ^= byte == b'"';
        byte == b';' && !is_quoted
    });
    parts.into_iter().find_map(|part| {
        let at = part.iter().position(|&byte| byte == b'=')?;
        part[..at].trim_ascii().eq_ignore_ascii_case(name).then(|| part[at + 1..].trim_ascii())
    })
}

impl Register {
    /// What a contact is known by; `None`: by its URI (RFC 3261 §10.3 step 7). [6-2] Where a proxy on the way does
    /// not support flows, `reg-id` is ignored.
    pub(crate) fn flow_id<'a>(&self, contact: &'a Contact) -> Option<FlowId<'a>> {
        FlowId::of(&contact.params).filter(|_| self.is_direct || self.has_edge())
    }

    /// Whether the first element of the path sends requests by the flow of the client.
    fn has_edge(&self) -> bool {
        let first = NameAddr::parse(&self.path).and_then(|first| SipUri::parse(first.uri).ok());
        first.is_some_and(|first| first.param("ob").is_some())
    }

    /// Whether the client is told that its flow is kept ([6-5]): it asks for that, and its flow is a connection, or
    /// another element keeps it. Over UDP it would have to be kept alive by STUN, which is not there.
    pub(crate) fn keeps_flow(&self, contacts: &[Contact]) -> bool {
        let has_flow = self.has_edge() || self.source.is_some_and(|source| source.connection.is_some());
        self.supports_outbound && has_flow && contacts.iter().any(|contact| self.flow_id(contact).is_some())
    }

    /// Checks what RFC 5626 §6 forbids.
    pub(crate) fn check_flows(&self, contacts: &[Contact]) -> Result<(), Answer> {
        let has_flow_id = |contact: &&Contact| FlowId::of(&contact.params).is_some();
        let added = contacts.iter().filter(|contact| contact.expires.or(self.expires) != Some(0));
        // [6-4]
        if added.clone().count() > 1 && added.clone().any(|contact| has_flow_id(&contact)) {
            return Err(Answer::bare(400, "One Contact With reg-id At A Time"));
        }
        // [6-1]
        let is_behind = !self.is_direct && !self.has_edge();
        if is_behind && self.supports_outbound && contacts.iter().any(|contact| has_flow_id(&contact)) {
            return Err(Answer::bare(439, "First Hop Lacks Outbound Support"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_known_by_instance_and_number() {
        let of = |text: &'static str| FlowId::of(text.as_bytes());
        let first = of(";+sip.instance=\"<urn:uuid:1;x>\";reg-id=1").expect("both are there");
        assert_eq!((first.instance, first.reg_id), (&b"<urn:uuid:1;x>"[..], &b"1"[..]));
        assert_eq!(of(";REG-ID = 1;+SIP.Instance = \"<urn:uuid:1;x>\""), Some(first));
        for none in ["", ";reg-id=1", ";+sip.instance=\"<urn:x>\"", ";+sip.instance=\"<urn:x>\";reg-id=a"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
