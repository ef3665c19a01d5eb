//! Addresses-of-record in canonical form.

use wire::{Host, Scheme, SipUri, unescape};

/// Address-of-record, the key of its bindings: `sip:user@host`.
///
/// [10.3-8] RFC 3261 §10.3 step 5: without URI parameters, escapes decoded. In addition, URIs that are equal by §19.1.4
/// get one form. Scheme and host name are in lower case without a final dot, IP addresses in the form that Rust prints.
/// The port is kept only if it differs from the default of the scheme. Password and headers are left out. The user part
/// keeps its case.
///
/// Use the value as a key only. Decoded escapes may be any bytes, so it must not be written into a message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Aor(Box<[u8]>);

impl Aor {
    /// Address-of-record of a URI; `None` if it is not a SIP or SIPS URI.
    pub fn of(uri: &[u8]) -> Option<Self> {
        let uri = SipUri::parse(uri).ok()?;
        let (scheme, default_port) = match uri.scheme {
            Scheme::Sip => (&b"sip:"[..], 5060),
            Scheme::Sips => (&b"sips:"[..], 5061),
        };
        let mut text = scheme.to_vec();
        if let Some(user) = uri.user {
            text.extend(unescape(user));
            text.push(b'@');
        }
        push_host(&uri.host, &mut text);
        if let Some(port) = uri.port.filter(|port| *port != default_port) {
            text.extend_from_slice(format!(":{port}").as_bytes());
        }
        Some(Self(text.into()))
    }

    /// Restores the value from its [`key`](Self::key), as a store keeps it.
    pub fn from_key(key: &[u8]) -> Self {
        Self(key.into())
    }

    /// Canonical form.
    pub fn key(&self) -> &[u8] {
        &self.0
    }

    /// User part without escapes; empty if there is none. A host contains no `@`, so the last `@` ends the user part.
    pub fn user(&self) -> &[u8] {
        let rest = self.bare();
        rest.iter().rposition(|&b| b == b'@').map_or(&[], |at| &rest[..at])
    }

    /// Host, with its port if this is not the default.
    pub fn host(&self) -> &[u8] {
        let rest = self.bare();
        rest.iter().rposition(|&b| b == b'@').map_or(rest, |at| &rest[at + 1..])
    }

    /// Canonical form without the scheme: `user@host`.
    pub fn bare(&self) -> &[u8] {
        let colon = self.0.iter().position(|&b| b == b':').map_or(0, |at| at + 1);
        &self.0[colon..]
    }
}

/// Appends a host in canonical form.
pub(crate) fn push_host(host: &Host<'_>, out: &mut Vec<u8>) {
    match host {
        Host::Name(name) => {
            out.extend(name.strip_suffix(b".").unwrap_or(name).iter().map(u8::to_ascii_lowercase));
        }
        Host::V4(address) => out.extend_from_slice(address.to_string().as_bytes()),
        Host::V6(address) => out.extend_from_slice(format!("[{address}]").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [10.3-8]
    #[test]
    fn canonical_forms() {
        let cases = [
            ("sip:alice@example.com", "sip:alice@example.com"),
            ("SIP:alice@Example.COM.:5060;user=phone;transport=tcp?subject=x", "sip:alice@example.com"),
            ("sip:%61lice:secret@example.com", "sip:alice@example.com"),
            ("sip:Alice@example.com", "sip:Alice@example.com"),
            ("sip:alice@example.com:5061", "sip:alice@example.com:5061"),
            ("sips:alice@example.com:5061", "sips:alice@example.com"),
            ("sip:a%40b@[2001:DB8:0::1]", "sip:a@b@[2001:db8::1]"),
            ("sip:example.com", "sip:example.com"),
        ];
        for (uri, key) in cases {
            assert_eq!(Aor::of(uri.as_bytes()).unwrap().key(), key.as_bytes(), "{uri}");
        }
        for bad in ["", "tel:+1", "alice@example.com", "sip:@x"] {
            assert_eq!(Aor::of(bad.as_bytes()), None);
        }
    }

    #[test]
    fn parts() {
        let aor = Aor::of(b"sip:a%40b@[::1]:5070").unwrap();
        assert_eq!((aor.user(), aor.host()), (&b"a@b"[..], &b"[::1]:5070"[..]));
        let aor = Aor::of(b"sips:h").unwrap();
        assert_eq!((aor.user(), aor.host()), (&b""[..], &b"h"[..]));
        assert_eq!(Aor::from_key(aor.key()), aor);
    }
}
