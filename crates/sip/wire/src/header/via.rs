//! Via (RFC 3261 §20.42), with `rport` (RFC 3581).

use std::net::IpAddr;

use base::Transport;

use crate::Span;
use crate::chars::{self, LWS, TOKEN};
use crate::cursor::{Cursor, Malformed, Param};
use crate::host::{self, Host};
use crate::uri;

/// The `rport` parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rport {
    /// No parameter.
    Absent,
    /// No value: the sender asks for the parameter to be filled in.
    Flag,
    /// Source port of the request.
    Port(u16),
}

/// One value of a Via header field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Via<'a> {
    /// The whole value, without surrounding commas and white space.
    pub value: Span,
    /// Transport of the sent-protocol, if known. Protocol name and version may be any tokens.
    pub transport: Option<Transport>,
    /// Host of the sent-by.
    pub host: Host<'a>,
    /// Port of the sent-by.
    pub port: Option<u16>,
    /// Absent in RFC 2543 messages; may lack the `z9hG4bK` cookie.
    pub branch: Option<&'a [u8]>,
    /// Source address of the request.
    pub received: Option<IpAddr>,
    /// Source port of the request, or the request to fill it in.
    pub rport: Rport,
    /// Destination of responses that overrides the source.
    pub maddr: Option<Host<'a>>,
    /// TTL of a multicast `maddr`.
    pub ttl: Option<u8>,
    /// Position of the value of `received`, for its replacement.
    pub(crate) received_at: Option<Span>,
    /// Position after the name `rport`: empty, or `=` and the port.
    pub(crate) rport_at: Option<Span>,
}

/// A Via value, and whether all of it could be read.
pub(crate) struct Parsed<'a> {
    pub(crate) via: Via<'a>,
    /// Start of the next value on the line.
    pub(crate) next: Option<u32>,
    /// Whether the whole value is well formed. If not, the sent-by still is, which suffices to answer.
    pub(crate) clean: bool,
}

/// Reads the first value in `span`; an error if not even its sent-by can be read.
pub(crate) fn parse(bytes: &[u8], span: Span) -> Result<Parsed<'_>, Malformed> {
    let mut cursor = Cursor::new(bytes, span);
    let transport = sent_protocol(&mut cursor)?;
    let mut via = Via::new(span, transport, cursor.host().ok_or(Malformed)?);
    let rest = via.rest(&mut cursor);
    if rest.is_err() {
        cursor.skip_value();
    }
    via.value.end = cursor.pos as u32;
    if let Ok(next) = cursor.list_end() {
        return Ok(Parsed { via, next, clean: rest.is_ok() });
    }
    cursor.skip_value();
    via.value.end = cursor.pos as u32;
    Ok(Parsed { via, next: None, clean: false })
}

/// Reads a value of which every part must be well formed, and returns it with the start of the next one.
pub(crate) fn parse_strict(bytes: &[u8], span: Span) -> Result<(Via<'_>, Option<u32>), BadVia> {
    match parse(bytes, span) {
        Ok(Parsed { via, next, clean: true }) => Ok((via, next)),
        _ => Err(BadVia),
    }
}

/// Error: a Via value that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadVia;

/// Reads `SIP/2.0/UDP` and the white space after it.
fn sent_protocol(cursor: &mut Cursor<'_>) -> Result<Option<Transport>, Malformed> {
    // Nearly every Via starts like this.
    if cursor.bytes[cursor.pos..].starts_with(b"SIP/2.0/UDP ") {
        cursor.pos += 12;
        cursor.skip_lws();
        return Ok(Some(Transport::Udp));
    }
    for _ in 0..2 {
        cursor.token()?;
        if !cursor.eat_spaced(b'/') {
            return Err(Malformed);
        }
    }
    let transport = cursor.run(TOKEN);
    if transport.is_empty() || cursor.run(LWS).is_empty() {
        return Err(Malformed);
    }
    Ok(Transport::parse(transport.of(cursor.bytes)))
}

/// Parameter of a Via value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViaParam<'a> {
    /// The whole parameter, with the semicolon and the white space before it.
    pub whole: Span,
    /// Name as written.
    pub name: &'a [u8],
    /// Value; a quoted string with its quotes.
    pub value: Option<&'a [u8]>,
}

impl<'a> Via<'a> {
    /// The value of a message whose Via is not read yet.
    pub(crate) const EMPTY: Self = Self::new(Span { start: 0, end: 0 }, None, Host::Name(b""));

