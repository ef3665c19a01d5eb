//! Edits that a rule makes before a request is forwarded: of the Request-URI, and of header fields that no other part
//! of the proxy edits.

use crate::tel::{TelUri, write_user_text};
use wire::{Edits, Message, SipUri};

/// Header fields that rules must not edit. Forwarding edits some of them; others identify transactions and dialogs, or
/// describe the body, which a proxy must not change (RFC 3261 §16.6).
const PROTECTED: [&str; 17] = [
    "Via",
    "Route",
    "Record-Route",
    "Max-Forwards",
    "Max-Breadth",
    "Content-Length",
    "Content-Type",
    "Content-Encoding",
    "Call-ID",
    "CSeq",
    "From",
    "To",
    "Contact",
    "Proxy-Require",
    "Require",
    "Retry-After",
    "Timestamp",
];

/// Longest value of a header field that a rule adds, in bytes.
pub const VALUE_MAX: usize = 255;

/// RFC 3261 §19.1.1: marks the user of a SIP URI as a telephone number.
const PHONE: &[u8] = b";user=phone";

/// Longest `IP:port` with an IPv6 address in brackets, preceded by an `@`.
const HERE_MAX: usize = 48;

/// Longest name of a header field, in bytes.
const NAME_MAX: usize = 64;

/// Edits of the user in the Request-URI.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct UserEdit {
    /// Prefixes to remove; only the first prefix that matches is removed.
    pub(crate) strip: Vec<Vec<u8>>,
    /// Text that is added in front of the remaining user.
    pub(crate) prefix: String,
    /// Replaces the whole user.
    pub(crate) whole: Option<String>,
}

/// Edits that a rule makes. Each method that adds an edit rejects values that are not valid SIP, so an edited request
/// is always well-formed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Actions {
    pub(crate) user: UserEdit,
    /// `host` or `host:port`.
    pub(crate) host: Option<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) added: Vec<(String, String)>,
}

impl Actions {
    /// Removes this prefix from the user, compared with escapes decoded. Of several prefixes, only the first that
    /// matches is removed.
    ///
    /// # Errors
    /// Describes the expected value.
    pub fn strip_prefix(&mut self, prefix: &str) -> Result<(), String> {
        check_user(prefix)?;
        self.user.strip.push(wire::unescape(prefix.as_bytes()).collect());
        Ok(())
    }

    /// Adds this prefix to the user, after a prefix was removed.
    ///
    /// # Errors
    /// Describes the expected value.
    pub fn add_prefix(&mut self, prefix: &str) -> Result<(), String> {
        check_user(prefix)?;
        prefix.clone_into(&mut self.user.prefix);
        Ok(())
    }

    /// Replaces the user.
    ///
    /// # Errors
    /// Describes the expected value.
    pub fn set_user(&mut self, user: &str) -> Result<(), String> {
        check_user(user)?;
        self.user.whole = Some(user.to_owned());
        Ok(())
    }

    /// Replaces the host, given with or without a port, and removes the old port.
    ///
    /// # Errors
    /// Describes the expected value.
    pub fn set_host(&mut self, host: &str) -> Result<(), String> {
        let uri = format!("sip:{host}");
        let is_host = SipUri::parse(uri.as_bytes())
            .is_ok_and(|uri| uri.user.is_none() && uri.params.is_empty() && !uri.has_headers);
        if !is_host || host.len() > crate::PATTERN_MAX || host.ends_with(';') {
            return Err(
                "expected a host with or without a port, such as \"sip.example.com\" or \"10.0.0.1:5070\""
                    .to_owned(),
            );
        }
        self.host = Some(host.to_owned());
        Ok(())
    }

    /// Removes all header fields of this name.
    ///
    /// # Errors
    /// Describes the expected value.
    pub fn remove_header(&mut self, name: &str) -> Result<(), String> {
        check_name(name)?;
        self.removed.push(name.to_owned());
        Ok(())
    }

