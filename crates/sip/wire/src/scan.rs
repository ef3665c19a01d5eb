//! Scan of a datagram in one pass: finds the fields for forwarding, and decides whether the message can be forwarded.

use crate::header::route::Routes;
use crate::header::via::{self, Via};
use crate::header::{Name, call_id, content_length, cseq, max_breadth, max_forwards, name_addr};
use crate::line::{self, Line, Next};
use crate::message::{self, Fields, Message};
use crate::start::{self, Start};

/// Longest message accepted, in bytes, body included; longer than any datagram.
pub const MAX_LEN: usize = 1 << 24;

/// Reason why a datagram is dropped without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// No bytes.
    Empty,
    /// Only line ends: keep-alive traffic (RFC 5626 §4.4.1).
    KeepAlive,
    /// Longer than [`MAX_LEN`].
    TooLong,
    /// No SIP start line.
    NotSip,
    /// A request or response without Via, so it cannot be answered.
    NoVia,
    /// The sent-by of the topmost Via cannot be read.
    BadVia,
    /// A response that must not be forwarded, with its fault.
    BadResponse(&'static str),
}

impl Discard {
    /// A label for metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::KeepAlive => "keep_alive",
            Self::TooLong => "too_long",
            Self::NotSip => "not_sip",
            Self::NoVia => "no_via",
            Self::BadVia => "bad_via",
            Self::BadResponse(_) => "bad_response",
        }
    }
}

/// Reason why a request is refused, with its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Status code of the answer.
    pub status: u16,
    /// Reason phrase that names the problem (RFC 3261 §21.4.1).
    pub reason: &'static str,
}

impl Fault {
    pub(crate) const LINE_END: Self = Self::bad("Line End Is Not CRLF");

    pub(crate) const fn bad(reason: &'static str) -> Self {
        Self { status: 400, reason }
    }
}

/// Scans one datagram, or one message of a stream.
///
/// Takes time linear in the header, without allocating or copying. Header fields that forwarding does not need are
/// skipped unread (RFC 3261 §16.3 step 1), whatever they contain.
///
/// A request that must not be forwarded but can be answered is `Ok`, with [`Message::fault`] set.
///
/// # Errors
/// If the message can neither be forwarded nor answered. This includes every malformed response.
pub fn scan(datagram: &[u8]) -> Result<Message<'_>, Discard> {
    if datagram.is_empty() {
        return Err(Discard::Empty);
    }
    let bytes = message::without_leading_crlf(datagram);
    if bytes.is_empty() {
        return Err(Discard::KeepAlive);
    }
    if bytes.len() > MAX_LEN {
        return Err(Discard::TooLong);
    }
    let first = start::parse(bytes)?;
    let is_request = matches!(first.start, Start::Request { .. });
    let mut scanner = Scanner {
        is_request,
        message: Message {
            bytes,
            start: first.start,
            odd_version: first.odd_version,
            header: first.next as u32,
            body: 0,
            fault: first.fault,
            top_via: Via::EMPTY,
            routes: Routes::default(),
            fields: Fields::default(),
        },
    };
    let body = scanner.header(first.next)?;
    scanner.check_presence();
    let end = scanner.message_end(body);
    let message = &mut scanner.message;
    message.body = body as u32;
    message.bytes = &bytes[..end];
    if message.fields.via.lines == 0 {
        return Err(Discard::NoVia);
    }
    match message.fault {
        Some(fault) if !is_request => Err(Discard::BadResponse(fault.reason)),
        _ => Ok(scanner.message),
    }
}

/// State of the scan between header lines.
struct Scanner<'a> {
    is_request: bool,
    /// The message as far as it is read. Its fault is the first one found; later ones do not change the response.
    message: Message<'a>,
}

