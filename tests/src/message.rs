//! As much of SIP as the tests' own agents need: writing a request, answering one, reading a header.
//!
//! Deliberately not the `wire` crate: a test must not read a message with the code that it tests.

use std::net::SocketAddr;

/// A request to be sent.
#[derive(Debug, Clone)]
pub struct Request {
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

impl Request {
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

    /// A request inside the dialog that `response` (a 2xx to an INVITE) has set up, by its Record-Route.
    pub fn in_dialog(method: &str, response: &[u8]) -> Self {
        let value = |name| value(response, name).unwrap_or_else(|| panic!("{name} in {}", show(response)));
        let mut request = Self::new(method, &value("Call-ID"));
        request.cseq = 2;
        let to = value("To");
        request.to_tag = to.split_once(";tag=").map(|(_, tag)| tag.to_owned());
        let contact = value("Contact");
        contact.trim_matches(['<', '>']).clone_into(&mut request.uri);
        // The caller's route set is the reverse of the Record-Route (RFC 3261 §12.1.2).
        let routes = header(response, "Record-Route");
        request.lines = routes.iter().rev().map(|route| format!("Route: {route}")).collect();
        request
    }

    /// The bytes, as sent from `from`.
    pub fn bytes(&self, from: SocketAddr) -> Vec<u8> {
        let Self { method, uri, call_id, cseq, .. } = self;
        let tag = self.to_tag.as_ref().map(|tag| format!(";tag={tag}")).unwrap_or_default();
        let lines = self.lines.iter().flat_map(|line| [line.as_str(), "\r\n"]).collect::<String>();
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{call_id}{cseq}{method}\r\n{lines}\
             Max-Forwards: 70\r\nFrom: <sip:caller@example.net>;tag=from{call_id}\r\n\
             To: <sip:service@example.com>{tag}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
             Contact: <sip:caller@{from}>\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }
}

/// An answer to `request` with `status` ("200 OK"), from the server at `contact`.
pub fn respond(request: &[u8], status: &str, contact: SocketAddr) -> Vec<u8> {
    let mut lines = vec![format!("SIP/2.0 {status}")];
    for name in ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"] {
        for value in header(request, name) {
            let tag = if name == "To" && !value.contains(";tag=") { ";tag=server" } else { "" };
            lines.push(format!("{name}: {value}{tag}"));
        }
    }
    lines.push(format!("Contact: <sip:server@{contact}>\r\nContent-Length: 0\r\n\r\n"));
    lines.join("\r\n").into_bytes()
}

/// All values of a header, line by line in order; long and compact names, any case, folds not undone.
pub fn header(message: &[u8], name: &str) -> Vec<String> {
    let compact = match name {
        "Via" => "v",
        "From" => "f",
        "To" => "t",
        "Call-ID" => "i",
        "Contact" => "m",
        "Content-Length" => "l",
        _ => name,
    };
    let is_name = |found: &str| [name, compact].iter().any(|name| found.trim().eq_ignore_ascii_case(name));
    let head = head(message);
    let values = head.lines().filter_map(|line| line.split_once(':').filter(|(found, _)| is_name(found)));
    values.map(|(_, value)| value.trim().to_owned()).collect()
}

/// The first value of a header.
pub fn value(message: &[u8], name: &str) -> Option<String> {
    header(message, name).into_iter().next()
}

/// The status code, if this is a response.
pub fn status(message: &[u8]) -> Option<u16> {
    head(message).strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
}

/// Host and port of the topmost Via.
pub(crate) fn top_via_hop(message: &[u8]) -> Option<String> {
    let via = value(message, "Via")?;
    Some(via.split_whitespace().nth(1)?.split([';', ',']).next()?.to_owned())
}

/// Whether a proxy may change this header line on the way (RFC 3261 §16.6): Via, Route, Max-Forwards; and
/// Content-Length, which may be added.
pub(crate) fn is_own_line(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    ["via", "v", "route", "max-forwards", "content-length", "l"].contains(&name.as_str())
}

/// Everything before the empty line, as text.
pub(crate) fn head(message: &[u8]) -> String {
    let end = message.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(message.len(), |at| at + 2);
    String::from_utf8_lossy(&message[..end]).into_owned()
}

/// Everything after the empty line.
pub(crate) fn body(message: &[u8]) -> &[u8] {
    message.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(&[], |at| &message[at + 4..])
}

/// The message for a human.
pub fn show(message: &[u8]) -> String {
    String::from_utf8_lossy(message).into_owned()
}
