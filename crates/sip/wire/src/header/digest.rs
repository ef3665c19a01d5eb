//! Challenges and credentials of digest authentication (RFC 3261 §20.7, §20.27, §20.28, §20.44, with RFC 7616 §3.3,
//! §3.4).

use std::borrow::Cow;

use crate::Span;
use crate::chars::{self, VALUE};
use crate::cursor::Cursor;
use crate::text::push_unfolded;

/// Longest value that is read, in bytes. Values in practice have 200 to 500 bytes.
pub const DIGEST_MAX: usize = 4096;

/// Reason why a value cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDigest {
    /// The value has another scheme, such as Basic.
    OtherScheme,
    /// The value is longer than [`DIGEST_MAX`].
    TooLong,
    /// The value violates the grammar, or lacks a required parameter.
    Malformed,
    /// The value has a parameter twice, so two elements could use different values (RFC 7616 §3.3, §3.4).
    Duplicate,
}

/// Text of a parameter, stored in the form between quotes, with its escapes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthText<'a>(Cow<'a, [u8]>);

impl<'a> AuthText<'a> {
    /// Makes a text from any bytes, and escapes them where necessary.
    pub fn quote(text: &'a [u8]) -> Self {
        if !text.iter().any(|b| matches!(b, b'"' | b'\\')) {
            return Self(Cow::Borrowed(text));
        }
        let mut raw = Vec::with_capacity(text.len() + 4);
        for &b in text {
            if matches!(b, b'"' | b'\\') {
                raw.push(b'\\');
            }
            raw.push(b);
        }
        Self(Cow::Owned(raw))
    }

    /// Bytes between the quotes.
    pub fn raw(&self) -> &[u8] {
        &self.0
    }

    /// The text without escapes: each quoted pair is replaced by its second byte (RFC 3261 §25.1).
    pub fn text(&self) -> Cow<'_, [u8]> {
        if !self.0.contains(&b'\\') {
            return Cow::Borrowed(&self.0);
        }
        let mut rest = self.0.iter().copied();
        let mut text = Vec::with_capacity(self.0.len());
        while let Some(b) = rest.next() {
            text.push(if b == b'\\' { rest.next().unwrap_or(b) } else { b });
        }
        Cow::Owned(text)
    }

    fn is(&self, token: &str) -> bool {
        self.0.eq_ignore_ascii_case(token.as_bytes())
    }
}

/// A value of WWW-Authenticate or Proxy-Authenticate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge<'a> {
    /// Realm of the users.
    pub realm: AuthText<'a>,
    /// Server nonce, which the response must use.
    pub nonce: AuthText<'a>,
    /// Text that the client sends back unchanged.
    pub opaque: Option<AuthText<'a>>,
    /// Hash algorithm. `None` means MD5 (RFC 7616 §3.3).
    pub algorithm: Option<AuthText<'a>>,
    /// Offered qualities of protection, separated by commas.
    pub qop: Option<AuthText<'a>>,
    /// Whether the credentials were valid except that their nonce is too old.
    pub stale: bool,
}

/// A value of Authorization or Proxy-Authorization.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials<'a> {
    /// User name that the sender claims.
    pub username: AuthText<'a>,
    /// Realm of the user.
    pub realm: AuthText<'a>,
    /// Server nonce.
    pub nonce: AuthText<'a>,
    /// Request-URI of the request when it left its sender.
    pub uri: AuthText<'a>,
    /// Digest in hexadecimal.
    pub response: AuthText<'a>,
    /// Hash algorithm. `None` means MD5.
    pub algorithm: Option<AuthText<'a>>,
    /// Client nonce.
    pub cnonce: Option<AuthText<'a>>,
    /// Text of the challenge's `opaque`.
    pub opaque: Option<AuthText<'a>>,
    /// Quality of protection that the client chose. Absent in the form of RFC 2069.
    pub qop: Option<AuthText<'a>>,
    /// Count of the client's uses of the nonce, as eight hexadecimal digits.
    pub nc: Option<AuthText<'a>>,
    /// Whether the user name is a hash (RFC 7616 §3.4.4).
    pub userhash: bool,
}

/// Names of the parameters that are read; others are skipped (RFC 7616 §3.3: MUST be ignored).
const NAMES: [&str; 13] = [
    "realm",
    "nonce",
    "opaque",
    "algorithm",
    "qop",
    "stale",
    "username",
    "uri",
    "response",
    "cnonce",
    "nc",
    "userhash",
    "domain",
];

/// Parameters by their place in [`NAMES`], and whether each was quoted.
type Found<'a> = [Option<(&'a [u8], bool)>; NAMES.len()];