impl Scanner<'_> {
    fn fail(&mut self, fault: Fault) {
        self.message.fault.get_or_insert(fault);
    }

    /// Reads all header lines from `pos` on, and returns the offset of the body.
    fn header(&mut self, mut pos: usize) -> Result<usize, Discard> {
        loop {
            match line::next(self.message.bytes, pos) {
                Next::Field(line) => {
                    if !line.strict {
                        self.fail(Fault::LINE_END);
                    }
                    if line.name.is_empty() {
                        self.fail(Fault::bad("Malformed Header Line"));
                    } else {
                        self.field(&line)?;
                    }
                    pos = line.next as usize;
                }
                Next::End { body, strict } => {
                    if !strict {
                        self.fail(Fault::LINE_END);
                    }
                    return Ok(body);
                }
                Next::Truncated => {
                    self.fail(Fault::bad("Header Without End"));
                    return Ok(self.message.bytes.len());
                }
            }
        }
    }

    /// Reads one header field.
    fn field(&mut self, line: &Line) -> Result<(), Discard> {
        match line.field {
            Name::Other => {}
            Name::Via => self.via(line)?,
            Name::From => self.read_from_or_to(line, true),
            Name::To => self.read_from_or_to(line, false),
            Name::CallId => self.call_id(line),
            Name::CSeq => self.cseq(line),
            Name::MaxBreadth => self.max_breadth(line),
            Name::Contact => {
                self.message.fields.contact.get_or_insert(line.value);
            }
            Name::MaxForwards => self.max_forwards(line),
            Name::ContentLength => self.content_length(line),
            Name::Route => self.route(line),
            Name::RecordRoute => self.message.fields.record_route.add(line),
            Name::ProxyRequire => self.message.fields.proxy_require.add(line),
            Name::RetryAfter => self.message.fields.retry_after = Some(line.trimmed(self.message.bytes)),
        }
        Ok(())
    }

    /// Reads only the topmost value; the lower ones belong to other elements.
    fn via(&mut self, line: &Line) -> Result<(), Discard> {
        if self.message.fields.via.lines == 0 {
            let value = line.trimmed(self.message.bytes);
            let parsed = via::parse(self.message.bytes, value).map_err(|_| Discard::BadVia)?;
            if !parsed.clean {
                self.fail(Fault::bad("Malformed Via"));
            }
            self.message.fields.via_next = parsed.next;
            self.message.fields.via_line = line.whole();
            self.message.top_via = parsed.via;
        } else if self.message.fields.via.lines == 1 {
            self.message.fields.via_below = Some(line.value);
        }
        self.message.fields.via.add(line);
        Ok(())
    }

    /// A response is forwarded by its Vias, and only the client reads its From and To. So faults of these two fields
    /// are left to the client (RFC 3261 §16.3 step 1; §16.7 gives no reason to be stricter). In a response, the first
    /// From and the first To are used.
    fn read_from_or_to(&mut self, line: &Line, from: bool) {
        let value = line.trimmed(self.message.bytes);
        let tag = name_addr::tag(self.message.bytes, value);
        let (slot, twice, malformed) = if from {
            (&mut self.message.fields.from, "Duplicate From", "Malformed From")
        } else {
            (&mut self.message.fields.to, "Duplicate To", "Malformed To")
        };
        let fault = match (&slot, tag) {
            (Some(_), _) => Some(twice),
            (None, Err(_)) => Some(malformed),
            (None, Ok(_)) => None,
        };
        slot.get_or_insert((value, tag.ok().flatten()));
        if let Some(reason) = fault.filter(|_| self.is_request) {
            self.fail(Fault::bad(reason));
        }
    }

    fn call_id(&mut self, line: &Line) {
        let value = line.trimmed(self.message.bytes);
        if let Some(first) = self.message.fields.call_id {
            return self
                .repeats(value.of(self.message.bytes) == first.of(self.message.bytes), "Duplicate Call-ID");
        }
        self.message.fields.call_id = Some(value);
        if !call_id::is_valid(value.of(self.message.bytes)) {
            self.fail(Fault::bad("Malformed Call-ID"));
        }
    }

    fn cseq(&mut self, line: &Line) {
        let value = line.trimmed(self.message.bytes);
        let parsed = cseq::CSeq::parse(self.message.bytes, value);
        if let Some((_, first)) = self.message.fields.cseq {
            let text = |cseq: cseq::CSeq| (cseq.number, cseq.method_name.of(self.message.bytes));
            return self.repeats(parsed.ok().map(text) == first.map(text), "Duplicate CSeq");
        }
        self.message.fields.cseq = Some((value, parsed.ok()));
        if parsed.is_err() {
            self.fail(Fault::bad("Malformed CSeq"));
        }
    }

    /// Responses do not use it, so it has no faults there.
    fn max_forwards(&mut self, line: &Line) {
        if !self.is_request {
            return;
        }
        if self.message.fields.max_forwards.is_some() {
            return self.fail(Fault::bad("Duplicate Max-Forwards"));
        }
        let value = line.trimmed(self.message.bytes);
        match max_forwards::parse(value.of(self.message.bytes)) {
            Ok(number) => self.message.fields.max_forwards = Some((number, value)),
            Err(_) => self.fail(Fault::bad("Malformed Max-Forwards")),
        }
    }

    /// RFC 5393 §5.3.3: a request has one Max-Breadth. Responses do not use it.
    fn max_breadth(&mut self, line: &Line) {
        if !self.is_request {
            return;
        }
        if self.message.fields.max_breadth.is_some() {
            return self.fail(Fault::bad("Duplicate Max-Breadth"));
        }
        let value = line.trimmed(self.message.bytes);
        match max_breadth::parse(value.of(self.message.bytes)) {
            Ok(number) => self.message.fields.max_breadth = Some((number, value)),
            Err(_) => self.fail(Fault::bad("Malformed Max-Breadth")),
        }
    }

    /// Handles the repetition of a field that must occur once. A request is refused even if both values agree, and its
    /// sender gets an error response. A response passes if both values agree, since the client would miss a dropped
    /// response.
    fn repeats(&mut self, same: bool, twice: &'static str) {
        if self.is_request || !same {
            self.fail(Fault::bad(twice));
        }
    }

    fn content_length(&mut self, line: &Line) {
        let length = content_length::parse(line.trimmed(self.message.bytes).of(self.message.bytes));
        if self.message.fields.content_length.is_some() {
            return self
                .repeats(length.ok() == self.message.fields.content_length, "Duplicate Content-Length");
        }
        match length {
            Ok(length) => self.message.fields.content_length = Some(length),
            Err(_) => self.fail(Fault::bad("Malformed Content-Length")),
        }
    }

    /// A response has no Route that counts.
    fn route(&mut self, line: &Line) {
        if self.is_request && self.message.routes.read(self.message.bytes, line).is_err() {
            self.fail(Fault::bad("Malformed Route"));
        }
    }

    /// RFC 3261 §8.1.1: the mandatory fields of a request, but for Max-Forwards, which may be absent by §16.3 step 3.
    fn check_presence(&mut self) {
        let fields = &self.message.fields;
        let missing = match fields {
            Fields { call_id: None, .. } => "Missing Call-ID",
            Fields { from: None, .. } => "Missing From",
            Fields { to: None, .. } => "Missing To",
            Fields { cseq: None, .. } => "Missing CSeq",
            // RFC 3261 §8.1.1.5: the CSeq must name the request's method.
            Fields { cseq: Some((_, Some(cseq))), .. } => match &self.message.start {
                Start::Request { method_span, .. }
                    if method_span.of(self.message.bytes) != cseq.method_name.of(self.message.bytes) =>
                {
                    "CSeq Method Differs"
                }
                _ => return,
            },
            Fields { cseq: Some((_, None)), .. } => return,
        };
        self.fail(Fault::bad(missing));
    }

    /// RFC 3261 §18.3: bytes after the body are cut off, and an incomplete body is an error. Without Content-Length,
    /// the body is the rest of the datagram.
    fn message_end(&mut self, body: usize) -> usize {
        let available = self.message.bytes.len() - body;
        match self.message.fields.content_length {
            Some(length) if length as usize <= available => body + length as usize,
            Some(_) => {
                self.fail(Fault::bad("Body Shorter Than Content-Length"));
                self.message.bytes.len()
            }
            None => self.message.bytes.len(),
        }
    }
}
