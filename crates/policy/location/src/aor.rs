//! Addresses-of-record in canonical form.

use wire::{Host, Scheme, SipUri, unescape};

/// An address-of-record, the index into the bindings: `sip:user@host`.
///
/// [10.3-8] RFC 3261 §10.3 step 5: without URI parameters, escapes decoded. Beyond that, what §19.1.4 has for equal
/// is written alike: the scheme and a host name in small letters, without a dot at the end; an address as Rust prints
/// it; a port only if it is another than that of the scheme. Password and headers are left out. The user part keeps
/// its case.
///
/// It is a key and nothing else: decoded escapes may be any bytes, so it must not be written into a message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Aor(Box<[u8]>);

impl Aor {
    /// That of a URI; `None` for what is no SIP or SIPS URI.
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

    /// From the key that [`key`](Self::key) gave, as a store keeps it.
    pub fn from_key(key: &[u8]) -> Self {
        Self(key.into())
    }

    /// The canonical form.
    pub fn key(&self) -> &[u8] {
        &self.0
    }

    /// The user part, without escapes; empty where there is none. No host has an `@` in it, so the last one ends it.
    pub fn user(&self) -> &[u8] {
        let rest = self.bare();
        rest.iter().rposition(|&b| b == b'@').map_or(&[], |at| &rest[..at])
    }

    /// Host, with its port if that is not the usual one.
    pub fn host(&self) -> &[u8] {
        let rest = self.bare();
        rest.iter().rposition(|&b| b == b'@').map_or(rest, |at| &rest[at + 1..])
    }

    /// Without the scheme: `user@host`.
    pub fn bare(&self) -> &[u8] {
        let colon = self.0.iter().position(|&b| b == b':').map_or(0, |at| at + 1);
        &self.0[colon..]
    }
}

/// A host in its canonical form.
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