fn read(value: &[u8]) -> Result<Found<'_>, BadDigest> {
    if value.len() > DIGEST_MAX {
        return Err(BadDigest::TooLong);
    }
    let value = chars::trim(value);
    let mut cursor = Cursor::new(value, Span::new(0, value.len()));
    let scheme = cursor.token().map_err(|_| BadDigest::Malformed)?;
    if !scheme.of(value).eq_ignore_ascii_case(b"Digest") {
        return Err(BadDigest::OtherScheme);
    }
    let mut found = Found::default();
    cursor.skip_lws();
    loop {
        let name = cursor.token().map_err(|_| BadDigest::Malformed)?.of(value);
        if !cursor.eat_spaced(b'=') {
            return Err(BadDigest::Malformed);
        }
        let quoted = cursor.peek() == Some(b'"');
        let text = if quoted {
            let span = cursor.quoted().map_err(|_| BadDigest::Malformed)?;
            &value[span.start as usize + 1..span.end as usize - 1]
        } else {
            cursor.run(VALUE).of(value)
        };
        if !quoted && text.is_empty() {
            return Err(BadDigest::Malformed);
        }
        if let Some(place) = NAMES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
            if found[place].is_some() {
                return Err(BadDigest::Duplicate);
            }
            found[place] = Some((text, quoted));
        }
        match cursor.list_end() {
            Ok(None) => return Ok(found),
            Ok(Some(_)) => {}
            Err(_) => return Err(BadDigest::Malformed),
        }
    }
}

/// The parameter with this name. Most senders use quotes as the grammar requires. Some put `qop`, `nc` or `algorithm`
/// in quotes, which is accepted.
fn text<'a>(found: &Found<'a>, name: &str) -> Option<AuthText<'a>> {
    let place = NAMES.iter().position(|known| *known == name)?;
    found[place].map(|(text, _)| AuthText(Cow::Borrowed(text)))
}

impl<'a> Challenge<'a> {
    /// Reads one value.
    pub fn parse(value: &'a [u8]) -> Result<Self, BadDigest> {
        let found = read(value)?;
        Ok(Self {
            realm: text(&found, "realm").ok_or(BadDigest::Malformed)?,
            nonce: text(&found, "nonce").ok_or(BadDigest::Malformed)?,
            opaque: text(&found, "opaque"),
            algorithm: text(&found, "algorithm"),
            qop: text(&found, "qop"),
            stale: text(&found, "stale").is_some_and(|stale| stale.is("true")),
        })
    }

    /// Appends the value. No text can end the header line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.quoted("realm", Some(&self.realm));
        writer.quoted("nonce", Some(&self.nonce));
        writer.quoted("opaque", self.opaque.as_ref());
        if self.stale {
            writer.bare("stale", Some(&AuthText::quote(b"true")));
        }
        writer.bare("algorithm", self.algorithm.as_ref());
        writer.quoted("qop", self.qop.as_ref());
    }
}

impl<'a> Credentials<'a> {
    /// Reads one value.
    pub fn parse(value: &'a [u8]) -> Result<Self, BadDigest> {
        let found = read(value)?;
        let needed = |name| text(&found, name).ok_or(BadDigest::Malformed);
        // RFC 3261 §22.4 (2), RFC 8760 §2.6 (2): the URI MUST be quoted. Otherwise its parameters would be read as
        // parameters of the header field. [22.4-2] [2.6-2]
        let uri_place = NAMES.iter().position(|name| *name == "uri");
        if uri_place.and_then(|place| found[place]).is_some_and(|(_, quoted)| !quoted) {
            return Err(BadDigest::Malformed);
        }
        Ok(Self {
            username: needed("username")?,
            realm: needed("realm")?,
            nonce: needed("nonce")?,
            uri: needed("uri")?,
            response: needed("response")?,
            algorithm: text(&found, "algorithm"),
            cnonce: text(&found, "cnonce"),
            opaque: text(&found, "opaque"),
            qop: text(&found, "qop"),
            nc: text(&found, "nc"),
            userhash: text(&found, "userhash").is_some_and(|userhash| userhash.is("true")),
        })
    }

    /// Appends the value.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.quoted("username", Some(&self.username));
        writer.quoted("realm", Some(&self.realm));
        writer.quoted("nonce", Some(&self.nonce));
        writer.quoted("uri", Some(&self.uri));
        writer.quoted("response", Some(&self.response));
        writer.bare("algorithm", self.algorithm.as_ref());
        writer.quoted("cnonce", self.cnonce.as_ref());
        writer.quoted("opaque", self.opaque.as_ref());
        writer.bare("qop", self.qop.as_ref());
        writer.bare("nc", self.nc.as_ref());
        if self.userhash {
            writer.bare("userhash", Some(&AuthText::quote(b"true")));
        }
    }
}

/// Writer of parameters.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
    separator: &'static [u8],
}

