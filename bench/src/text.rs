//! SIP text as far as the two ends need it. Independent of the product's code, so that a fault there is not hidden
//! here.

/// Start line: the method of a request, or the status of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartLine<'a> {
    /// A request and its method.
    Request(&'a [u8]),
    /// A response and its status code.
    Response(u16),
}

/// Returns the start line of `datagram`; `None` if it is not SIP.
pub fn start(datagram: &[u8]) -> Option<StartLine<'_>> {
    let line = datagram.split(|octet| *octet == b'\r').next()?;
    let mut words = line.split(|octet| *octet == b' ');
    let (first, second) = (words.next()?, words.next()?);
    if first != b"SIP/2.0" {
        return line.ends_with(b" SIP/2.0").then_some(StartLine::Request(first));
    }
    std::str::from_utf8(second).ok()?.parse().ok().map(StartLine::Response)
}

/// Returns the user in the Request-URI of `datagram`.
pub fn user(datagram: &[u8]) -> Option<&[u8]> {
    let uri = datagram.split(|octet| *octet == b' ').nth(1)?;
    let (user, _) = uri.strip_prefix(b"sip:")?.split_at(uri.iter().position(|octet| *octet == b'@')? - 4);
    Some(user)
}

/// Returns the header lines of `datagram` in order, each with its line end.
pub fn lines(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    datagram.split_inclusive(|octet| *octet == b'\n').skip(1).take_while(|line| *line != b"\r\n")
}

/// Returns the trimmed value of `line` if its header has this `name` (in full, in any case).
pub fn value<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (head, rest) = line.split_at_checked(name.len())?;
    let rest = rest.strip_prefix(b":")?;
    head.eq_ignore_ascii_case(name.as_bytes()).then(|| rest.trim_ascii())
}

/// Returns the first value of header `name`.
pub fn header<'a>(datagram: &'a [u8], name: &str) -> Option<&'a [u8]> {
    lines(datagram).find_map(|line| value(line, name))
}

/// Splits a list of values at commas, except within angle brackets (RFC 3261 §7.3.1).
pub fn list(values: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut within = false;
    let parts = values.split(move |octet| {
        match octet {
            b'<' => within = true,
            b'>' => within = false,
            _ => {}
        }
        *octet == b',' && !within
    });
    parts.map(<[u8]>::trim_ascii)
}

/// Returns the text between the angle brackets of a name-addr, or all of it if there are none.
pub fn uri(name_addr: &[u8]) -> &[u8] {
    let inner = name_addr.split(|octet| *octet == b'<').nth(1);
    inner.and_then(|inner| inner.split(|octet| *octet == b'>').next()).unwrap_or(name_addr)
}

/// Returns the tag of a From or To value.
pub fn tag(name_addr: &[u8]) -> Option<&[u8]> {
    let params = name_addr.rsplit(|octet| *octet == b'>').next()?;
    params.split(|octet| *octet == b';').find_map(|param| param.strip_prefix(b"tag="))
}

/// Returns a parameter of a challenge (RFC 3261 §25.1) without quotes. Values of ours have no escapes.
pub fn auth_param<'a>(challenge: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (_, params) = challenge.split_at_checked(challenge.iter().position(|octet| *octet == b' ')?)?;
    let mut is_quoted = false;
    let params = params.split(move |octet| {
        is_quoted ^= *octet == b'"';
        *octet == b',' && !is_quoted
    });
    let value = params
        .filter_map(|param| param.trim_ascii().strip_prefix(name.as_bytes()))
        .find_map(|param| param.strip_prefix(b"="))?;
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// Returns the number of a CSeq value.
pub fn cseq_number(cseq: &[u8]) -> Option<u32> {
    std::str::from_utf8(cseq.split(|octet| *octet == b' ').next()?).ok()?.parse().ok()
}

/// A session description of the usual size: G.711 and telephone events (RFC 4566).
pub const SDP: &str = "v=0\r\no=- 3724394400 3724394405 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 49170 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] = b"SIP/2.0 180 Ringing\r\nVia: SIP/2.0/UDP 127.0.0.1:5060\r\n\
        record-route: <sip:a,b@h;lr>, <sip:c;lr>\r\nTo: \"x\" <sip:u@h>;tag=s3\r\n\r\nTo: <sip:body>\r\n";

    #[test]
    fn start_lines_tell_requests_from_responses() {
        assert_eq!(start(RESPONSE), Some(StartLine::Response(180)));
        assert_eq!(start(b"BYE sip:u@h SIP/2.0\r\n\r\n"), Some(StartLine::Request(b"BYE")));
        assert_eq!(start(b"hello world\r\n"), None);
        assert_eq!(start(b""), None);
    }

    #[test]
    fn the_user_stands_before_the_at() {
        assert_eq!(user(b"INVITE sip:u@h SIP/2.0\r\n"), Some(&b"u"[..]));
        assert_eq!(user(b"INVITE sip:h SIP/2.0\r\n"), None);
        assert_eq!(user(b"INVITE tel:1@ SIP/2.0\r\n"), None);
    }

    #[test]
    fn headers_are_found_in_any_case_and_never_in_the_body() {
        assert_eq!(lines(RESPONSE).count(), 3);
        assert_eq!(header(RESPONSE, "Record-Route"), Some(&b"<sip:a,b@h;lr>, <sip:c;lr>"[..]));
        assert_eq!(header(RESPONSE, "Contact"), None);
    }

    #[test]
    fn a_list_is_split_outside_angle_brackets_only() {
        let routes = header(RESPONSE, "Record-Route").expect("present");
        assert_eq!(list(routes).collect::<Vec<_>>(), [&b"<sip:a,b@h;lr>"[..], b"<sip:c;lr>"]);
    }

    #[test]
    fn parameters_of_a_challenge_lose_their_quotes() {
        let challenge = b"Digest realm=\"a, b\", nonce=\"n=1\",algorithm=MD5, qop=\"auth\"";
        let values = ["realm", "nonce", "algorithm", "qop", "opaque"].map(|name| auth_param(challenge, name));
        assert_eq!(
            values,
            [Some(&b"a, b"[..]), Some(&b"n=1"[..]), Some(&b"MD5"[..]), Some(&b"auth"[..]), None]
        );
        assert_eq!([cseq_number(b"17 INVITE"), cseq_number(b"x INVITE")], [Some(17), None]);
    }

    #[test]
    fn uri_and_tag_come_out_of_a_name_addr() {
        let to = header(RESPONSE, "To").expect("present");
        assert_eq!((uri(to), tag(to)), (&b"sip:u@h"[..], Some(&b"s3"[..])));
        assert_eq!((uri(b"sip:plain"), tag(b"<sip:u@h;tag=no>")), (&b"sip:plain"[..], None));
    }
}
