//! The start line (RFC 3261 §7.1, §7.2).

use crate::chars::{self, TOKEN};
use crate::line;
use crate::scan::{Discard, Fault};
use crate::uri::{self, SipUri, UriError};
use crate::{Method, Span};

/// Parsed start line: request or response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// A request.
    Request {
        /// The method.
        method: Method,
        /// Text of the method.
        method_span: Span,
        /// The Request-URI as written; possibly malformed if the message has a fault.
        uri: Span,
    },
    /// A response.
    Response {
        /// Status code, 100 to 699.
        status: u16,
    },
}

/// A start line that could be read.
pub(crate) struct StartLine {
    pub(crate) start: Start,
    pub(crate) fault: Option<Fault>,
    /// Position of `SIP/2.0` if it is not in upper case.
    pub(crate) odd_version: Option<Span>,
    /// Offset of the first header line.
    pub(crate) next: usize,
}

const BAD_LINE: Fault = Fault::bad("Malformed Request-Line");
const BAD_URI: Fault = Fault::bad("Malformed Request-URI");

/// Reads the start line of a message.
pub(crate) fn parse(bytes: &[u8]) -> Result<StartLine, Discard> {
    let end = line::physical_end(bytes, 0).ok_or(Discard::NotSip)?;
    let text = &bytes[..end.text];
    if text.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"SIP/")) {
        if !end.strict {
            return Err(Discard::BadResponse(Fault::LINE_END.reason));
        }
        let status = status_line(text)?;
        let odd_version = (!text.starts_with(b"SIP/2.0")).then_some(Span { start: 0, end: 7 });
        return Ok(StartLine { start: Start::Response { status }, fault: None, odd_version, next: end.next });
    }
    let (start, version, fault) = request_line(text).ok_or(Discard::NotSip)?;
    let fault = fault.or(if end.strict { None } else { Some(Fault::LINE_END) });
    let odd_version = (version.of(bytes) != b"SIP/2.0").then_some(version);
    Ok(StartLine { start, fault, odd_version, next: end.next })
}

/// Reads `SIP/2.0 200 OK`. The reason phrase may be empty, also without the space before it.
fn status_line(text: &[u8]) -> Result<u16, Discard> {
    if !text.get(..7).is_some_and(|version| version.eq_ignore_ascii_case(b"SIP/2.0")) {
        return Err(Discard::BadResponse("Version Not Supported"));
    }
    let bad = Discard::BadResponse("Malformed Status-Line");
    let rest = text[7..].strip_prefix(b" ").ok_or(bad)?;
    let digits = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
    // Three digits, and six classes (RFC 3261 §7.2).
    match chars::number(&rest[..digits], 699) {
        Some(status) if digits == 3 && status >= 100 => Ok(status as u16),
        _ => Err(bad),
    }
}

/// Reads `Method SP Request-URI SP SIP-Version`; `None` if the line does not end with a SIP version, since it then need
/// not be SIP.
///
/// The parts are found even if there are several spaces, for the error response and for logs.
fn request_line(text: &[u8]) -> Option<(Start, Span, Option<Fault>)> {
    let (method_end, version_start, version_end) = request_parts(text)?;
    let version = &text[version_start..version_end];
    let uri_start = method_end + 1;
    // `METHOD SIP/2.0`: the only space separates all parts.
    let uri_end = (version_start - 1).max(uri_start);
    let uri = &text[uri_start..uri_end];
    let fault = if version_start <= uri_start || version_end != text.len() {
        Some(BAD_LINE)
    } else if !version.eq_ignore_ascii_case(b"SIP/2.0") {
        Some(version_fault(version))
    } else {
        uri_fault(uri)
    };
    let method_span = Span::new(0, method_end);
    let start = Start::Request {
        method: Method::parse(method_span.of(text)),
        method_span,
        uri: Span::new(uri_start, uri_end),
    };
    Some((start, Span::new(version_start, version_end), fault))
}

/// End of the method of a request line, and start and end of its version.
#[expect(clippy::inline_always, reason = "the scan of a message takes 4 % more where it is called")]
#[inline(always)]
fn request_parts(text: &[u8]) -> Option<(usize, usize, usize)> {
    let (version_start, version_end) = if text.ends_with(b" SIP/2.0") {
        (text.len() - 7, text.len())
    } else {
        let end = text.iter().rposition(|&b| b != b' ' && b != b'\t')? + 1;
        (memchr::memrchr(b' ', &text[..end])? + 1, end)
    };
    let version = &text[version_start..version_end];
    if !version.get(..4)?.eq_ignore_ascii_case(b"SIP/") {
        return None;
    }
    let method_end = text.iter().position(|&b| !chars::is(b, TOKEN))?;
    if method_end == 0 || text[method_end] != b' ' {
        return None;
    }
    Some((method_end, version_start, version_end))
}

