//! A scanned message.

use crate::Span;
use crate::header::Name;
use crate::header::cseq::CSeq;
use crate::header::list::Group;
use crate::header::route::{self, RouteValue, Routes};
use crate::header::via::{self, BadVia, Via};
use crate::header::{name, name_addr, retry_after};
use crate::line::{self, Lines};
use crate::scan::Fault;
use crate::start::Start;
use crate::{Method, chars};

/// Header fields found by the scan.
#[derive(Clone, Default)]
pub(crate) struct Fields {
    pub(crate) via: Group,
    /// The first Via line, with its line end.
    pub(crate) via_line: Span,
    /// Start of the second value on the first Via line.
    pub(crate) via_next: Option<u32>,
    /// The value of the second Via line.
    pub(crate) via_below: Option<Span>,
    pub(crate) record_route: Group,
    pub(crate) proxy_require: Group,
    pub(crate) call_id: Option<Span>,
    /// The value, and its parsed form if it is well formed.
    pub(crate) cseq: Option<(Span, Option<CSeq>)>,
    /// The value and its tag.
    pub(crate) from: Option<(Span, Option<Span>)>,
    pub(crate) to: Option<(Span, Option<Span>)>,
    /// The value of the first Contact line.
    pub(crate) contact: Option<Span>,
    pub(crate) max_forwards: Option<(u32, Span)>,
    pub(crate) max_breadth: Option<(u32, Span)>,
    pub(crate) content_length: Option<u32>,
    pub(crate) retry_after: Option<Span>,
}

/// A scanned message: the received bytes, and the positions of its parts.
///
/// - Always present: [`bytes`](Self::bytes), [`start`](Self::start), [`top_via`](Self::top_via).
/// - To be checked first: [`fault`](Self::fault). With a fault, unreadable parts are empty or absent.
/// - Found by the scan: [`call_id`](Self::call_id), [`cseq`](Self::cseq), the tags,
///   [`max_forwards`](Self::max_forwards).
/// - Read on demand: [`second_via`](Self::second_via), [`vias`](Self::vias), [`routes`](Self::routes),
///   [`header`](Self::header) and the rest.
#[derive(Clone)]
pub struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) start: Start,
    pub(crate) odd_version: Option<Span>,
    /// Offset of the first header line.
    pub(crate) header: u32,
    /// Offset of the body.
    pub(crate) body: u32,
    pub(crate) fault: Option<Fault>,
    pub(crate) top_via: Via<'a>,
    pub(crate) routes: Routes<'a>,
    pub(crate) fields: Fields,
}

