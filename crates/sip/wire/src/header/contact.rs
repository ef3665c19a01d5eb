//! Contact with the parameters that a registrar reads (RFC 3261 §20.10).

use crate::Span;
use crate::chars;
use crate::cursor::{Cursor, Malformed, Param};
use crate::header::name_addr;
use crate::uri;

/// Seconds that are used for a malformed interval (RFC 3261 §10.2.1.1: SHOULD be one hour).
pub const MALFORMED_EXPIRES: u32 = 3600;

/// One value of Contact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContactValue<'a> {
    /// `*`: all contacts.
    Star,
    /// An address.
    Address(ContactAddress<'a>),
}

/// An address with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContactAddress<'a> {
    /// URI without angle brackets. Its bytes are legal in a URI, but its parts are unchecked.
    pub uri: &'a [u8],
    /// Preference in thousandths, 0 to 1000; 1000 if none is given.
    pub q: u16,
    /// Requested interval in seconds.
    pub expires: Option<u32>,
    /// All parameters as written, with the semicolon before each.
    pub params: &'a [u8],
}

/// Error: a Contact that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadContact;

impl<'a> ContactAddress<'a> {
    /// The parameters other than `q` and `expires`, such as `+sip.instance`, each as `name[=value]`.
    pub fn other_params(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.params;
        let mut cursor = Cursor::new(bytes, Span::new(0, bytes.len()));
        std::iter::from_fn(move || {
            loop {
                let param = cursor.param().ok()??;
                if !is_named(bytes, param, "q") && !is_named(bytes, param, "expires") {
                    let end = param.value.map_or(param.name.end, |value| value.end);
                    return Some(&bytes[param.name.start as usize..end as usize]);
                }
            }
        })
    }
}

/// Reads the first value in `span`, and returns it with the start of the next one.
pub(crate) fn parse(bytes: &[u8], span: Span) -> Result<(ContactValue<'_>, Option<u32>), BadContact> {
    let mut cursor = Cursor::new(bytes, span);
    // `*` may also be the start of a display name. Only a `*` alone is the wildcard.
    if span.of(bytes) == b"*" {
        return Ok((ContactValue::Star, None));
    }
    let address = address(&mut cursor).map_err(|Malformed| BadContact)?;
    let next = cursor.list_end().map_err(|Malformed| BadContact)?;
    Ok((ContactValue::Address(address), next))
}

fn address<'a>(cursor: &mut Cursor<'a>) -> Result<ContactAddress<'a>, Malformed> {
    let bytes = cursor.bytes;
    let parsed = name_addr::address(cursor)?;
    let uri = parsed.uri.of(bytes);
    if !uri::is_uri_text(uri) {
        return Err(Malformed);
    }
    let start = cursor.pos;
    let (mut q, mut expires) = (None, None);
    while let Some(param) = cursor.param()? {
        let value = param.value.map(|value| value.of(bytes));
        if is_named(bytes, param, "q") {
            // If there are two q values, elements would differ in the value that they use.
            let read = value.and_then(thousandths).filter(|_| q.is_none());
            q = Some(read.ok_or(Malformed)?);
        } else if is_named(bytes, param, "expires") {
            if expires.is_some() {
                return Err(Malformed);
            }
            expires = Some(seconds(value.unwrap_or_default()));
        }
    }
    let params = &bytes[start..cursor.pos];
    Ok(ContactAddress { uri, q: q.unwrap_or(1000), expires, params })
}

fn is_named(bytes: &[u8], param: Param, name: &str) -> bool {
    param.name.of(bytes).eq_ignore_ascii_case(name.as_bytes())
}

/// Interval in seconds of Expires or of a Contact.
pub(crate) fn seconds(digits: &[u8]) -> u32 {
    chars::number(digits, u32::MAX).unwrap_or(MALFORMED_EXPIRES)
}

/// `qvalue` (RFC 3261 §25.1): 0 to 1 with at most three decimals.
fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text.iter().position(|&b| b == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b""[..]),
    };
    if decimals.len() > 3 {
        return None;
    }
    let mut padded = *b"000";
    padded[..decimals.len()].copy_from_slice(decimals);
    // `.5` is common, though the grammar requires a digit before the point.
    let whole = if whole.is_empty() && !decimals.is_empty() { 0 } else { chars::number(whole, 1)? };
    let q = whole * 1000 + chars::number(&padded, 999)?;
    (q <= 1000).then_some(q as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<ContactValue<'_>>, BadContact> {
        let mut rest = Some(Span::new(0, text.len()));
        let mut found = Vec::new();
        while let Some(span) = rest {
            let (value, next) = parse(text.as_bytes(), span)?;
            found.push(value);
            rest = next.map(|start| Span::new(start as usize, text.len()));
        }
        Ok(found)
    }

    #[test]
    fn lists() {
        let text =
            "\"A, B\" <sip:a@h;lr>;q=0.7 ; expires=60;+sip.instance=\"<urn:x>\", sip:b@h;EXPIRES=x;Q=.25";
        let values = all(text).unwrap();
        let [ContactValue::Address(a), ContactValue::Address(b)] = values[..] else { panic!("{values:?}") };
        assert_eq!((a.uri, a.q, a.expires), (&b"sip:a@h;lr"[..], 700, Some(60)));
        assert_eq!(a.other_params().collect::<Vec<_>>(), [&b"+sip.instance=\"<urn:x>\""[..]]);
        assert_eq!((b.uri, b.q, b.expires), (&b"sip:b@h"[..], 250, Some(MALFORMED_EXPIRES)));
        assert_eq!(b.other_params().count(), 0);
        assert_eq!(all("*"), Ok(vec![ContactValue::Star]));
    }

    #[test]
    fn qvalues() {
        let cases: [(&str, Option<u16>); 12] = [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("1.000", Some(1000)),
            ("0.5", Some(500)),
            ("0.125", Some(125)),
            ("1.", Some(1000)),
            ("1.001", None),
            ("0.1234", None),
            ("2", None),
            ("-1", None),
            (".", None),
            ("", None),
        ];
        for (text, q) in cases {
            assert_eq!(thousandths(text.as_bytes()), q, "{text}");
        }
    }

    #[test]
    fn malformed() {
        for bad in [
            "",
            "<sip:a@h",
            "<sip:a@h>;q=2",
            "<sip:a@h>;q=1;q=1",
            "<sip:a@h>;expires=1;expires=2",
            "<sip:a@h>,",
            "<sip:a b@h>",
            "*, <sip:a@h>",
            "<sip:a@h>;q",
        ] {
            assert!(all(bad).is_err(), "{bad}");
        }
    }
}
