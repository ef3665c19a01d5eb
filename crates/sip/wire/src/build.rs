//! Builders that write whole messages header field by header field, for agents and probes.

use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;

use crate::header::Name;
use crate::message::Message;
use crate::target;
use crate::text::{push_decimal, push_unfolded};

/// Writes one header line. Line ends within the value become spaces.
fn push_header(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    push_unfolded(value, out);
    out.extend_from_slice(b"\r\n");
}

fn push_header_fmt(name: &str, value: fmt::Arguments<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    let start = out.len();
    out.write_fmt(value).expect("a Vec takes any write");
    debug_assert!(!out[start..].contains(&b'\n'), "formatted header values are one line");
    out.extend_from_slice(b"\r\n");
}

/// Writes Content-Length, the empty line and the body.
fn push_body(body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    push_decimal(body.len() as u32, out);
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
}

/// Builder that appends a request to a buffer; complete only after [`finish`](Self::finish).
///
/// Header fields are written in the order of the calls. The caller gives all of them except Content-Length.
#[must_use = "a request ends with finish()"]
pub struct RequestBuilder<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> RequestBuilder<'o> {
    /// Starts with the request line.
    pub fn new(out: &'o mut Vec<u8>, method: &str, uri: impl AsRef<[u8]>) -> Self {
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        push_unfolded(uri.as_ref(), out);
        out.extend_from_slice(b" SIP/2.0\r\n");
        Self { out }
    }

    /// Adds a header field.
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        push_header(name, value.as_ref(), self.out);
        self
    }

    /// Adds a header field with a formatted value, without an allocation: `format_args!("{cseq} INVITE")`.
    pub fn header_fmt(self, name: &str, value: fmt::Arguments<'_>) -> Self {
        push_header_fmt(name, value, self.out);
        self
    }

    /// Ends the header and adds the body.
    pub fn finish(self, body: &[u8]) {
        push_body(body, self.out);
    }
}

/// Builder that appends a response to a buffer; complete only after [`finish`](Self::finish).
#[must_use = "a response ends with finish()"]
pub struct ResponseBuilder<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> ResponseBuilder<'o> {
    /// Starts with the status line and the fields that every response copies from its request (RFC 3261 §8.2.6.2):
    /// Vias, From, To, Call-ID and CSeq. The topmost Via is marked with the `source` of the request (RFC 3261 §18.2.1,
    /// RFC 3581 §4).
    ///
    /// `to_tag` is added to a To without tag, except in a 100. A faulty request can also be answered: of each field the
    /// first occurrence is copied, if there is one.
    pub fn reply(
        out: &'o mut Vec<u8>,
        request: &Message<'_>,
        source: SocketAddr,
        status: u16,
        reason: &str,
        to_tag: &str,
    ) -> Self {
        out.extend_from_slice(b"SIP/2.0 ");
        push_decimal(u32::from(status), out);
        out.push(b' ');
        push_unfolded(reason.as_bytes(), out);
        out.extend_from_slice(b"\r\n");
        push_vias(request, source, out);
        let (bytes, fields) = (request.bytes, &request.fields);
        if let Some((value, _)) = fields.from {
            push_header("From", value.of(bytes), out);
        }
        if let Some((value, tag)) = fields.to {
            out.extend_from_slice(b"To: ");
            push_unfolded(value.of(bytes), out);
            // RFC 3261 §17.2.1: a 100 should get no tag [17.2.1-2].
            if tag.is_none() && status > 100 {
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(to_tag.as_bytes());
            }
            out.extend_from_slice(b"\r\n");
        }
        if let Some(value) = fields.call_id {
            push_header("Call-ID", value.of(bytes), out);
        }
        if let Some((value, _)) = fields.cseq {
            push_header("CSeq", value.of(bytes), out);
        }
        // RFC 3261 §8.2.6.1: a 100 contains the request's Timestamp.
        if status == 100
            && let Some(value) = request.header("Timestamp")
        {
            push_header("Timestamp", value, out);
        }
        Self { out }
    }

    /// Copies the request's Record-Routes, as a response that creates a dialog must (RFC 3261 §12.1.1).
    pub fn record_routes(self, request: &Message<'_>) -> Self {
        for line in request.fields.record_route.lines(request.bytes, Name::RecordRoute) {
            push_header("Record-Route", line.trimmed(request.bytes).of(request.bytes), self.out);
        }
        self
    }

    /// Adds a header field.
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        push_header(name, value.as_ref(), self.out);
        self
    }

    /// Adds a header field with a formatted value, without an allocation.
    pub fn header_fmt(self, name: &str, value: fmt::Arguments<'_>) -> Self {
        push_header_fmt(name, value, self.out);
        self
    }

    /// Ends the header and adds the body.
    pub fn finish(self, body: &[u8]) {
        push_body(body, self.out);
    }
}

/// Copies all Via lines unchanged, except for the mark in the topmost Via. So the response is longer only by the mark.
/// Compact names stay compact for the same reason.
fn push_vias(request: &Message<'_>, source: SocketAddr, out: &mut Vec<u8>) {
    let bytes = request.bytes;
    let mut pieces = target::mark(&request.top_via, source);
    for line in request.fields.via.lines(bytes, Name::Via) {
        out.extend_from_slice(line.name.of(bytes));
        out.push(b':');
        let value = line.value;
        let mut done = value.start as usize;
        // Only the first line has pieces to replace.
        for (at, text) in pieces.drain(..) {
            push_unfolded(&bytes[done..at.start as usize], out);
            out.extend_from_slice(&text);
            done = at.end as usize;
        }
        push_unfolded(&bytes[done..value.end as usize], out);
        out.extend_from_slice(b"\r\n");
    }
}
