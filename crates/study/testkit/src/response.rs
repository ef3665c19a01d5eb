//! Responses to requests.

use crate::read::{header, value};
use std::net::SocketAddr;

/// A response under construction. [`new`](Self::new) sets the fields of a response from a callee.
#[derive(Clone, Debug)]
pub struct TestResponse {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub reason: String,
    /// To tag, if the request has none; empty omits the tag.
    pub tag: &'static str,
    /// URI in Contact; empty omits the field.
    pub contact: String,
    /// Record-Route values, instead of the request's.
    pub routes: Option<Vec<String>>,
    /// Further header fields, one line each, without line ends.
    pub lines: Vec<String>,
}

impl TestResponse {
    /// Returns a response with this status from the user agent at `contact`.
    pub fn new(status: u16, contact: SocketAddr) -> Self {
        Self {
            status,
            reason: "Whatever".to_owned(),
            tag: "bob",
            contact: format!("sip:{contact}"),
            routes: None,
            lines: Vec::new(),
        }
    }

    /// Adds a header field.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.lines.push(format!("{name}: {value}"));
        self
    }

    /// Returns the response to a request whose source is the address in its topmost Via (RFC 3261 §8.2.6.2).
    pub fn bytes(&self, request: &[u8]) -> Vec<u8> {
        self.write(request, str::to_owned)
    }

    /// Returns the response to a request from `source`, which is added to the topmost Via if RFC 3261 §18.2.1 or RFC
    /// 3581 §4 requires it.
    pub fn bytes_from(&self, request: &[u8], source: SocketAddr) -> Vec<u8> {
        self.write(request, |via| marked(via, source))
    }

    fn write(&self, request: &[u8], mark: impl Fn(&str) -> String) -> Vec<u8> {
        let mut text = format!("SIP/2.0 {} {}\r\n", self.status, self.reason);
        let mut field = |name: &str, value: &str| text.extend([name, ": ", value, "\r\n"]);
        for (at, via) in header(request, "Via").into_iter().enumerate() {
            field("Via", &if at == 0 { mark(&via) } else { via });
        }
        if let Some(from) = value(request, "From") {
            field("From", &from);
        }
        if let Some(to) = value(request, "To") {
            let needs_tag = !to.contains(";tag=") && self.status > 100 && !self.tag.is_empty();
            field("To", &if needs_tag { format!("{to};tag={}", self.tag) } else { to });
        }
        for name in ["Call-ID", "CSeq"] {
            if let Some(value) = value(request, name) {
                field(name, &value);
            }
        }
        let routes = self.routes.clone().unwrap_or_else(|| header(request, "Record-Route"));
        for route in &routes {
            field("Record-Route", route);
        }
        if !self.contact.is_empty() {
            field("Contact", &format!("<{}>", self.contact));
        }
        for line in &self.lines {
            text.extend([line, "\r\n"]);
        }
        (text + "Content-Length: 0\r\n\r\n").into_bytes()
    }
}

/// Adds the source address to the first Via of a line, if that Via has `rport` or another address.
fn marked(line: &str, source: SocketAddr) -> String {
    let (via, below) = line.split_at(line.find(',').unwrap_or(line.len()));
    let (ip, port) = (source.ip(), source.port());
    if let Some((before, after)) = via.split_once(";rport")
        && !after.starts_with('=')
    {
        return format!("{before};rport={port};received={ip}{after}{below}");
    }
    let sent_by = via.split_whitespace().nth(1).unwrap_or_default().split(';').next().unwrap_or_default();
    let is_there = sent_by.trim_matches(['[', ']']).parse() == Ok(ip)
        || sent_by.parse().is_ok_and(|address: SocketAddr| address.ip() == ip);
    if is_there { line.to_owned() } else { format!("{via};received={ip}{below}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_copies_the_required_fields() {
        let request = "INVITE sip:b SIP/2.0\r\nv: SIP/2.0/UDP a.b;branch=z9hG4bK1, SIP/2.0/UDP c\r\nVia: SIP/2.0/UDP d\r\n\
            From: <sip:a>;tag=1\r\nTo: <sip:b>\r\nRecord-Route: <sip:p;lr>\r\nCall-ID: i\r\nCSeq: 7 INVITE\r\n\r\n";
        let [source, contact] = ["192.0.2.1:9", "192.0.2.2:5060"].map(|at| at.parse().unwrap());
        let text = String::from_utf8(TestResponse::new(180, contact).bytes_from(request.as_bytes(), source))
            .unwrap();
        let expected = "SIP/2.0 180 Whatever\r\nVia: SIP/2.0/UDP a.b;branch=z9hG4bK1;received=192.0.2.1, SIP/2.0/UDP c\r\n\
            Via: SIP/2.0/UDP d\r\nFrom: <sip:a>;tag=1\r\nTo: <sip:b>;tag=bob\r\nCall-ID: i\r\nCSeq: 7 INVITE\r\n\
            Record-Route: <sip:p;lr>\r\nContact: <sip:192.0.2.2:5060>\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_source_is_marked_where_the_via_does_not_say_it() {
        let mark = |via: &str| marked(via, "[2001:db8::1]:7".parse().unwrap());
        assert_eq!(mark("SIP/2.0/UDP [2001:db8::1]:7;branch=b"), "SIP/2.0/UDP [2001:db8::1]:7;branch=b");
        assert_eq!(mark("SIP/2.0/UDP [2001:db8::1]"), "SIP/2.0/UDP [2001:db8::1]");
        assert_eq!(mark("SIP/2.0/UDP h;rport;x"), "SIP/2.0/UDP h;rport=7;received=2001:db8::1;x");
        assert_eq!(mark("SIP/2.0/UDP h;rport=1"), "SIP/2.0/UDP h;rport=1;received=2001:db8::1");
    }
}
