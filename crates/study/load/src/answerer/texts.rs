//! Texts of an answerer's responses and requests.

use super::AnswererConfig;
use super::transactions::Transaction;
use crate::dialog::{Dialog, contact};
use crate::{COOKIE, session};
use core::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use wire::build::ResponseBuilder;
use wire::{Message, Method};

/// Lines after the head of a response, by kind.
#[derive(Debug)]
pub(super) struct Texts {
    plain: Vec<u8>,
    /// With the Contact for requests within the dialog.
    contact: Vec<u8>,
    /// With the Contact and an answer to the offer.
    answer: Vec<u8>,
}

const OK_LINE: &[u8] = b"SIP/2.0 200 OK\r\n";

/// Methods that an answerer accepts (RFC 3261 §20.5).
const ALLOW: &str = "Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, REGISTER, MESSAGE, SUBSCRIBE, NOTIFY, PUBLISH, \
    REFER, INFO, UPDATE, PRACK\r\n";

impl Texts {
    pub(super) fn new(config: &AnswererConfig) -> Self {
        let AnswererConfig { transport, name, local, .. } = config;
        let server = format!("Server: {name}\r\n");
        let contact =
            format!("Contact: <sip:{}@{local}{}>\r\n{server}{ALLOW}", escaped(name), transport.uri_param());
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

    /// Appends the last response of this transaction.
    pub(super) fn response(&self, transaction: &Transaction, out: &mut Vec<u8>) {
        let &Transaction { status, method, key, ref text, .. } = transaction;
        let line: &[u8] = match status {
            180 => b"SIP/2.0 180 Ringing\r\n",
            200 => OK_LINE,
            487 => b"SIP/2.0 487 Request Terminated\r\n",
            500 => b"SIP/2.0 500 Server Internal Error\r\n",
            _ => b"SIP/2.0 481 Call/Transaction Does Not Exist\r\n",
        };
        let tail = match (status, method) {
            (200, Method::Invite) => &self.answer,
            (180, _) | (200, Method::Subscribe | Method::Refer | Method::Update) => &self.contact,
            _ => &self.plain,
        };
        out.extend_from_slice(line);
        out.extend_from_slice(text.head());
        if status == 500 {
            // RFC 3261 §14.2: a random time from 0 to 10 s. Derived from the key, so that repeats are equal.
            write!(out, "Retry-After: {}\r\n", key % 11).expect("a Vec takes any text");
        }
        out.extend_from_slice(tail);
    }
}

/// Whether a 2xx to this method creates a dialog, so that the Record-Route must be copied (RFC 3261 §12.1.1).
fn creates_dialog(method: Method) -> bool {
    matches!(method, Method::Invite | Method::Subscribe | Method::Refer)
}

/// Text from which the messages of a transaction are made.
#[derive(Default, Debug)]
pub(super) struct Text {
    text: Box<[u8]>,
    head_end: u32,
}

impl Text {
    /// Returns the lines from Via to CSeq of all responses to a request, and the Record-Route where it is needed. An
    /// INVITE is kept as well: its Contact is parsed only when this side sends a BYE, which is rare.
    pub(super) fn of_request(request: &Message<'_>, source: SocketAddr, method: Method, tag: &str) -> Self {
        let mut text = Vec::with_capacity(512 + request.bytes().len());
        let reply = ResponseBuilder::reply(&mut text, request, source, 200, "OK", tag);
        if creates_dialog(method) {
            drop(reply.record_routes(request));
        }
        let head_end = (text.len() - OK_LINE.len()) as u32;
        if method == Method::Invite {
            text.extend_from_slice(request.bytes());
        }
        Self { text: text[OK_LINE.len()..].into(), head_end }
    }

    fn head(&self) -> &[u8] {
        &self.text[..self.head_end as usize]
    }

    /// Whether the text is empty or was dropped.
    pub(super) fn is_empty(&self) -> bool {
        self.head_end == 0
    }

    /// Returns the whole request, for a request of this side.
    pub(super) fn request(&self) -> &[u8] {
        self.head()
    }

    /// Returns the BYE that ends the call of an accepted INVITE, and its destination (RFC 3261 §12.2.1.1, §15.1.1).
    /// `None` when the text was dropped. `fallback` is used if the INVITE's Contact is unusable or has no address.
    pub(super) fn bye(&self, config: &AnswererConfig, fallback: SocketAddr) -> Option<(Self, SocketAddr)> {
        let like_a_response = [OK_LINE, self.head(), b"\r\n"].concat();
        let message = wire::scan(&like_a_response).ok()?;
        let invite = wire::scan(&self.text[self.head_end as usize..]).ok()?;
        let instead = format!("sip:{fallback}");
        let target = contact(&invite).unwrap_or(instead.as_bytes());
        let dialog = Dialog::of_callee(&message, target, fallback);
        // The branch identifies the dialog, so that the response is matched.
        let AnswererConfig { transport, local, .. } = config;
        let via = format!("Via: SIP/2.0/{} {local};rport;branch={COOKIE}", transport.name());
        let mut text = Vec::with_capacity(512);
        for part in [
            b"BYE ".as_slice(),
            dialog.uri(),
            b" SIP/2.0\r\n",
            via.as_bytes(),
            message.to_tag()?,
            b"\r\nMax-Forwards: 70\r\n",
            dialog.lines(),
            b"From: ",
            message.to(),
            b"\r\nCall-ID: ",
            message.call_id(),
            b"\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n",
        ] {
            text.extend_from_slice(part);
        }
        let head_end = text.len() as u32;
        Some((Self { text: text.into(), head_end }, dialog.next_hop))
    }
}

/// Escapes a name for the user part of a URI.
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
