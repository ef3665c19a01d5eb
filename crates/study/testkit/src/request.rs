//! Requests, within dialogs and outside.

use crate::read::{route_set, tag, value};
use std::net::SocketAddr;

/// A request under construction. [`new`](Self::new) sets the fields of a request outside dialogs,
/// [`in_dialog`](Self::in_dialog) the fields of a caller's request within a dialog. A test overrides the fields that
/// matter to it.
#[derive(Clone, Debug)]
pub struct TestRequest {
    /// Method.
    pub method: String,
    /// Request-URI.
    pub uri: String,
    /// Value of Via; several values are separated by commas.
    pub via: String,
    /// From without its tag: a URI in angle brackets.
    pub from: String,
    /// Tag of From.
    pub from_tag: String,
    /// To without its tag: a URI in angle brackets.
    pub to: String,
    /// Tag of To; `None` outside dialogs.
    pub to_tag: Option<String>,
    /// Call-ID.
    pub call_id: String,
    /// CSeq number.
    pub cseq: u32,
    /// Max-Forwards; `None` omits the field.
    pub max_forwards: Option<u32>,
    /// URI in Contact; empty omits the field.
    pub contact: String,
    /// Values of Route, topmost first.
    pub routes: Vec<String>,
    /// Further header fields, one line each, without line ends.
    pub lines: Vec<String>,
    /// The body.
    pub body: &'static str,
}

impl TestRequest {
    /// Returns a request outside dialogs from the user agent at `at`. The branch is derived from the Call-ID.
    pub fn new(method: &str, call_id: &str, at: SocketAddr) -> Self {
        Self {
            method: method.to_owned(),
            uri: "sip:bob@pool.example".to_owned(),
            via: format!("SIP/2.0/UDP {at};branch=z9hG4bK-{call_id}-1;rport"),
            from: "<sip:alice@127.0.0.1>".to_owned(),
            from_tag: "alice".to_owned(),
            to: "<sip:bob@pool.example>".to_owned(),
            to_tag: None,
            call_id: call_id.to_owned(),
            cseq: 1,
            max_forwards: Some(70),
            contact: format!("sip:{at}"),
            routes: Vec::new(),
            lines: Vec::new(),
            body: "v=0\r\n",
        }
    }

    /// Returns a request of the caller at `at` in the dialog of a 2xx, by its Contact and Record-Route (RFC 3261
    /// §12.2.1.1).
    ///
    /// # Panics
    /// When a header field is missing in the response.
    pub fn in_dialog(method: &str, response: &[u8], cseq: u32, at: SocketAddr) -> Self {
        let value = |name| value(response, name).unwrap_or_else(|| panic!("{name}"));
        let call_id = value("Call-ID");
        Self {
            uri: value("Contact").trim_matches(['<', '>']).to_owned(),
            via: format!("SIP/2.0/UDP {at};branch=z9hG4bK-{call_id}-{cseq}-{method};rport"),
            from_tag: tag(response, "From").unwrap_or_default(),
            to_tag: tag(response, "To"),
            cseq,
            routes: route_set(response),
            ..Self::new(method, &call_id, at)
        }
    }

    /// Returns the CANCEL of the same transaction, or the ACK to its failure response.
    #[must_use]
    pub fn same_branch(&self, method: &str, to_tag: Option<&str>) -> Self {
        let (method, to_tag) = (method.to_owned(), to_tag.map(str::to_owned));
        Self { method, to_tag, lines: Vec::new(), ..self.clone() }
    }

    /// Replaces the value of Via.
    #[must_use]
    pub fn via(self, via: &str) -> Self {
        Self { via: via.to_owned(), ..self }
    }

    /// Adds a header field.
    #[must_use]
    pub fn with(self, name: &str, value: &str) -> Self {
        self.line(&format!("{name}: {value}"))
    }

    /// Adds a header field, given as a line without line end.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Returns the request as text.
    pub fn text(&self) -> String {
        let Self { method, uri, via, call_id, cseq, .. } = self;
        let tag = |tag: &str| if tag.is_empty() { String::new() } else { format!(";tag={tag}") };
        let mut text = format!("{method} {uri} SIP/2.0\r\nVia: {via}\r\n");
        let mut field = |name: &str, value: &str| text.extend([name, ": ", value, "\r\n"]);
        for route in &self.routes {
            field("Route", route);
        }
        if let Some(hops) = self.max_forwards {
            field("Max-Forwards", &hops.to_string());
        }
        field("From", &format!("{}{}", self.from, tag(&self.from_tag)));
        field("To", &format!("{}{}", self.to, tag(self.to_tag.as_deref().unwrap_or_default())));
        field("Call-ID", call_id);
        field("CSeq", &format!("{cseq} {method}"));
        if !self.contact.is_empty() {
            field("Contact", &format!("<{}>", self.contact));
        }
        for line in &self.lines {
            text.extend([line, "\r\n"]);
        }
        text + &format!("Content-Length: {}\r\n\r\n{}", self.body.len(), self.body)
    }

    /// Returns the request as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.text().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestResponse;

    #[test]
    fn a_request_is_written_with_all_that_it_has() {
        let at = "192.0.2.1:6000".parse().unwrap();
        let request = TestRequest {
            routes: vec!["<sip:p;lr>".to_owned()],
            to_tag: Some("bob".to_owned()),
            ..TestRequest::new("BYE", "c", at).with("X-A", "1")
        };
        let expected = "BYE sip:bob@pool.example SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:6000;branch=z9hG4bK-c-1;rport\r\n\
            Route: <sip:p;lr>\r\nMax-Forwards: 70\r\nFrom: <sip:alice@127.0.0.1>;tag=alice\r\n\
            To: <sip:bob@pool.example>;tag=bob\r\nCall-ID: c\r\nCSeq: 1 BYE\r\nContact: <sip:192.0.2.1:6000>\r\nX-A: 1\r\n\
            Content-Length: 5\r\n\r\nv=0\r\n";
        assert_eq!(request.text(), expected);
    }

    #[test]
    fn within_a_dialog_it_goes_where_the_response_says() {
        let [at, callee] = ["192.0.2.1:6000", "192.0.2.9:5060"].map(|at| at.parse().unwrap());
        let invite = TestRequest::new("INVITE", "c", at)
            .with("Record-Route", "<sip:q;lr>")
            .with("Record-Route", "<sip:p;lr>");
        let ok = TestResponse::new(200, callee).bytes(&invite.bytes());
        let bye = TestRequest::in_dialog("BYE", &ok, 2, at);
        assert_eq!((bye.uri.as_str(), bye.cseq), ("sip:192.0.2.9:5060", 2));
        assert_eq!((bye.from_tag.as_str(), bye.to_tag.as_deref()), ("alice", Some("bob")));
        assert_eq!(bye.routes, ["<sip:p;lr>", "<sip:q;lr>"]);
    }
}
