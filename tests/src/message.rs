//! Requests and responses of the tests' own agents.

use std::net::SocketAddr;
use testkit::{TestRequest, TestResponse, record_routes, route_set, tag, value};

/// A request to send.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// Method.
    pub method: String,
    /// Request-URI.
    pub uri: String,
    /// Call-ID; also makes tags and branches distinct.
    pub call_id: String,
    /// CSeq number.
    pub cseq: u32,
    /// Tag of the other side, inside a dialog.
    pub to_tag: Option<String>,
    /// Further header lines, without line ends.
    pub lines: Vec<String>,
}

impl AgentRequest {
    /// A request outside of any dialog.
    pub fn new(method: &str, call_id: &str) -> Self {
        Self {
            method: method.to_owned(),
            uri: "sip:service@example.com".to_owned(),
            call_id: call_id.to_owned(),
            cseq: 1,
            to_tag: None,
            lines: Vec::new(),
        }
    }

    /// A request inside the dialog that `response` (a 2xx to an INVITE) established, with its Record-Route.
    pub fn in_dialog(method: &str, response: &[u8]) -> Self {
        let value = |name| value(response, name).unwrap_or_else(|| panic!("{name} in {}", show(response)));
        let mut request = Self::new(method, &value("Call-ID"));
        request.cseq = 2;
        request.to_tag = tag(response, "To");
        let contact = value("Contact");
        contact.trim_matches(['<', '>']).clone_into(&mut request.uri);
        // The caller's route set is the reverse of the Record-Route (RFC 3261 §12.1.2).
        request.lines = route_set(response).iter().map(|route| format!("Route: {route}")).collect();
        request
    }

    /// Returns the bytes as sent from `from`.
    pub fn bytes(&self, from: SocketAddr) -> Vec<u8> {
        let Self { method, uri, call_id, cseq, .. } = self;
        let request = TestRequest {
            uri: uri.clone(),
            via: format!("SIP/2.0/UDP {from};branch=z9hG4bK{call_id}{cseq}{method}"),
            from: "<sip:caller@example.net>".to_owned(),
            from_tag: format!("from{call_id}"),
            to: "<sip:service@example.com>".to_owned(),
            to_tag: self.to_tag.clone(),
            cseq: *cseq,
            contact: format!("sip:caller@{from}"),
            lines: self.lines.clone(),
            body: "",
            ..TestRequest::new(method, call_id, from)
        };
        request.bytes()
    }
}

/// Returns a response to `request` with `status` ("200 OK"), from the server at `contact`.
pub fn respond(request: &[u8], status: &str, contact: SocketAddr) -> Vec<u8> {
    let (code, reason) = status.split_once(' ').expect("a code and a reason");
    let response = TestResponse {
        reason: reason.to_owned(),
        tag: "server",
        contact: format!("sip:server@{contact}"),
        ..TestResponse::new(code.parse().expect("a status code"), contact)
    };
    response.bytes(request)
}

/// Returns the BYE of the callee at this address, who answered the INVITE with this tag (RFC 3261 §12.1.1).
pub fn bye_of_callee(invite: &[u8], own_tag: &str, at: SocketAddr) -> TestRequest {
    let value = |name| value(invite, name).unwrap_or_default();
    let call_id = value("Call-ID");
    TestRequest {
        uri: value("Contact").trim_matches(['<', '>']).to_owned(),
        via: format!("SIP/2.0/UDP {at};branch=z9hG4bKbye{call_id}"),
        from: value("To"),
        from_tag: own_tag.to_owned(),
        to: value("From").split(";tag=").next().unwrap_or_default().to_owned(),
        to_tag: tag(invite, "From"),
        routes: record_routes(invite),
        body: "",
        ..TestRequest::new("BYE", &call_id, at)
    }
}

/// Returns host and port of the topmost Via.
pub(crate) fn top_via_hop(message: &[u8]) -> Option<String> {
    let via = value(message, "Via")?;
    Some(via.split_whitespace().nth(1)?.split([';', ',']).next()?.to_owned())
}

/// Returns true if a proxy may change this header line (RFC 3261 §16.6): Via, Route, Max-Forwards, and Content-Length,
/// which it may add.
pub(crate) fn is_own_line(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    ["via", "v", "route", "max-forwards", "content-length", "l"].contains(&name.as_str())
}

/// Returns the message as text.
pub fn show(message: &[u8]) -> String {
    String::from_utf8_lossy(message).into_owned()
}
