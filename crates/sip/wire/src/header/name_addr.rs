//! `name-addr` and `addr-spec` with header parameters: From, To, Contact (RFC 3261 §20.10, §25.1).

use crate::Span;
use crate::chars::{self, LWS, TOKEN};
use crate::cursor::{Cursor, Malformed};
use crate::vector;

/// Display name, URI and header parameters of a From, To or Contact value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameAddr<'a> {
    /// Display name with its quotes, if any; empty if absent.
    pub display: &'a [u8],
    /// URI without angle brackets.
    pub uri: &'a [u8],
    /// The `tag` parameter.
    pub tag: Option<&'a [u8]>,
}

/// The parts by position.
pub(crate) struct Parsed {
    pub(crate) display: Span,
    pub(crate) uri: Span,
    /// Whether the URI stood in angle brackets.
    pub(crate) bracketed: bool,
}

impl<'a> NameAddr<'a> {
    /// Reads the first value of `value`; further values of a list are ignored.
    ///
    /// `None` if it cannot be read, for example because of an open quote.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let value = chars::trim(value);
        let mut cursor = Cursor::new(value, Span::new(0, value.len()));
        let (parsed, tag) = from_or_to(&mut cursor).ok()?;
        cursor.list_end().ok()?;
        Some(Self {
            display: chars::trim(parsed.display.of(value)),
            uri: parsed.uri.of(value),
            tag: tag.map(|tag| tag.of(value)),
        })
    }
}

/// Reads display name, URI and parameters of a From or To value, and returns the tag. The cursor then stands after the
/// last parameter.
pub(crate) fn from_or_to(cursor: &mut Cursor<'_>) -> Result<(Parsed, Option<Span>), Malformed> {
    let parsed = address(cursor)?;
    let mut tag = None;
    while let Some(param) = cursor.param()? {
        if param.name.of(cursor.bytes).eq_ignore_ascii_case(b"tag") {
            // Two tags would be two dialogs, unless they are equal.
            let text = |span: Span| span.of(cursor.bytes);
            if param.value.is_none() || tag.is_some() && tag.map(text) != param.value.map(text) {
                return Err(Malformed);
            }
            tag = param.value;
        }
    }
    Ok((parsed, tag))
}

/// Reads a From or To value to its end and returns its tag.
pub(crate) fn tag(bytes: &[u8], value: Span) -> Result<Option<Span>, Malformed> {
    if let Ok(tag) = usual_tag(bytes, value) {
        return Ok(tag);
    }
    let mut cursor = Cursor::new(bytes, value);
    let (_, tag) = from_or_to(&mut cursor)?;
    if cursor.is_at_end() { Ok(tag) } else { Err(Malformed) }
}

/// The same for `<URI>` and `<URI>;tag=value`, as most values are. An error for any other value.
#[inline]
fn usual_tag(bytes: &[u8], value: Span) -> Result<Option<Span>, Malformed> {
    let (start, end) = (value.start as usize, value.end as usize);
    if bytes.get(start) != Some(&b'<') {
        return Err(Malformed);
    }
    let close = vector::find(bytes, start + 1, end, b'>');
    if close == start + 1 || close >= end {
        return Err(Malformed);
    }
    if close + 1 == end {
        return Ok(None);
    }
    let is_tag = bytes[close..end].starts_with(b">;tag=");
    let tag = close + 6;
    if is_tag && tag < end && vector::value_end(bytes, tag, end) == end {
        Ok(Some(Span::new(tag, end)))
    } else {
        Err(Malformed)
    }
}

/// URI of the first value in `value`; the text after it is not checked.
pub(crate) fn uri(bytes: &[u8], value: Span) -> Option<&[u8]> {
    let mut cursor = Cursor::new(bytes, crate::line::trim(bytes, value));
    address(&mut cursor).ok().map(|parsed| parsed.uri.of(bytes))
}