    /// Adds a header field after the header fields of the same name.
    ///
    /// # Errors
    /// Describes the expected value.
    pub fn add_header(&mut self, name: &str, value: &str) -> Result<(), String> {
        check_name(name)?;
        let is_text = |c: char| !c.is_control() || c == '\t';
        if value.len() > VALUE_MAX || !value.chars().all(is_text) || value.trim() != value {
            return Err(format!(
                "expected at most {VALUE_MAX} bytes on one line, without white space around them"
            ));
        }
        self.added.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Replaces all header fields of this name by one header field.
    ///
    /// # Errors
    /// Describes the expected value.
    pub fn set_header(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.add_header(name, value)?;
        self.removed.push(name.to_owned());
        Ok(())
    }

    /// Whether there are no edits.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Maximum number of bytes by which the edits lengthen a request with this Request-URI.
    pub fn growth(&self, uri: &[u8]) -> usize {
        let user = self.user.whole.as_ref().map_or(self.user.prefix.len(), String::len) + 1;
        let added: usize = self.added.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        // Each byte may need an escape, and a host is added.
        let of_tel = TelUri::of(uri).map_or(0, |_| 2 * uri.len() + HERE_MAX + PHONE.len());
        user + self.host.as_ref().map_or(0, String::len) + added + of_tel
    }

    /// Appends the edited Request-URI to `out`. Returns false and appends nothing if `uri` stays unchanged. A URI of
    /// another scheme than `sip`, `sips` and `tel` always stays unchanged. A `tel` URI becomes a SIP URI (RFC 3261
    /// §19.1.6) with the host that is set. Without a set host, its host is `here`: the local address and port that
    /// received the request.
    pub fn uri(&self, uri: &[u8], here: &str, out: &mut Vec<u8>) -> bool {
        if self.user == UserEdit::default() && self.host.is_none() {
            return false;
        }
        let start = out.len();
        match (SipUri::parse(uri), TelUri::of(uri)) {
            (Ok(parsed), _) => self.write_sip(uri, &parsed, out),
            (Err(_), Some(tel)) => self.write_tel(&tel, here, out),
            (Err(_), None) => return false,
        }
        if out[start..] == *uri {
            out.truncate(start);
            return false;
        }
        true
    }

    fn write_sip(&self, uri: &[u8], parsed: &SipUri<'_>, out: &mut Vec<u8>) {
        let scheme = if parsed.scheme == wire::Scheme::Sip { 4 } else { 5 };
        out.extend_from_slice(&uri[..scheme]);
        let (userinfo, rest) = split_user(&uri[scheme..], parsed);
        let at = out.len();
        self.write_user(parsed.user, out);
        if out.len() > at {
            // Keeps a password.
            out.extend_from_slice(&userinfo[parsed.user.map_or(0, <[u8]>::len)..]);
            out.push(b'@');
        }
        match &self.host {
            Some(host) => {
                out.extend_from_slice(host.as_bytes());
                // RFC 3261 §19.1.1: `maddr` would override the host.
                let is_kept = |param: &&[u8]| {
                    let name = param.split(|&byte| byte == b'=').next().unwrap_or_default();
                    !name.eq_ignore_ascii_case(b"maddr")
                };
                for param in rest.split(|&byte| byte == b';').skip(1).filter(is_kept) {
                    out.push(b';');
                    out.extend_from_slice(param);
                }
            }
            None => out.extend_from_slice(rest),
        }
    }

    /// RFC 3261 §19.1.6: number and parameters of a `tel` URI become the user.
    fn write_tel(&self, tel: &TelUri<'_>, here: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"sip:");
        let mut number = Vec::new();
        self.write_user(Some(&tel.number()), &mut number);
        let is_number = self.user.whole.is_none() && !number.is_empty();
        write_user_text(&number, out);
        if is_number {
            tel.write_params(out);
        }
        if !number.is_empty() {
            out.push(b'@');
        }
        out.extend_from_slice(self.host.as_deref().unwrap_or(here).as_bytes());
        if is_number {
            out.extend_from_slice(PHONE);
        }
    }

    /// Adds the edits of header fields to the message's edits.
    pub fn headers(&self, message: &Message<'_>, edits: &mut Edits) {
        if !self.removed.is_empty() {
            let is_unwanted = |name: &[u8]| self.removed.iter().any(|removed| wire::is_header(name, removed));
            edits.remove_headers(message, is_unwanted);
        }
        for (name, value) in &self.added {
            edits.add_header(message, name, value.as_bytes());
        }
    }

    fn write_user(&self, user: Option<&[u8]>, out: &mut Vec<u8>) {
        if let Some(whole) = &self.user.whole {
            return out.extend_from_slice(whole.as_bytes());
        }
        let user = user.unwrap_or_default();
        out.extend_from_slice(self.user.prefix.as_bytes());
        let end = self.user.strip.iter().find_map(|prefix| end_of_prefix(user, prefix));
        out.extend_from_slice(&user[end.unwrap_or(0)..]);
    }
}

/// Splits a URI without its scheme into the text before the `@`, if there is one, and the text after it.
fn split_user<'u>(uri: &'u [u8], parsed: &SipUri<'u>) -> (&'u [u8], &'u [u8]) {
    match uri.iter().position(|&byte| byte == b'@').filter(|_| parsed.user.is_some()) {
        Some(at) => (&uri[..at], &uri[at + 1..]),
        None => (&[], uri),
    }
}

