//! Equality of URIs (RFC 3261 §19.1.4).

use crate::host::Host;
use crate::uri::{SipUri, unescape};

/// Parameters that make URIs differ if only one URI has them (RFC 3261 §19.1.4). `transport` is one of these by the
/// examples of this section.
const NEVER_IGNORED: [&str; 5] = ["user", "ttl", "method", "maddr", "transport"];

/// Whether two URIs are equal. URIs of other schemes than `sip` and `sips` are equal if their texts are equal.
///
/// The time grows with the product of the numbers of parameters of both URIs, so the length of stored URIs must be
/// limited.
pub fn same_uri(one: &[u8], other: &[u8]) -> bool {
    if one == other {
        return true;
    }
    let (Ok(a), Ok(b)) = (SipUri::parse(one), SipUri::parse(other)) else { return false };
    a.scheme == b.scheme
        && same_text(a.user, b.user)
        && same_text(a.password, b.password)
        && same_host(&a.host, &b.host)
        // An absent port differs from the default port.
        && a.port == b.port
        && agrees(&a, &b)
        && agrees(&b, &a)
        && headers(one) == headers(other)
}

/// Whether two hosts are equal. Unlike user parts, host names are not case-sensitive.
fn same_host(one: &Host<'_>, other: &Host<'_>) -> bool {
    match (one, other) {
        (Host::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
        _ => one == other,
    }
}

fn same_text(one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other || normal(one).eq(normal(other)),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Whether each parameter of `one` has the same value in `other`, or may be ignored because `other` lacks it.
fn agrees(one: &SipUri<'_>, other: &SipUri<'_>) -> bool {
    one.params.split(|&b| b == b';').filter(|param| !param.is_empty()).all(|param| {
        let key = param.split(|&b| b == b'=').next().unwrap_or_default();
        let Ok(name) = String::from_utf8(unescape(key).collect()) else { return false };
        match (one.param(&name), other.param(&name)) {
            (Some(Some(one)), Some(Some(other))) => {
                let lower = |b: u16| if b < 0x80 { u16::from((b as u8).to_ascii_lowercase()) } else { b };
                normal(one).map(lower).eq(normal(other).map(lower))
            }
            (Some(one), Some(other)) => one == other,
            _ => !NEVER_IGNORED.iter().any(|known| name.eq_ignore_ascii_case(known)),
        }
    })
}

/// Decodes escapes, except escapes of reserved characters. An escaped reserved character differs from the character
/// itself (RFC 2396 §2.2), so it becomes a number above all bytes.
fn normal(text: &[u8]) -> impl Iterator<Item = u16> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let &first = rest.first()?;
        let escape = rest.get(..3).filter(|_| first == b'%');
        let decoded =
            escape.and_then(|escape| unescape(escape).next().filter(|_| unescape(escape).count() == 1));
        rest = &rest[if decoded.is_some() { 3 } else { 1 }..];
        Some(match decoded {
            Some(byte) if b";/?:@&=+$,".contains(&byte) => u16::from(byte) | 0x100,
            Some(byte) => u16::from(byte),
            None => u16::from(first),
        })
    })
}

/// Returns the `headers` part. It is compared in the given order, although the order has no meaning: URIs that differ
/// only in the order have not been seen.
fn headers(uri: &[u8]) -> Option<&[u8]> {
    let host = memchr::memchr(b'@', uri).unwrap_or(0);
    memchr::memchr(b'?', &uri[host..]).map(|at| &uri[host + at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of §19.1.4, and further ones.
    #[test]
    fn examples() {
        let same = [
            ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
            ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;newparam=5"),
            ("sip:a@[2001:db8::1]", "sip:a@[2001:DB8:0::1]"),
            ("sip:a@h;lr", "sip:a@h;%6Cr"),
            ("mailto:x@y", "mailto:x@y"),
        ];
        let different = [
            ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
            ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
            ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
            ("sip:a%3Bb@h", "sip:a;b@h"),
            ("sip:a@h", "sips:a@h"),
            ("sip:a@h", "sip:h"),
            ("sip:a:x@h", "sip:a@h"),
            ("sip:a@h;x=1", "sip:a@h;x"),
            ("mailto:x@y", "mailto:X@y"),
        ];
        let both = |one: &str, other: &str| {
            let result = same_uri(one.as_bytes(), other.as_bytes());
            assert_eq!(result, same_uri(other.as_bytes(), one.as_bytes()), "{one} {other}");
            result
        };
        for (one, other) in same {
            assert!(both(one, other), "{one} {other}");
        }
        for (one, other) in different {
            assert!(!both(one, other), "{one} {other}");
        }
    }
}