    /// A Via without port and parameters.
    const fn new(value: Span, transport: Option<Transport>, host: Host<'a>) -> Self {
        Self {
            value,
            transport,
            host,
            port: None,
            branch: None,
            received: None,
            rport: Rport::Absent,
            maddr: None,
            ttl: None,
            received_at: None,
            rport_at: None,
        }
    }

    /// All parameters in order, up to the first malformed one. `bytes` is the message.
    pub fn params(&self, bytes: &'a [u8]) -> impl Iterator<Item = ViaParam<'a>> + use<'a> {
        // No text before the first parameter contains a semicolon.
        let text = self.value.of(bytes);
        let before = text.iter().position(|&byte| byte == b';').map_or(text, |semicolon| &text[..semicolon]);
        let space = before.iter().rev().take_while(|&&byte| chars::is(byte, LWS)).count();
        let first = self.value.start as usize + before.len() - space;
        let mut cursor = Cursor::new(bytes, Span { start: first as u32, ..self.value });
        core::iter::from_fn(move || {
            let start = cursor.pos;
            let Param { name, value } = cursor.param().ok().flatten()?;
            let whole = Span::new(start, cursor.pos);
            Some(ViaParam { whole, name: name.of(bytes), value: value.map(|value| value.of(bytes)) })
        })
    }

    /// Port of the sent-by, or else the default port of its transport (RFC 3261 §18.2.2): 5060 if that is unknown.
    pub fn sent_by_port(&self) -> u16 {
        self.port.unwrap_or(self.transport.unwrap_or_default().default_port())
    }

    /// Reads port and parameters.
    fn rest(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        if cursor.eat_spaced(b':') {
            let digits = cursor.run(TOKEN);
            self.port = Some(uri::port(digits.of(cursor.bytes)).ok_or(Malformed)?);
        }
        self.branch = cursor.usual_param(b";branch=").map(|branch| branch.of(cursor.bytes));
        while let Some(param) = cursor.param()? {
            self.param(cursor.bytes, param)?;
        }
        Ok(())
    }