impl<'a> Message<'a> {
    /// Bytes of the message, without empty lines before it and octets beyond its Content-Length.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The body.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body as usize..]
    }

    /// Request line or status line.
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// Method; `None` for a response.
    pub fn method(&self) -> Option<Method> {
        match self.start {
            Start::Request { method, .. } => Some(method),
            Start::Response { .. } => None,
        }
    }

    /// Status code, 100 to 699; `None` for a request.
    pub fn status(&self) -> Option<u16> {
        match self.start {
            Start::Request { .. } => None,
            Start::Response { status } => Some(status),
        }
    }

    /// Request-URI; `None` for a response.
    pub fn uri(&self) -> Option<&'a [u8]> {
        match self.start {
            Start::Request { uri, .. } => Some(uri.of(self.bytes)),
            Start::Response { .. } => None,
        }
    }

    /// Reason why this request must be answered with an error instead of being forwarded. An ACK gets no answer even
    /// then.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The Call-ID; empty if missing, which is a fault.
    pub fn call_id(&self) -> &'a [u8] {
        self.fields.call_id.map_or(&[], |span| span.of(self.bytes))
    }

    /// The CSeq; 0 and [`Method::Other`] if missing or malformed, which is a fault.
    pub fn cseq(&self) -> CSeq {
        let none = CSeq { number: 0, method: Method::Other, method_name: Span::default() };
        self.fields.cseq.and_then(|(_, cseq)| cseq).unwrap_or(none)
    }

    /// Whether there is a CSeq, well-formed or not.
    pub fn has_cseq(&self) -> bool {
        self.fields.cseq.is_some()
    }

    /// The From value with its parameters; empty if missing, which is a fault.
    pub fn from(&self) -> &'a [u8] {
        self.fields.from.map_or(&[], |(value, _)| value.of(self.bytes))
    }

    /// Tag of the From value; absent in RFC 2543 messages.
    pub fn from_tag(&self) -> Option<&'a [u8]> {
        self.fields.from.and_then(|(_, tag)| tag).map(|tag| tag.of(self.bytes))
    }

    /// The To value with its parameters; empty if missing, which is a fault.
    pub fn to(&self) -> &'a [u8] {
        self.fields.to.map_or(&[], |(value, _)| value.of(self.bytes))
    }

    /// Tag of the To value. A request with a To tag is within a dialog.
    pub fn to_tag(&self) -> Option<&'a [u8]> {
        self.fields.to.and_then(|(_, tag)| tag).map(|tag| tag.of(self.bytes))
    }

    /// The topmost Via. With a fault, possibly only its sent-by.
    pub fn top_via(&self) -> &Via<'a> {
        &self.top_via
    }

    /// The Via below the topmost one: the next destination of a response. `None` if absent or malformed.
    pub fn second_via(&self) -> Option<Via<'a>> {
        if let Some(start) = self.fields.via_next {
            let span = Span { start, end: self.fields.via_line.end };
            return via::parse_strict(self.bytes, span).ok().map(|(via, _)| via);
        }
        let below = line::trim(self.bytes, self.fields.via_below?);
        via::parse_strict(self.bytes, below).ok().map(|(via, _)| via)
    }

    /// Whether there are Via values below the topmost one.
    pub fn has_lower_vias(&self) -> bool {
        self.fields.via_next.is_some() || self.fields.via.lines > 1
    }

    /// All Via values, topmost first. After an error the rest of that header line is skipped.
    pub fn vias(&self) -> impl Iterator<Item = Result<Via<'a>, BadVia>> + use<'a> {
        let bytes = self.bytes;
        self.fields.via.values(bytes, Name::Via, move |span| via::parse_strict(bytes, span))
    }

    /// Max-Forwards of a request, 0 to 255, and the position of the number. Absent in RFC 2543 messages.
    pub fn max_forwards(&self) -> Option<(u32, Span)> {
        self.fields.max_forwards
    }

    /// Max-Breadth of a request (RFC 5393), and the position of the number.
    pub fn max_breadth(&self) -> Option<(u32, Span)> {
        self.fields.max_breadth
    }

    /// Whether the request has a Route.
    pub fn has_routes(&self) -> bool {
        self.routes.group.lines > 0
    }

    /// The Route values of a request, topmost first. In a message without fault they are complete.
    pub fn routes(&self) -> impl Iterator<Item = RouteValue<'a>> {
        self.routes.values(self.bytes).map(|(value, _)| value)
    }

    /// The Record-Route values, topmost first, without malformed ones.
    pub fn record_routes(&self) -> impl Iterator<Item = RouteValue<'a>> + use<'a> {
        let (bytes, group) = (self.bytes, self.fields.record_route);
        group.values(bytes, Name::RecordRoute, move |span| route::parse(bytes, span)).filter_map(Result::ok)
    }

    /// Whether the message has a Record-Route.
    pub fn has_record_routes(&self) -> bool {
        self.fields.record_route.lines > 0
    }

    /// URI of the first Contact value; `None` if absent or malformed. The text after the URI is not read.
    pub fn contact(&self) -> Option<&'a [u8]> {
        name_addr::uri(self.bytes, self.fields.contact?)
    }

    /// Seconds of the Retry-After; `None` if absent, or not a number of 32 bits.
    pub fn retry_after(&self) -> Option<u32> {
        retry_after::parse(self.fields.retry_after?.of(self.bytes))
    }

    /// Option tags that proxies must support (RFC 3261 §20.29).
    pub fn proxy_require(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let lines = self.fields.proxy_require.lines(bytes, Name::ProxyRequire);
        lines
            .flat_map(move |line| line.value.of(bytes).split(|&b| b == b','))
            .map(chars::trim)
            .filter(|tag| !tag.is_empty())
    }

    /// Value of the first header field called `name`, without surrounding white space, with its folds. `name` is the
    /// long name, and the compact form is found too. Searches the header: not for use with every message.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers(name).next()
    }

    /// All header fields: the name as written, and the value as [`header`](Self::header) returns it.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        Lines::new(bytes, self.header).map(move |line| (line.name.of(bytes), line.trimmed(bytes).of(bytes)))
    }

    /// Header fields whose names begin with a byte that satisfies `is_wanted`, as [`fields`](Self::fields) returns
    /// them. Cheaper, since other fields are skipped unread.
    pub fn fields_beginning(
        &self,
        is_wanted: impl Fn(u8) -> bool,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let bytes = self.bytes;
        let mut pos = self.header as usize;
        core::iter::from_fn(move || {
            loop {
                let first = *bytes.get(pos)?;
                if !is_wanted(first) && !matches!(first, b'\r' | b'\n') {
                    pos = line::pass(bytes, pos)?;
                    continue;
                }
                let line::Next::Field(line) = line::next(bytes, pos) else { return None };
                pos = line.next as usize;
                return Some((line.name.of(bytes), line.trimmed(bytes).of(bytes)));
            }
        })
    }

    /// Values of all header fields called `name`, as [`header`](Self::header) returns the first.
    pub fn headers<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let bytes = self.bytes;
        Lines::new(bytes, self.header)
            .filter(move |line| name::matches(line.name.of(bytes), name))
            .map(move |line| line.trimmed(bytes).of(bytes))
    }
}

/// RFC 3261 §7.5: empty lines before the start line are ignored.
pub(crate) fn without_leading_crlf(datagram: &[u8]) -> &[u8] {
    let start = datagram.iter().position(|&b| b != b'\r' && b != b'\n').unwrap_or(datagram.len());
    &datagram[start..]
}