/// Position in `user`, as it is written, at which the decoded `prefix` ends; `None` if `user` does not start with it.
pub(crate) fn end_of_prefix(user: &[u8], prefix: &[u8]) -> Option<usize> {
    let mut at = 0;
    for &wanted in prefix {
        let length = if *user.get(at)? == b'%' { 3 } else { 1 };
        let written = user.get(at..at + length)?;
        if wire::unescape(written).next()? != wanted {
            return None;
        }
        at += length;
    }
    Some(at)
}

/// Checks that a text may occur unescaped in a user. Other characters must be written as escapes.
fn check_user(user: &str) -> Result<(), String> {
    let uri = format!("sip:{user}@h");
    let is_user = |uri: SipUri<'_>| uri.user == Some(user.as_bytes()) && uri.host == wire::Host::Name(b"h");
    if user.is_empty() || user.len() > crate::PATTERN_MAX || !SipUri::parse(uri.as_bytes()).is_ok_and(is_user)
    {
        return Err("expected characters that may stand in the user of a URI; write others as %HH".to_owned());
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
    if name.len() < 2 || name.len() > NAME_MAX || !name.bytes().all(is_token) {
        return Err("expected the long name of a header field, such as \"X-Account\"".to_owned());
    }
    match PROTECTED.iter().find(|protected| protected.eq_ignore_ascii_case(name)) {
        Some(protected) => Err(format!(
            "expected another header field: rules must not edit {protected}, which the proxy or the user agents set"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(make: impl FnOnce(&mut Actions) -> Result<(), String>, uri: &str) -> String {
        let mut actions = Actions::default();
        make(&mut actions).unwrap_or_else(|error| panic!("{error}"));
        let mut out = b"kept".to_vec();
        let changed = actions.uri(uri.as_bytes(), "192.0.2.1:5060", &mut out);
        let out = String::from_utf8(out).unwrap().strip_prefix("kept").unwrap().to_owned();
        assert_eq!(changed, !out.is_empty());
        if changed {
            assert!(SipUri::parse(out.as_bytes()).is_ok(), "{out}");
            assert!(out.len() <= uri.len() + actions.growth(uri.as_bytes()), "{uri} {out}");
        }
        if changed { out } else { uri.to_owned() }
    }

    #[test]
    fn prefixes_of_the_user_are_removed_and_added() {
        let strip = |uri| rewritten(|a| a.strip_prefix("0044").and_then(|()| a.strip_prefix("+44")), uri);
        assert_eq!(strip("sip:00442079@h"), "sip:2079@h");
        assert_eq!(
            strip("sip:+442079;phone-context=x:pw@h:5070;user=phone"),
            "sip:2079;phone-context=x:pw@h:5070;user=phone"
        );
        assert_eq!(strip("sips:%2B442079@h"), "sips:2079@h");
        assert_eq!(strip("sip:%2b%34%342079@h"), "sip:2079@h");
        assert_eq!(strip("sip:00492079@h"), "sip:00492079@h");
        assert_eq!(strip("sip:+4@h"), "sip:+4@h");
        assert_eq!(strip("sip:h"), "sip:h");
        assert_eq!(strip("sip:+44@h;a"), "sip:h;a", "the URI has no user any more");
        assert_eq!(strip("sip:+44:pw@h"), "sip:h", "a password is removed with the user");
        let both = |uri| rewritten(|a| a.strip_prefix("0").and_then(|()| a.add_prefix("+44")), uri);
        assert_eq!(both("sip:02079@h"), "sip:+442079@h");
        assert_eq!(both("sip:2079@h"), "sip:+442079@h");
        assert_eq!(both("sip:h"), "sip:+44@h");
        assert_eq!(both("SIP:02079@h"), "SIP:+442079@h");
    }

    /// RFC 3261 §19.1.6, with its examples.
    #[test]
    fn a_tel_uri_that_is_rewritten_becomes_a_sip_uri() {
        let foo = |uri| rewritten(|a| a.set_host("foo.com"), uri);
        let sip = "sip:+3585551234567;postd=pp22@foo.com;user=phone";
        assert_eq!(foo("tel:+358-555-1234567;postd=pp22"), sip);
        assert_eq!(foo("TEL:%2B358-(555).1234567;POSTD=PP22"), sip);
        let several = "sip:+3585551234567;isub=1411;postd=pp22;b=X;c@foo.com;user=phone";
        assert_eq!(foo("tel:+358-555-1234567;C;postd=pp22;B=X;isub=1411"), several);
        // Some characters of a `tel` parameter are not allowed in the user of a SIP URI.
        assert_eq!(foo("tel:7042;x=[a:b]@"), "sip:7042;x=%5Ba%3Ab%5D%40@foo.com;user=phone");
        assert_eq!(
            foo("tel:7042;phone-context=Example.COM"),
            "sip:7042;phone-context=example.com@foo.com;user=phone"
        );
        let both = |uri| rewritten(|a| a.strip_prefix("+4420").and_then(|()| a.add_prefix("0")), uri);
        assert_eq!(both("tel:+44-20-79;ext=5"), "sip:079;ext=5@192.0.2.1:5060;user=phone");
        let set = |uri| rewritten(|a| a.set_user("bob").and_then(|()| a.set_host("b.example:5070")), uri);
        assert_eq!(set("tel:+1;ext=5"), "sip:bob@b.example:5070");
        assert_eq!(
            rewritten(|a| a.strip_prefix("+44"), "tel:+44;ext=5"),
            "sip:192.0.2.1:5060",
            "the URI has no number any more"
        );
        assert_eq!(rewritten(|a| a.set_header("X-A", "1"), "tel:+44"), "tel:+44", "the URI is not rewritten");
        assert_eq!(foo("urn:service:sos"), "urn:service:sos");
    }

    #[test]
    fn user_and_host_are_set() {
        let set =
            |uri| rewritten(|a| a.set_user("bob%20x").and_then(|()| a.set_host("[2001:db8::1]:5070")), uri);
        assert_eq!(set("sip:a:pw@h:5061;transport=udp"), "sip:bob%20x:pw@[2001:db8::1]:5070;transport=udp");
        assert_eq!(set("sip:h"), "sip:bob%20x@[2001:db8::1]:5070");
        let host = |uri| rewritten(|a| a.set_host("b.example"), uri);
        assert_eq!(host("sip:a;x=1@[::1]:5061;lr"), "sip:a;x=1@b.example;lr");
        assert_eq!(host("sip:b.example"), "sip:b.example");
        assert_eq!(host("sip:a@h;MAddr=192.0.2.9;lr"), "sip:a@b.example;lr");
    }

    #[test]
    fn edits_that_would_not_be_sip_are_refused() {
        let mut actions = Actions::default();
        for user in ["", "a@b", "a b", "a\r\nb", "%4", "a:b", "a<", "\u{fc}", &"1".repeat(256)] {
            assert!(actions.set_user(user).is_err() && actions.add_prefix(user).is_err(), "{user:?}");
            assert!(actions.strip_prefix(user).is_err(), "{user:?}");
        }
        for host in
            ["", "a@b", "b;lr", "b;", "b?x=y", "b:0", "b:", "1.2.3.400", "b\r\nc", "::1", &"h".repeat(256)]
        {
            assert!(actions.set_host(host).is_err(), "{host:?}");
        }
        for name in PROTECTED.into_iter().chain(["via", "CALL-ID", "v", "X Y", "", "X:", "X\r\n", "Ü"]) {
            assert!(actions.add_header(name, "1").is_err(), "{name:?}");
            assert!(
                actions.set_header(name, "1").is_err() && actions.remove_header(name).is_err(),
                "{name:?}"
            );
        }
        let long = "x".repeat(VALUE_MAX + 1);
        for value in ["a\r\nEvil: 1", "a\nb", "a\rb", "a\0b", " a", "a\t", &long] {
            assert!(actions.add_header("X-A", value).is_err() && actions.set_header("X-A", value).is_err());
        }
        assert!(actions.is_empty(), "a refused edit adds nothing: {actions:?}");
    }

    #[test]
    fn headers_are_added_set_and_removed() {
        let text = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h\r\ns: hello\r\nX-A: old\r\nFrom: <sip:a@x>;tag=1\r\n\
                    To: <sip:b@x>\r\nx-a: older\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nX-B: 1\r\n\r\nbody";
        let message = wire::scan(text.as_bytes()).unwrap();
        let mut actions = Actions::default();
        actions.remove_header("Subject").unwrap();
        actions.set_header("X-A", "new").unwrap();
        actions.add_header("X-B", "2").unwrap();
        actions.add_header("X-B", "").unwrap();
        actions.set_host("b.example").unwrap();
        let mut edits = Edits::new();
        actions.headers(&message, &mut edits);
        let mut out = Vec::new();
        edits.render(&message, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: c\r\n\
             CSeq: 1 INVITE\r\nX-B: 1\r\nX-A: new\r\nX-B: 2\r\nX-B: \r\n\r\nbody"
        );
    }
}
