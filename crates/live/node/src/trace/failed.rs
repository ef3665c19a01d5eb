//! A failed request.

use crate::outcome::failure::FailureCause;
use base::{Instant, Peer};
use wire::{Message, NameAddr, SipUri};

/// A request that failed, or a connection whose handshake failed. Contains no credentials, display names or bodies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedRequest {
    /// Time of the arrival.
    pub arrived: Instant,
    /// Time of the failure.
    pub failed: Instant,
    /// Source of the request, or the other end of the connection.
    pub source: Peer,
    /// Method of the request; empty for a connection.
    pub method: Box<str>,
    /// Call-ID; empty for a connection.
    pub call_id: Box<str>,
    /// Request-URI without password and parameters; empty if it is not known.
    pub uri: Box<str>,
    /// URI of From, in the same form.
    pub from: Box<str>,
    /// URI of To, in the same form.
    pub to: Box<str>,
    /// Name of the route; empty if no route applied or the request failed before.
    pub route: Box<str>,
    /// Targets that got the request, in this order.
    pub tried: Box<[Tried]>,
    /// Cause, and the answer that the sender got.
    pub cause: FailureCause,
    /// Further explanation; empty if there is none.
    pub detail: Box<str>,
}

/// A target that got a failed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tried {
    /// Address of the target.
    pub target: Peer,
    /// Time at which the request was sent.
    pub at: Instant,
    /// Result.
    pub result: TriedResult,
}

/// Result of a request at one target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TriedResult {
    /// The target sent this status.
    Answered(u16),
    /// No response came.
    Silent,
    /// ICMP reports the target unreachable, or no connection could be opened.
    Unreachable,
    /// The connection to the target was closed.
    ConnectionLost,
    /// Only provisional responses came (Timer C).
    NoFinalResponse,
}

impl FailedRequest {
    /// Maximum length of a text of a message, in bytes.
    pub const LONGEST: usize = 96;

    /// Creates the record of a message: a request, or the response that reports its failure.
    pub(crate) fn new(now: Instant, message: &Message<'_>, source: Peer, cause: FailureCause) -> Self {
        let hint = match cause {
            FailureCause::Refused { status: 481, .. } if !message.has_routes() => "the request has no Route",
            FailureCause::Refused { status: 481, .. } => "its Route has no valid token of a known call",
            _ => "",
        };
        Self {
            method: text(message.cseq().method_name.of(message.bytes())),
            call_id: text(message.call_id()),
            uri: uri_text(message.uri().unwrap_or_default()),
            from: address_text(message.from()),
            to: address_text(message.to()),
            detail: hint.into(),
            ..Self::connection(now, source, cause, "")
        }
    }

    /// Creates the record of a connection that failed before its first message.
    pub fn connection(now: Instant, peer: Peer, cause: FailureCause, detail: &str) -> Self {
        let none = Box::<str>::default;
        Self {
            arrived: now,
            failed: now,
            source: peer,
            method: none(),
            call_id: none(),
            uri: none(),
            from: none(),
            to: none(),
            route: none(),
            tried: Box::default(),
            cause,
            detail: text(detail.as_bytes()),
        }
    }

    /// Returns its memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let Self { method, call_id, uri, from, to, route, detail, tried, .. } = self;
        let texts: usize =
            [method, call_id, uri, from, to, route, detail].iter().map(|text| text.len()).sum();
        size_of::<Self>() + texts + size_of_val::<[Tried]>(tried)
    }
}

fn text(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(FailedRequest::LONGEST)]).into()
}

/// Returns the URI of a From or To.
fn address_text(value: &[u8]) -> Box<str> {
    NameAddr::parse(value).map(|address| uri_text(address.uri)).unwrap_or_default()
}

/// Returns user and host of a SIP URI. A URI of another scheme keeps its scheme, and loses all before an `@`.
fn uri_text(uri: &[u8]) -> Box<str> {
    let cut = |text: &[u8], marks: &[u8]| text.iter().position(|byte| marks.contains(byte));
    let after = |mark: &[u8]| cut(uri, mark).map_or(uri, |at| &uri[at + 1..]);
    let (user, host) = match SipUri::parse(uri) {
        Ok(SipUri { user: None, .. }) => (&b""[..], after(b":")),
        Ok(SipUri { user: Some(user), .. }) => (user, after(b"@")),
        Err(_) => (&b""[..], after(b"@")),
    };
    let host = &host[..cut(host, b";?").unwrap_or(host.len())];
    text(&if user.is_empty() { host.to_vec() } else { [user, b"@", host].concat() })
}
