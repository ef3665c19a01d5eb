//! Header lines: their ends and their names.

use crate::Span;
use crate::chars::{self, TOKEN};
use crate::header::{Name, name};
use crate::vector;

/// One header field with its folds.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// Offset of the name.
    pub(crate) start: u32,
    /// Field name: a token, or empty.
    pub(crate) name: Span,
    /// Field with this name.
    pub(crate) field: Name,
    /// Value from the colon to the line end, with the white space around it.
    pub(crate) value: Span,
    /// Offset of the next line.
    pub(crate) next: u32,
    /// Whether all line ends, folds included, are CRLF.
    pub(crate) strict: bool,
}

impl Line {
    /// The whole line with its line end.
    pub(crate) fn whole(&self) -> Span {
        Span { start: self.start, end: self.next }
    }

    /// Value without the white space around it.
    #[inline]
    pub(crate) fn trimmed(&self, bytes: &[u8]) -> Span {
        trim(bytes, self.value)
    }
}

/// Item at the start of a line in the header.
pub(crate) enum Next {
    /// A header field. Its name is empty if the line is malformed.
    Field(Line),
    /// The empty line; the body starts at `body`.
    End { body: usize, strict: bool },
    /// The bytes end within the line.
    Truncated,
}

/// `span` without the white space at its ends.
#[inline]
pub(crate) fn trim(bytes: &[u8], span: Span) -> Span {
    let text = span.of(bytes);
    // Nearly every value: one space before it.
    if let [b' ', first, .., last] = *text
        && first > b' '
        && last > b' '
    {
        return Span { start: span.start + 1, end: span.end };
    }
    let start = text.iter().position(|&b| !chars::is(b, chars::LWS)).unwrap_or(text.len());
    let end = text.iter().rposition(|&b| !chars::is(b, chars::LWS)).map_or(start, |i| i + 1);
    Span { start: span.start + start as u32, end: span.start + end as u32 }
}

/// End of a line's text, start of the next line, and whether the line end was CRLF.
pub(crate) struct End {
    pub(crate) text: usize,
    pub(crate) next: usize,
    pub(crate) strict: bool,
}

/// Finds the end of the physical line that contains `from`.
///
/// Only CRLF ends a line (RFC 3261 §7). A bare LF counts as a line end too, so that the sender gets an error response.
/// A header with a bare LF is never forwarded, since elements that read it differently would see different headers. A
/// bare CR does not end a line, but makes the line not strict, for the same reason.
#[inline]
pub(crate) fn physical_end(bytes: &[u8], from: usize) -> Option<End> {
    let mut at = from;
    let mut strict = true;
    loop {
        let text = vector::line_end(bytes, at)?;
        match bytes[text..] {
            [b'\r', b'\n', ..] => return Some(End { text, next: text + 2, strict }),
            [b'\n', ..] => return Some(End { text, next: text + 1, strict: false }),
            _ => {}
        }
        strict = false;
        at = text + 1;
    }
}

/// Finds the end of the line with its continuations, which start with SP or HTAB (RFC 3261 §7.3.1).
#[inline]
fn logical_end(bytes: &[u8], from: usize) -> Option<End> {
    let text = vector::line_end(bytes, from)?;
    match bytes[text..].first_chunk() {
        Some([b'\r', b'\n', after]) if !matches!(after, b' ' | b'\t') => {
            Some(End { text, next: text + 2, strict: true })
        }
        _ => unusual_end(bytes, from),
    }
}

/// The same for any line.
#[cold]
fn unusual_end(bytes: &[u8], from: usize) -> Option<End> {
    let mut end = physical_end(bytes, from)?;
    while let Some(b' ' | b'\t') = bytes.get(end.next) {
        let more = physical_end(bytes, end.next)?;
        end = End { strict: end.strict && more.strict, ..more };
    }
    Some(end)
}

