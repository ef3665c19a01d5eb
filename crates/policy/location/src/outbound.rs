//! Registrations of one user agent over several flows (RFC 5626 §6). Marks in brackets are the rules of
//! `docs/evidence/rfc/5626.md`.

use crate::{Contact, Register, RegistrarResponse};
use wire::{NameAddr, SipUri};

/// Identity of a binding in place of its URI: an instance, and the number of its registration (`reg-id`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowId<'a> {
    instance: &'a [u8],
    reg_id: &'a [u8],
}

impl<'a> FlowId<'a> {
    /// Identity from the parameters of a contact. [6-3] `None` without an instance or `reg-id`.
    pub(crate) fn of(params: &'a [u8]) -> Option<Self> {
        let reg_id = param(params, b"reg-id")?;
        let is_number = !reg_id.is_empty() && reg_id.iter().all(u8::is_ascii_digit);
        Some(Self { instance: instance(params)?, reg_id }).filter(|_| is_number)
    }
}

/// Value of `+sip.instance` without quotes.
pub(crate) fn instance(params: &[u8]) -> Option<&[u8]> {
    let quoted = param(params, b"+sip.instance")?;
    quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Value of a parameter. Each parameter is preceded by a semicolon; a quoted value may contain semicolons.
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
    /// Identity of a contact; `None` if its URI identifies it (RFC 3261 §10.3 step 7). [6-2] If a proxy on the path
    /// does not support flows, `reg-id` is ignored.
    pub(crate) fn flow_id<'a>(&self, contact: &'a Contact) -> Option<FlowId<'a>> {
        FlowId::of(&contact.params).filter(|_| self.is_direct || self.has_edge())
    }

    /// Whether the first element of the path sends requests over the client's flow.
    fn has_edge(&self) -> bool {
        let first = NameAddr::parse(&self.path).and_then(|first| SipUri::parse(first.uri).ok());
        first.is_some_and(|first| first.param("ob").is_some())
    }

    /// Whether the response confirms that the flow is kept ([6-5]). The client must ask for it, and its flow must be a
    /// connection or be kept by another element. A UDP flow would need STUN keep-alives, which are not implemented.
    pub(crate) fn keeps_flow(&self, contacts: &[Contact]) -> bool {
        let has_flow = self.has_edge() || self.source.is_some_and(|source| source.connection.is_some());
        self.supports_outbound && has_flow && contacts.iter().any(|contact| self.flow_id(contact).is_some())
    }

    /// Checks the restrictions of RFC 5626 §6.
    pub(crate) fn check_flows(&self, contacts: &[Contact]) -> Result<(), RegistrarResponse> {
        let has_flow_id = |contact: &&Contact| FlowId::of(&contact.params).is_some();
        let added = contacts.iter().filter(|contact| contact.expires.or(self.expires) != Some(0));
        // [6-4]
        if added.clone().count() > 1 && added.clone().any(|contact| has_flow_id(&contact)) {
            return Err(RegistrarResponse::bare(400, "One Contact With reg-id At A Time"));
        }
        // [6-1]
        let is_behind = !self.is_direct && !self.has_edge();
        if is_behind && self.supports_outbound && contacts.iter().any(|contact| has_flow_id(&contact)) {
            return Err(RegistrarResponse::bare(439, "First Hop Lacks Outbound Support"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_identified_by_instance_and_reg_id() {
        let of = |text: &'static str| FlowId::of(text.as_bytes());
        let first = of(";+sip.instance=\"<urn:uuid:1;x>\";reg-id=1").expect("both are there");
        assert_eq!((first.instance, first.reg_id), (&b"<urn:uuid:1;x>"[..], &b"1"[..]));
        assert_eq!(of(";REG-ID = 1;+SIP.Instance = \"<urn:uuid:1;x>\""), Some(first));
        for none in ["", ";reg-id=1", ";+sip.instance=\"<urn:x>\"", ";+sip.instance=\"<urn:x>\";reg-id=a"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