impl<'o> Writer<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        out.extend_from_slice(b"Digest");
        Self { out, separator: b" " }
    }

    fn name(&mut self, name: &str) {
        self.out.extend_from_slice(self.separator);
        self.separator = b", ";
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'=');
    }

    fn quoted(&mut self, name: &str, text: Option<&AuthText<'_>>) {
        let Some(text) = text else { return };
        self.name(name);
        self.out.push(b'"');
        push_unfolded(text.raw(), self.out);
        self.out.push(b'"');
    }

    /// Writes a token. A text that is not a token is quoted, so that it cannot become a further parameter.
    fn bare(&mut self, name: &str, text: Option<&AuthText<'_>>) {
        let Some(token) = text else { return };
        if token.raw().is_empty() || !token.raw().iter().all(|&b| chars::is(b, chars::TOKEN)) {
            return self.quoted(name, text);
        }
        self.name(name);
        self.out.extend_from_slice(token.raw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "Digest username=\"bob\",\r\n realm=\"biloxi.com\",\r\n nonce=\"dcd98b\", \
        uri=\"sip:bob@biloxi.com;x=1,2\", qop=auth, nc=00000001, cnonce=\"0a4f113b\", \
        response=\"6629fae49393a05397450978507c4ef1\", opaque=\"5ccc\", made-up=\"a, realm=b\", other=x";

    #[test]
    fn the_example_of_rfc_3261() {
        let read = Credentials::parse(CREDENTIALS.as_bytes()).unwrap();
        assert_eq!(read.username.raw(), b"bob");
        assert_eq!(read.uri.raw(), b"sip:bob@biloxi.com;x=1,2");
        assert_eq!(read.nc.as_ref().map(AuthText::raw), Some(&b"00000001"[..]));
        assert_eq!((read.algorithm.as_ref(), read.userhash), (None, false));
        let mut out = Vec::new();
        read.write(&mut out);
        assert_eq!(Credentials::parse(&out), Ok(read));
    }

    #[test]
    fn quotes_are_escaped_and_read_back() {
        let realm = b"a \"b\" \\ c";
        let challenge = Challenge {
            realm: AuthText::quote(realm),
            nonce: AuthText::quote(b"n\r\nX: y"),
            opaque: None,
            algorithm: Some(AuthText::quote(b"SHA-256")),
            qop: Some(AuthText::quote(b"auth,auth-int")),
            stale: true,
        };
        let mut out = Vec::new();
        challenge.write(&mut out);
        assert_eq!(
            String::from_utf8(out.clone()).unwrap(),
            "Digest realm=\"a \\\"b\\\" \\\\ c\", nonce=\"n  X: y\", stale=true, algorithm=SHA-256, \
             qop=\"auth,auth-int\""
        );
        let read = Challenge::parse(&out).unwrap();
        assert_eq!(read.realm.text().as_ref(), realm);
        assert!(read.stale);
        assert_eq!(read.realm, challenge.realm);
    }

    #[test]
    fn ambiguous_or_malformed_digests_are_refused() {
        let broken = |from: &str, to: &str| {
            let text = CREDENTIALS.replace(from, to);
            assert_ne!(text, CREDENTIALS);
            Credentials::parse(text.as_bytes()).unwrap_err()
        };
        assert_eq!(broken("Digest", "Basic"), BadDigest::OtherScheme);
        assert_eq!(broken("opaque=", "REALM="), BadDigest::Duplicate);
        assert_eq!(broken("realm=\"biloxi.com\",", ""), BadDigest::Malformed);
        assert_eq!(broken("username=\"bob\"", "username*=UTF-8''bob"), BadDigest::Malformed);
        assert_eq!(broken("\"0a4f113b\"", "\"0a4f113b"), BadDigest::Malformed);
        assert_eq!(broken("nc=00000001", "nc="), BadDigest::Malformed);
        assert_eq!(broken("nc=00000001", "nc"), BadDigest::Malformed);
        assert_eq!(broken(", other=x", ","), BadDigest::Malformed);
        assert_eq!(broken("other=x", &format!("other={}", "x".repeat(DIGEST_MAX))), BadDigest::TooLong);
        for text in
            ["", "Digest", "Digest ", "Digest ,", "Digest realm", "Digest realm=\"\\", "\"Digest\" a=b"]
        {
            assert_eq!(Challenge::parse(text.as_bytes()).unwrap_err(), BadDigest::Malformed, "{text}");
        }
    }

    #[test]
    fn a_uri_without_quotes_is_refused() {
        // [22.4-2] [2.6-2]
        let text = CREDENTIALS.replace("\"sip:bob@biloxi.com;x=1,2\"", "sip:bob@biloxi.com");
        assert_eq!(Credentials::parse(text.as_bytes()), Err(BadDigest::Malformed));
    }

    #[test]
    fn quoted_tokens_are_read_like_tokens() {
        let quoted = CREDENTIALS.replace("qop=auth", "qop=\"auth\"").replace("00000001", "\"00000001\"");
        let plain = Credentials::parse(CREDENTIALS.as_bytes());
        assert_eq!(Credentials::parse(quoted.as_bytes()), plain);
    }
}