/// Reads an optional display name and the URI after it.
pub(crate) fn address(cursor: &mut Cursor<'_>) -> Result<Parsed, Malformed> {
    let start = cursor.pos;
    if cursor.peek() == Some(b'<') {
        return bracketed(cursor, Span::new(start, start));
    }
    if cursor.peek() == Some(b'"') {
        cursor.quoted()?;
        let display = Span::new(start, cursor.pos);
        cursor.skip_lws();
        return bracketed(cursor, display);
    }
    // Tokens and white space before `<` are a display name; otherwise they begin a bare URI.
    cursor.run(TOKEN | LWS);
    if cursor.peek() == Some(b'<') {
        let display = Span::new(start, cursor.pos);
        return bracketed(cursor, display);
    }
    // Names in other alphabets are often sent without the quotes that they need (`Müller <sip:m@example.com>`). Such
    // text can only be a name.
    if cursor.peek().is_some_and(|b| !b.is_ascii()) {
        while cursor.peek().is_some_and(|b| !b.is_ascii() || chars::is(b, TOKEN | LWS)) {
            cursor.pos += 1;
        }
        let display = Span::new(start, cursor.pos);
        return bracketed(cursor, display);
    }
    bare(cursor, start)
}

/// `<URI>`.
fn bracketed(cursor: &mut Cursor<'_>, display: Span) -> Result<Parsed, Malformed> {
    if !cursor.eat(b'<') {
        return Err(Malformed);
    }
    let start = cursor.pos;
    cursor.find(b'>').filter(|()| cursor.pos > start).ok_or(Malformed)?;
    let uri = Span::new(start, cursor.pos);
    cursor.pos += 1;
    Ok(Parsed { display, uri, bracketed: true })
}

/// A URI without brackets: parameters after `;` belong to the header field, and the URI holds neither comma nor
/// question mark (RFC 3261 §20.10).
fn bare(cursor: &mut Cursor<'_>, start: usize) -> Result<Parsed, Malformed> {
    cursor.pos = start;
    while cursor.peek().is_some_and(|b| chars::is(b, chars::VALUE) && b != b'?') {
        cursor.pos += 1;
    }
    let uri = Span::new(start, cursor.pos);
    if crate::uri::scheme_of(uri.of(cursor.bytes)).is_none() {
        return Err(Malformed);
    }
    Ok(Parsed { display: Span::new(start, start), uri, bracketed: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let cases: [(&str, &str, &str, Option<&str>); 9] = [
            ("<sip:a@b>", "", "sip:a@b", None),
            ("\"J \\\\\\\"\"       <sip:j@e>\r\n  ;\r\n  tag = 98", "\"J \\\\\\\"\"", "sip:j@e", Some("98")),
            ("sip:v@c ;   tag    = 19", "", "sip:v@c", Some("19")),
            ("caller<sip:caller@e>;tag=323", "caller", "sip:caller@e", Some("323")),
            ("A. Bell <sip:a;lr@e;x>;y;TAG=q", "A. Bell", "sip:a;lr@e;x", Some("q")),
            ("isbn:2983792873", "", "isbn:2983792873", None),
            ("\"a, <b>\" < sip:t@w >", "\"a, <b>\"", " sip:t@w ", None),
            ("t1~` <sip:m@e>;p~=\"a;tag=x\";tag=_t", "t1~`", "sip:m@e", Some("_t")),
            ("Zo\u{eb} M <sip:z@e>", "Zo\u{eb} M", "sip:z@e", None),
        ];
        for (text, display, uri, tag) in cases {
            let expected =
                NameAddr { display: display.as_bytes(), uri: uri.as_bytes(), tag: tag.map(str::as_bytes) };
            assert_eq!(NameAddr::parse(text.as_bytes()), Some(expected), "{text}");
            assert_eq!(
                super::tag(text.as_bytes(), Span::new(0, text.len())).unwrap().map(|t| t.of(text.as_bytes())),
                tag.map(str::as_bytes)
            );
        }
    }

    #[test]
    fn malformed() {
        let bad = [
            "",
            "Bell, Alexander <sip:a@b>;tag=43",
            "\"Mr. J. User <sip:j.user@example.com>",
            "<sip:a@b",
            "<>",
            "sip:a@b?x=y",
            "a@b",
            "\"a\" sip:a@b",
            "<sip:a>;tag=",
            "<sip:a>;tag",
            "<sip:a>;tag=1;tag=2",
            "<sip:a>;;",
            "<sip:a> x",
            "<sip:a>, <sip:b>",
            "\"a\\",
        ];
        for text in bad {
            assert!(tag(text.as_bytes(), Span::new(0, text.len())).is_err(), "{text}");
        }
    }

    #[test]
    fn first_of_a_contact_list() {
        assert_eq!(NameAddr::parse(b" <sip:a@b>;q=0.1, <sip:c@d>").map(|a| a.uri), Some(&b"sip:a@b"[..]));
    }
}