/// Whether [`parse`] takes this line for a SIP start line, well formed or not.
pub(crate) fn is_start_line(text: &[u8]) -> bool {
    text.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"SIP/")) || request_parts(text).is_some()
}

/// Whether a line that begins with these bytes can be a start line; `false` only if it cannot.
pub(crate) fn may_begin(text: &[u8]) -> bool {
    let version = text.len().min(4);
    if text[..version].eq_ignore_ascii_case(&b"SIP/"[..version]) {
        return true;
    }
    let method_end = text.iter().position(|&b| !chars::is(b, TOKEN));
    method_end.is_none_or(|end| end > 0 && text[end] == b' ')
}

/// Another version gets a 505 (RFC 3261 §21.5.6), a malformed version a 400.
fn version_fault(version: &[u8]) -> Fault {
    let mut parts = version[4..].split(|&b| b == b'.');
    let mut digits =
        || parts.next().is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    if digits() && digits() && parts.next().is_none() {
        Fault { status: 505, reason: "Version Not Supported" }
    } else {
        BAD_LINE
    }
}

/// Fault of a Request-URI, if any. The proxy decides on schemes other than `sip` (416).
fn uri_fault(text: &[u8]) -> Option<Fault> {
    match SipUri::parse(text) {
        // RFC 3261 §19.1.1: no headers in a Request-URI; after forwarding they could become real header fields.
        Ok(SipUri { has_headers: true, .. }) => Some(Fault::bad("Request-URI With Headers")),
        Ok(_) => None,
        Err(UriError::OtherScheme) if uri::is_uri_text(text) => None,
        Err(_) => Some(BAD_URI),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> Option<u16> {
        parse(format!("{line}\r\n").as_bytes())
            .unwrap_or_else(|e| panic!("{line}: {e:?}"))
            .fault
            .map(|f| f.status)
    }

    #[test]
    fn request_lines() {
        let bytes = b"INVITE sip:a@b SIP/2.0\r\n";
        let Start::Request { method, method_span, uri } = parse(bytes).ok().unwrap().start else { panic!() };
        assert_eq!(
            (method, method_span.of(bytes), uri.of(bytes)),
            (Method::Invite, &b"INVITE"[..], &b"sip:a@b"[..])
        );
        assert_eq!(fault("NEW!%~ tel:+1 sip/2.0"), None);
        for (line, status) in [
            ("INVITE  sip:a@b  SIP/2.0", 400),
            ("INVITE sip:a@b SIP/2.0  ", 400),
            ("INVITE sip:a@b; lr SIP/2.0", 400),
            ("INVITE <sip:a@b> SIP/2.0", 400),
            ("INVITE sip:a@b?Route=x SIP/2.0", 400),
            ("INVITE tel:<> SIP/2.0", 400),
            ("INVITE a@b SIP/2.0", 400),
            ("INVITE SIP/2.0", 400),
            ("INVITE  SIP/2.0", 400),
            ("INVITE sip:a@b SIP/x", 400),
            ("INVITE sip:a@b SIP/2.00", 505),
            ("INVITE sip:a@b SIP/7.0", 505),
        ] {
            assert_eq!(fault(line), Some(status), "{line}");
        }
        for line in ["INVITE sip:alan@jasomi.com", "GET / HTTP/1.1", "", " ", "(x) sip:a SIP/2.0", "SIP"] {
            assert!(matches!(parse(format!("{line}\r\n").as_bytes()), Err(Discard::NotSip)), "{line}");
        }
    }

    #[test]
    fn status_lines() {
        for (line, status) in [("SIP/2.0 100 ", 100), ("SIP/2.0 699 \u{f6}", 699), ("sip/2.0 200", 200)] {
            let found = parse(format!("{line}\r\n").as_bytes()).ok().unwrap();
            assert_eq!(found.start, Start::Response { status }, "{line}");
            assert_eq!(found.odd_version.is_some(), line.starts_with('s'));
        }
        for line in [
            "SIP/2.0 099 x",
            "SIP/2.0 700 x",
            "SIP/2.0 4294967301 x",
            "SIP/2.0  200 OK",
            "SIP/3.0 200 OK",
            "SIP/2.0",
        ] {
            assert!(
                matches!(parse(format!("{line}\r\n").as_bytes()), Err(Discard::BadResponse(_))),
                "{line}"
            );
        }
    }
}
