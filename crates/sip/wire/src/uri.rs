//! SIP and SIPS URIs (RFC 3261 §19.1).

use crate::chars::{self, PARAM, URIC, USER};
use crate::host::Host;
use crate::vector;
use core::iter;

/// Scheme of a SIP URI: `sip` or `sips`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// `sip:`
    Sip,
    /// `sips:`, reached over TLS only.
    Sips,
}

/// Reason why a text is not a SIP URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UriError {
    /// No `scheme:` at the start.
    NoScheme,
    /// A scheme other than `sip` and `sips`: a proxy answers 416 (RFC 3261 §16.3 step 2).
    OtherScheme,
    /// A user part with bytes that must be escaped, or a broken escape.
    User,
    /// No host that is a name, an IPv4 address or an IPv6 address in brackets.
    Host,
    /// A port outside 1 to 65,535.
    Port,
    /// Parameters or headers with bytes that must be escaped, or a broken escape.
    Params,
}

/// Parsed URI; its parts are as written, with their escapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SipUri<'a> {
    /// `sip` or `sips`.
    pub scheme: Scheme,
    /// Text before `:` or `@`. It may hold `;` and `=` that do not belong to parameters.
    pub user: Option<&'a [u8]>,
    /// Text between `:` and `@`.
    pub password: Option<&'a [u8]>,
    /// Host.
    pub host: Host<'a>,
    /// Port. `None` if not written; the default depends on the transport.
    pub port: Option<u16>,
    /// All parameters without the first semicolon; empty if there are none.
    pub params: &'a [u8],
    /// Whether a `?headers` part follows, which is forbidden in a Request-URI (RFC 3261 §19.1.1).
    pub has_headers: bool,
}

impl<'a> SipUri<'a> {
    /// Reads a whole URI: no brackets, no surrounding white space.
    pub fn parse(text: &'a [u8]) -> Result<Self, UriError> {
        let (name, rest) = split_scheme(text).ok_or(UriError::NoScheme)?;
        let scheme = if name.eq_ignore_ascii_case(b"sip") {
            Scheme::Sip
        } else if name.eq_ignore_ascii_case(b"sips") {
            Scheme::Sips
        } else {
            return Err(UriError::OtherScheme);
        };
        // `@` is escaped everywhere else, so the first one ends the user part.
        let at = vector::find(rest, 0, rest.len(), b'@');
        let (mut user, mut password, mut rest) = (None, None, rest);
        if let Some((info, after)) = rest.split_at_checked(at).filter(|(_, after)| !after.is_empty()) {
            if info.is_empty() || info[0] == b':' || !chars::all_or_escaped(info, USER) {
                return Err(UriError::User);
            }
            let (name, secret) = info.split_at(vector::find(info, 0, info.len(), b':'));
            (user, password, rest) = (Some(name), secret.get(1..), &after[1..]);
        }
        let (host, length) = Host::at_start(rest).ok_or(UriError::Host)?;
        rest = &rest[length..];
        let mut port = None;
        if let [b':', after @ ..] = rest {
            let digits = after.iter().position(|b| !b.is_ascii_digit()).unwrap_or(after.len());
            port = Some(self::port(&after[..digits]).ok_or(UriError::Port)?);
            rest = &after[digits..];
        }
        let (params, headers) = rest.split_at(vector::find(rest, 0, rest.len(), b'?'));
        if !chars::all_or_escaped(params, PARAM)
            || !(params.is_empty() || params[0] == b';')
            || !chars::all_or_escaped(headers, URIC)
        {
            return Err(UriError::Params);
        }
        let params = params.get(1..).unwrap_or_default();
        Ok(Self { scheme, user, password, host, port, params, has_headers: !headers.is_empty() })
    }

    /// Value of parameter `name` as written: `None` if absent, `Some(None)` if it has no value.
    ///
    /// Names compare case-insensitively and with escapes decoded (RFC 3261 §19.1.4): `%6Cr` is `lr`.
    pub fn param(&self, name: &str) -> Option<Option<&'a [u8]>> {
        if self.params.is_empty() {
            return None;
        }
        let mut rest = Some(self.params);
        let mut params = iter::from_fn(|| {
            let text = rest?;
            let (param, after) = text.split_at(vector::find(text, 0, text.len(), b';'));
            rest = after.get(1..);
            Some(param)
        });
        params.find_map(|param| {
            let (key, value) = param.split_at(vector::find(param, 0, param.len(), b'='));
            let value = value.get(1..);
            (key.eq_ignore_ascii_case(name.as_bytes()) || is_escaped(key, name)).then_some(value)
        })
    }
}

/// Scheme of any URI, without the colon; `None` if the text does not start with a scheme (RFC 2396 §3.1).
pub fn scheme_of(uri: &[u8]) -> Option<&[u8]> {
    split_scheme(uri).map(|(scheme, _)| scheme)
}

