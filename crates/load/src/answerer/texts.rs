use super::AnswererConfig;
use crate::session;
use core::fmt::Write as _;
use std::net::SocketAddr;
use wire::build::ResponseBuilder;
use wire::{Message, Method};

/// What follows the head of a response, by kind.
#[derive(Debug)]
pub(super) struct Texts {
    plain: Vec<u8>,
    /// With the Contact that requests of the dialog go to.
    contact: Vec<u8>,
    /// With the Contact and an answer to the offer.
    answer: Vec<u8>,
}

const OK_LINE: &[u8] = b"SIP/2.0 200 OK\r\n";

/// Methods that an answerer takes (RFC 3261 §20.5).
const ALLOW: &str = "Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, REGISTER, MESSAGE, SUBSCRIBE, NOTIFY, PUBLISH, \
    REFER, INFO, UPDATE, PRACK\r\n";

impl Texts {
    pub(super) fn new(config: &AnswererConfig) -> Self {
        let AnswererConfig { name, local, .. } = config;
        let server = format!("Server: {name}\r\n");
        let contact = format!("Contact: <sip:{}@{local}>\r\n{server}{ALLOW}", escaped(name));
        let empty = "Content-Length: 0\r\n\r\n";
        let body = session("answerer", *local);
        let length = body.len();
        Self {
            plain: format!("{server}{ALLOW}{empty}").into_bytes(),
            contact: format!("{contact}{empty}").into_bytes(),
            answer: format!(
                "{contact}Content-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .into_bytes(),
        }
    }

    /// Appends a response to a request of this method with this head.
    pub(super) fn response(&self, status: u16, method: Method, head: &[u8], out: &mut Vec<u8>) {
        let line: &[u8] = match status {
            180 => b"SIP/2.0 180 Ringing\r\n",
            200 => OK_LINE,
            487 => b"SIP/2.0 487 Request Terminated\r\n",
            _ => b"SIP/2.0 481 Call/Transaction Does Not Exist\r\n",
        };
        let tail = match (status, method) {
            (200, Method::Invite) => &self.answer,
            (180, _) | (200, Method::Subscribe | Method::Refer | Method::Update) => &self.contact,
            _ => &self.plain,
        };
        for part in [line, head, tail] {
            out.extend_from_slice(part);
        }
    }
}

/// Whether a 2xx to this method creates a dialog, so that the Record-Route must be copied (RFC 3261 §12.1.1).
fn creates_dialog(method: Method) -> bool {
    matches!(method, Method::Invite | Method::Subscribe | Method::Refer)
}

/// The lines from Via to CSeq of all responses to a request, and the Record-Route where it is needed.
pub(super) fn head(request: &Message<'_>, source: SocketAddr, method: Method, tag: &str) -> Box<[u8]> {
    let mut text = Vec::with_capacity(512);
    let reply = ResponseBuilder::reply(&mut text, request, source, 200, "OK", tag);
    if creates_dialog(method) {
        drop(reply.record_routes(request));
    }
    text[OK_LINE.len()..].into()
}

/// A name as the user part of a URI.
fn escaped(name: &str) -> String {
    let mut user = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            user.push(char::from(byte));
        } else {
            write!(user, "%{byte:02X}").expect("a String takes any text");
        }
    }
    user
}