/// Reads the line that starts at `pos`.
#[expect(clippy::inline_always, reason = "the scan of a message takes 4 % more where it is called")]
#[inline(always)]
pub(crate) fn next(bytes: &[u8], pos: usize) -> Next {
    if bytes.get(pos).is_some_and(|&first| first <= b'\r') {
        match bytes[pos..] {
            [b'\r', b'\n', ..] => return Next::End { body: pos + 2, strict: true },
            [b'\n', ..] => return Next::End { body: pos + 1, strict: false },
            _ => {}
        }
    }
    let (field, name_end, colon) = match name::spelled_as_usual(&bytes[pos..]) {
        Some((field, length)) => (field, pos + length, pos + length),
        None => spelled_out(bytes, pos),
    };
    let found = bytes.get(colon) == Some(&b':');
    let Some(end) = logical_end(bytes, colon) else { return Next::Truncated };
    let (field, name, value) = if found {
        (field, Span::new(pos, name_end), Span::new(colon + 1, end.text))
    } else {
        (Name::Other, Span::new(pos, pos), Span::new(end.text, end.text))
    };
    Next::Field(Line { start: pos as u32, name, field, value, next: end.next as u32, strict: end.strict })
}

/// Start of the line after the field that starts at `pos`, without reading the field.
#[inline]
pub(crate) fn pass(bytes: &[u8], pos: usize) -> Option<usize> {
    logical_end(bytes, pos).map(|end| end.next)
}

/// Reads the name at `pos` in any spelling. Returns its field, its end, and the expected position of its colon.
fn spelled_out(bytes: &[u8], pos: usize) -> (Name, usize, usize) {
    let mut name_end = pos;
    while bytes.get(name_end).is_some_and(|&b| chars::is(b, TOKEN)) {
        name_end += 1;
    }
    // HCOLON: white space may precede the colon, but not a fold.
    let mut colon = name_end;
    while let Some(b' ' | b'\t') = bytes.get(colon) {
        colon += 1;
    }
    (Name::of(&bytes[pos..name_end]), name_end, colon)
}

/// Iterator over the header fields from the line at `pos` to the end of the header.
#[derive(Clone)]
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(bytes: &'a [u8], pos: u32) -> Self {
        Self { bytes, pos: pos as usize }
    }

    /// Only the fields with this name.
    pub(crate) fn named(self, name: Name) -> impl Iterator<Item = Line> + Clone + use<'a> {
        self.filter(move |line| line.field == name)
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        match next(self.bytes, self.pos) {
            Next::Field(line) => {
                self.pos = line.next as usize;
                Some(line)
            }
            Next::End { .. } | Next::Truncated => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &[u8]) -> (Vec<u8>, Vec<u8>, bool, usize) {
        match next(text, 0) {
            Next::Field(l) => {
                (l.name.of(text).to_vec(), l.trimmed(text).of(text).to_vec(), l.strict, l.next as usize)
            }
            _ => panic!("no field in {}", text.escape_ascii()),
        }
    }

    #[test]
    fn folds_and_white_space() {
        assert_eq!(field(b"TO :\r\n x\r\n\ty \r\n\r\n"), (b"TO".to_vec(), b"x\r\n\ty".to_vec(), true, 15));
        assert_eq!(field(b"s:\r\nv: x\r\n"), (b"s".to_vec(), vec![], true, 4));
    }

    #[test]
    fn bare_line_ends_are_not_strict() {
        assert_eq!(field(b"a: b\nc"), (b"a".to_vec(), b"b".to_vec(), false, 5));
        assert_eq!(field(b"a: b\rc\r\nd"), (b"a".to_vec(), b"b\rc".to_vec(), false, 8));
        assert_eq!(field(b"a: b\r\n c\n d\r\ne"), (b"a".to_vec(), b"b\r\n c\n d".to_vec(), false, 13));
    }

    #[test]
    fn lines_that_are_no_field_have_no_name() {
        for text in [&b"Foobar roobar\r\nx"[..], b" a: b\r\nx", b": b\r\nx", b"a\x00: b\r\nx"] {
            assert_eq!(field(text).0, b"", "{}", text.escape_ascii());
        }
    }

    #[test]
    fn ends() {
        assert!(matches!(next(b"\r\nbody", 0), Next::End { body: 2, strict: true }));
        assert!(matches!(next(b"\nbody", 0), Next::End { body: 1, strict: false }));
        for text in [&b""[..], b"a", b"a: b", b"a: b\r", b"\r"] {
            assert!(matches!(next(text, 0), Next::Truncated), "{}", text.escape_ascii());
        }
        // A fold at the end of the bytes is not a complete line either.
        assert!(matches!(next(b"a: b\r\n c", 0), Next::Truncated));
    }
}