/// Whether every byte is legal in a URI of some scheme: no white space, quotes, angle brackets or controls, and
/// complete escapes. Bytes outside ASCII must be escaped.
pub(crate) fn is_uri_text(uri: &[u8]) -> bool {
    chars::all_or_escaped(uri, URIC)
}

/// Reads a port in 1 to 65,535.
pub(crate) fn port(digits: &[u8]) -> Option<u16> {
    chars::number(digits, u32::from(u16::MAX)).filter(|&n| n != 0).map(|n| n as u16)
}

fn split_scheme(uri: &[u8]) -> Option<(&[u8], &[u8])> {
    // Most URIs.
    if let Some(rest) = uri.strip_prefix(b"sip:") {
        return Some((&uri[..3], rest));
    }
    let colon = uri.iter().position(|b| !(b.is_ascii_alphanumeric() || b"+-.".contains(b)))?;
    let scheme = &uri[..colon];
    (uri[colon] == b':' && scheme.first()?.is_ascii_alphabetic()).then(|| (scheme, &uri[colon + 1..]))
}

/// Whether `key` equals `name` with some bytes written as escapes.
fn is_escaped(key: &[u8], name: &str) -> bool {
    key.contains(&b'%')
        && unescape(key).map(|b| b.to_ascii_lowercase()).eq(name.bytes().map(|b| b.to_ascii_lowercase()))
}

/// Returns the bytes with each `%HH` decoded once.
pub fn unescape(text: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let mut i = 0;
    iter::from_fn(move || {
        let b = *text.get(i)?;
        i += 1;
        if b == b'%'
            && let (Some(high), Some(low)) =
                (text.get(i).copied().and_then(digit), text.get(i + 1).copied().and_then(digit))
        {
            i += 2;
            return Some(high << 4 | low);
        }
        Some(b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> SipUri<'_> {
        SipUri::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e:?}"))
    }

    #[test]
    fn all_parts() {
        let u = uri("SIPS:alice:secret@[2001:db8::1]:5071;transport=tcp;lr?subject=x");
        assert_eq!(u.scheme, Scheme::Sips);
        assert_eq!(u.user, Some(&b"alice"[..]));
        assert_eq!(u.password, Some(&b"secret"[..]));
        assert_eq!(u.host, Host::V6("2001:db8::1".parse().unwrap()));
        assert_eq!(u.port, Some(5071));
        assert_eq!(u.params, b"transport=tcp;lr");
        assert!(u.has_headers);
        assert_eq!(u.param("transport"), Some(Some(&b"tcp"[..])));
        assert_eq!(u.param("LR"), Some(None));
        assert_eq!(u.param("maddr"), None);
    }

    #[test]
    fn unusual_but_legal() {
        // RFC 4475 §3.1.1.2, §3.1.1.3, §3.1.1.9; RFC 5118 §4.3.
        assert_eq!(
            uri("sip:user;par=u%40example.net@example.com").user,
            Some(&b"user;par=u%40example.net"[..])
        );
        assert_eq!(uri("sip:sips%3Auser%40example.com@example.net").host, Host::Name(b"example.net"));
        assert_eq!(uri("sip:a?b/c;;*:p=1,w!@h").password, Some(&b"p=1,w!"[..]));
        assert_eq!(uri("sip:h;%6C%72;n%61me=v%61lue").param("lr"), Some(None));
        assert_eq!(uri("sip:h;%6C%72;n%61me=v%61lue").param("name"), Some(Some(&b"v%61lue"[..])));
        assert_eq!(uri("sip:[2001:db8::10:5070]").port, None);
        assert_eq!(uri("sip:*31#@h").user, Some(&b"*31#"[..]));
        assert_eq!(uri("sip:h").param(""), None);
    }

    #[test]
    fn errors_name_the_part() {
        let cases = [
            ("alan@example.com", UriError::NoScheme),
            ("", UriError::NoScheme),
            (":x", UriError::NoScheme),
            ("tel:+15551234", UriError::OtherScheme),
            ("sip:", UriError::Host),
            ("sip:@h", UriError::User),
            ("sip::pw@h", UriError::User),
            ("sip:a b@h", UriError::User),
            ("sip:%4@h", UriError::User),
            ("sip:2001:db8::10", UriError::Host),
            ("sip:h:", UriError::Port),
            ("sip:h:0", UriError::Port),
            ("sip:h:65536", UriError::Port),
            ("sip:h; lr", UriError::Params),
            ("sip:h;a=<b>", UriError::Params),
            ("sip:h/path", UriError::Params),
            ("sip:h?a=b c", UriError::Params),
            ("sip:a@b@c", UriError::Params),
        ];
        for (text, error) in cases {
            assert_eq!(SipUri::parse(text.as_bytes()), Err(error), "{text}");
        }
    }

    #[test]
    fn schemes() {
        assert_eq!(scheme_of(b"soap.beep://192.0.2.103:3002"), Some(&b"soap.beep"[..]));
        assert_eq!(scheme_of(b"1sip:h"), None);
        assert_eq!(scheme_of(b"<sip:h>"), None);
        assert_eq!(scheme_of(b"sip"), None);
    }
}