    /// Reads one parameter. A known parameter must not be repeated: elements would differ in the value that they use.
    fn param(&mut self, bytes: &'a [u8], param: Param) -> Result<(), Malformed> {
        fn once<T>(slot: &mut Option<T>, value: Option<T>) -> Result<(), Malformed> {
            if slot.is_some() || value.is_none() {
                return Err(Malformed);
            }
            *slot = value;
            Ok(())
        }
        let name = param.name.of(bytes);
        let value = param.value.map(|value| value.of(bytes));
        match name.len() {
            6 if name.eq_ignore_ascii_case(b"branch") => once(&mut self.branch, value),
            5 if name.eq_ignore_ascii_case(b"rport") => {
                self.rport = match (self.rport, value) {
                    (Rport::Absent, None) => Rport::Flag,
                    (Rport::Absent, Some(digits)) => Rport::Port(uri::port(digits).ok_or(Malformed)?),
                    _ => return Err(Malformed),
                };
                let end = param.value.map_or(param.name.end, |value| value.end);
                self.rport_at = Some(Span { start: param.name.end, end });
                Ok(())
            }
            8 if name.eq_ignore_ascii_case(b"received") => {
                self.received_at = param.value;
                once(&mut self.received, value.and_then(host::ip))
            }
            5 if name.eq_ignore_ascii_case(b"maddr") => once(&mut self.maddr, value.and_then(Host::parse)),
            3 if name.eq_ignore_ascii_case(b"ttl") => {
                once(&mut self.ttl, value.and_then(|v| chars::number(v, 255)).map(|n| n as u8))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(text: &str) -> Via<'_> {
        parse_strict(text.as_bytes(), Span::new(0, text.len())).unwrap_or_else(|_| panic!("{text}")).0
    }

    #[test]
    fn parameters_one_by_one() {
        let text = "SIP/2.0/UDP [::1]:5071 ; branch=z9hG4bKx;Done = state;x=\",;\";oc";
        let params: Vec<_> = strict(text).params(text.as_bytes()).collect();
        let texts = params.iter().map(|param| param.whole.of(text.as_bytes()).escape_ascii().to_string());
        assert_eq!(
            texts.collect::<Vec<_>>(),
            [" ; branch=z9hG4bKx", ";Done = state", ";x=\\\",;\\\"", ";oc"]
        );
        assert_eq!((params[1].name, params[1].value), (&b"Done"[..], Some(&b"state"[..])));
        assert_eq!((params[3].name, params[3].value), (&b"oc"[..], None));
        let bare = "SIP/2.0/UDP a.example.com";
        assert_eq!(strict(bare).params(bare.as_bytes()).count(), 0);
    }

    #[test]
    fn all_parameters() {
        let via = strict(
            "SIP/2.0/TLS a.example.com:5071;branch=z9hG4bKx;received=192.0.2.1;RPORT=99;maddr=[::1];ttl=16;oc;x=\",;\"",
        );
        assert_eq!(via.transport, Some(Transport::Tls));
        assert_eq!((via.host, via.port), (Host::Name(b"a.example.com"), Some(5071)));
        assert_eq!(via.branch, Some(&b"z9hG4bKx"[..]));
        assert_eq!(via.received, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(via.rport, Rport::Port(99));
        assert_eq!(via.maddr, Some(Host::V6("::1".parse().unwrap())));
        assert_eq!(via.ttl, Some(16));
    }

    #[test]
    fn white_space_and_lists() {
        // RFC 4475 §3.1.1.1.
        let text = "SIP  / 2.0  / TCP     spindle.example.com : 5 ;\r\n  branch  =   z9 ,\r\n SIP  /    2.0   / UDP  1.2.3.4   ; rport";
        let (first, next) = parse_strict(text.as_bytes(), Span::new(0, text.len())).unwrap();
        assert_eq!(
            (first.transport, first.port, first.branch),
            (Some(Transport::Tcp), Some(5), Some(&b"z9"[..]))
        );
        assert!(text[..first.value.end as usize].ends_with("z9"));
        let second = Span::new(next.unwrap() as usize, text.len());
        let (second, next) = parse_strict(text.as_bytes(), second).unwrap();
        assert_eq!((second.transport, second.rport, next), (Some(Transport::Udp), Rport::Flag, None));
    }

    #[test]
    fn ipv6_and_received_with_brackets() {
        let via = strict("SIP/2.0/UDP [2001:db8::9:1];received=[2001:db8::9:255];branch=z9hG4bKas3-111");
        assert_eq!(via.host, Host::V6("2001:db8::9:1".parse().unwrap()));
        assert_eq!(via.received, Some("2001:db8::9:255".parse().unwrap()));
    }

    #[test]
    fn sent_by_survives_bad_parameters() {
        for text in [
            "SIP/2.0/UDP 192.0.2.15;;,;,,",
            "SIP/2.0/UDP 192.0.2.15:0",
            "SIP/2.0/UDP 192.0.2.15:70000",
            "SIP/2.0/UDP 192.0.2.15;branch=",
            "SIP/2.0/UDP 192.0.2.15;branch=a;branch=b",
            "SIP/2.0/UDP 192.0.2.15;rport=0",
            "SIP/2.0/UDP 192.0.2.15;rport;rport",
            "SIP/2.0/UDP 192.0.2.15;received=here",
            "SIP/2.0/UDP 192.0.2.15;received=1.1.1.1;received=1.1.1.2",
            "SIP/2.0/UDP 192.0.2.15;maddr=[",
            "SIP/2.0/UDP 192.0.2.15;ttl=256",
            "SIP/2.0/UDP 192.0.2.15;x=\"open",
            "SIP/2.0/UDP 192.0.2.15 x",
            "SIP/2.0/UDP 192.0.2.15,",
            "SIP/7.0/UDP 192.0.2.15;;",
        ] {
            let parsed =
                parse(text.as_bytes(), Span::new(0, text.len())).unwrap_or_else(|_| panic!("{text}"));
            assert!(!parsed.clean, "{text}");
            assert_eq!(parsed.via.host, Host::parse(b"192.0.2.15").unwrap(), "{text}");
        }
    }

    #[test]
    fn without_sent_by() {
        for text in
            ["", "SIP/2.0/UDP", "SIP/2.0/UDP ", "SIP/2.0 h", "SIP/2.0/UDP ;a", "SIP/2.0/UDP 2001:db8::1", "x"]
        {
            let parsed = parse(text.as_bytes(), Span::new(0, text.len()));
            assert!(parsed.is_err() || !parsed.is_ok_and(|p| p.clean), "{text}");
        }
        assert!(parse(b"SIP/2.0/UDP [::1", Span::new(0, 16)).is_err());
    }
}
