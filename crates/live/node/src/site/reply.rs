//! Responses that this process generates.

use crate::admission::Challenger;
use crate::message::validate::{LARGEST, SIPS_NOT_ALLOWED};
use crate::outcome::counters::Drop;
use crate::outcome::event::ShardEvent;
use crate::outcome::failure::FailureCause;
use crate::outcome::rejection::{OwnResponse, Rejection};
use crate::seen::{RequestKey, RequestResult};
use crate::site::Site;
use crate::site::allowance::{Allowance, allowance};
use arrayvec::ArrayString;

use base::{Flow, Operation, Outbox};
use std::sync::Arc;
use wire::build::ResponseBuilder;
use wire::{Message, Method, SipUri};

/// Beginning of the To tags of this process.
const OWN_TAG: &str = "sb";

/// Returns the To tag of this process's responses, the same for each retransmission (RFC 3261 §8.2.7). The tag is
/// computed from fields that are the same in all retransmissions. An address of this proxy is included, since other
/// elements of the site have the same key.
pub(crate) fn own_tag(site: &Site, message: &Message<'_>) -> ArrayString<16> {
    tag_of(site, message.cseq().number, message.call_id())
}

fn tag_of(site: &Site, cseq: u32, call_id: &[u8]) -> ArrayString<16> {
    let here = site.topology.ports.get(0).map_or("", |port| &port.sent_by);
    let tag = site.tokens.own_tag(cseq, call_id, here);
    let mut text = ArrayString::new();
    text.push_str(OWN_TAG);
    // The standard formatter takes several times as long, and under attack many requests are refused.
    (0..14)
        .rev()
        .for_each(|digit| text.push(char::from(b"0123456789abcdef"[(tag >> (4 * digit)) as usize & 15])));
    text
}

/// Returns whether this is the ACK to a response of this process. This ACK is not forwarded (RFC 3261 §8.2.7), since
/// no other element knows the response.
pub(crate) fn acknowledges_us(site: &Site, message: &Message<'_>) -> bool {
    message.method() == Some(Method::Ack)
        && message.to_tag().is_some_and(|tag| {
            tag.starts_with(OWN_TAG.as_bytes()) && tag == own_tag(site, message).as_bytes()
        })
}

/// The same for a received datagram, without a scan. Under overload, half of all messages are these ACKs.
pub(crate) fn is_acknowledgement_of_us(site: &Site, datagram: &[u8]) -> bool {
    wire::Acknowledgement::peek(datagram).is_some_and(|ack| {
        let is_alike = ack.to_tag.starts_with(OWN_TAG.as_bytes());
        is_alike && ack.to_tag == tag_of(site, ack.cseq, ack.call_id).as_bytes()
    })
}

/// Returns the maximum length of a response to a request of this length.
fn most(own: OwnResponse<'_>, request: usize, allowance: Allowance) -> usize {
    let usual = longest(request);
    match own {
        OwnResponse::OfRegistrar(..) | OwnResponse::Challenge(_) => allowance.most(LARGEST),
        OwnResponse::Trying => allowance.most_of_trying(usual),
        _ => allowance.most(usual),
    }
}

/// RFC 3261 §11.2: header fields that a 200 to OPTIONS SHOULD have. Accept and Supported are empty (§20.1, §20.37),
/// since this proxy reads no body and knows no extension for endpoints. A proxy forwards every method, so it SHOULD
/// omit Allow.
const CAPABILITIES: [(&str, &[u8]); 4] =
    [("Accept", b""), ("Accept-Encoding", b"identity"), ("Accept-Language", b"en"), ("Supported", b"")];

/// RFC 5630 §5.3: Warning in the refusal of a SIPS request. It names no host, so that it reveals nothing about this
/// site.
const WARNING: [Header<'_>; 1] = [("Warning", b"380 proxy \"SIPS Not Allowed\"")];

/// Maximum bytes by which a response is longer than its request: `received` and `rport` in the topmost Via, the tag,
/// Content-Length, the difference between status line and request line, long names of header fields.
const GROWTH_MAX: usize = 100;

/// Minimum length of a request that gets a response. No request that RFC 3261 §8.1.1 allows is shorter, even with
/// compact names. So no response is more than twice as long as its request, even to a forged source.
pub(crate) const ANSWERED_MIN: usize = 100;

/// Returns the maximum length of a response of this process to a request of this length.
pub(crate) fn longest(request: usize) -> usize {
    LARGEST.min(request + GROWTH_MAX)
}

/// Answers a request from this process, statelessly (RFC 3261 §8.2.7).
///
/// # Errors
/// The reason why there is no response. An ACK never gets one.
fn write_answer<E>(
    message: &Message<'_>,
    flow: Flow,
    own: OwnResponse<'_>,
    site: &Site,
    out: &mut Outbox<E>,
) -> Result<(), Drop> {
    if message.method() == Some(Method::Ack) {
        return Err(Drop::Ack);
    }
    let length = message.bytes().len();
    // RFC 3261 §17.1.3: without a CSeq the response could not be matched.
    if length < ANSWERED_MIN || !message.has_cseq() {
        return Err(Drop::Unanswerable);
    }
    let from = flow.peer;
    // A Via with `maddr` may lead to an address of another family than the listener's.
    let back = site.topology.ports.way_back(message.top_via(), flow).ok_or(Drop::NoTarget)?;
    let tag = own_tag(site, message);
    let unsupported = unsupported(message);
    let unsupported = [("Unsupported", &unsupported[..])];
    let seconds = own.retry_after().map(|seconds| seconds.to_string());
    let retry_after = seconds.as_ref().map(|seconds| ("Retry-After", seconds.as_bytes()));
    let contact = own.contact().map(String::into_bytes);
    let contact = contact.as_deref().map(|contact| ("Contact", contact));
    let least = if let OwnResponse::SessionTooShort(least) = own { least.to_string() } else { String::new() };
    let least = [("Min-SE", least.as_bytes())];
    let of_registrar: Vec<Header<'_>> = match own {
        OwnResponse::OfRegistrar(answer, _) | OwnResponse::Challenge(answer) => {
            answer.headers.iter().map(|(name, value)| (*name, &value[..])).collect()
        }
        _ => Vec::new(),
    };
    let headers: &[Header<'_>] = match own {
        OwnResponse::OfRegistrar(..) | OwnResponse::Challenge(_) => &of_registrar,
        OwnResponse::ByRule(_) => contact.as_slice(),
        OwnResponse::Capabilities => &CAPABILITIES,
        OwnResponse::SessionTooShort(_) => &least,
        OwnResponse::Refused(refusal) if refusal.status == 420 => &unsupported,
        OwnResponse::Refused(refusal) if refusal == SIPS_NOT_ALLOWED => &WARNING,
        OwnResponse::Trying | OwnResponse::Cancelled | OwnResponse::Refused(_) => retry_after.as_slice(),
    };
    let is_genuine = matches!(own, OwnResponse::OfRegistrar(_, true));
    let overload = &site.admission.overload;
    let most = most(own, length, allowance(site, flow, back, is_genuine, length))
        .saturating_add(overload.room(back));
    let send = |headers: &[Header<'_>]| {
        out.send_at_most(most, back, |buffer| {
            let start = buffer.len();
            let reply = ResponseBuilder::reply(buffer, message, from, own.status(), own.reason(), &tag);
            headers.iter().fold(reply, |reply, (name, value)| reply.header(name, value)).finish(b"");
            overload.tell(buffer, start, back);
        })
    };
    let is_needless = matches!(own, OwnResponse::Capabilities) || retry_after.is_some() || contact.is_some();
    let is_sent = send_within_limit(own, headers, is_needless, send);
    is_sent.then_some(()).ok_or(Drop::TooLong)
}

/// The name and the value of a header field.
type Header<'a> = (&'a str, &'a [u8]);

/// Sends a response with these header fields, or with as many of them as have room. Returns whether the response was
/// sent.
fn send_within_limit(
    own: OwnResponse<'_>,
    headers: &[Header<'_>],
    is_needless: bool,
    mut send: impl FnMut(&[Header<'_>]) -> bool,
) -> bool {
    // If the response is too long, header fields that it SHOULD or MAY have are left out, and so are the Contacts of a
    // redirection (§8.1.3.4). The sender of such a short request still learns that it is refused, and a forged source
    // gets no more than from other responses.
    if send(headers) || (is_needless && send(&[])) {
        return true;
    }
    match own {
        // The bindings sent to an unverified sender are limited. Its own bindings are the last ones.
        OwnResponse::OfRegistrar(..) => (1..headers.len()).any(|first| send(&headers[first..])),
        // Every client supports the algorithm of the last challenge.
        OwnResponse::Challenge(_) if headers.len() > 1 => send(&headers[headers.len() - 1..]),
        _ => false,
    }
}

/// RFC 3261 §16.3 step 5: returns the option tags of Proxy-Require, all of which are unknown to this proxy. The result
/// is never longer than these header fields.
fn unsupported(message: &Message<'_>) -> Vec<u8> {
    let mut list = Vec::new();
    for tag in message.proxy_require() {
        if !list.is_empty() {
            list.push(b',');
        }
        list.extend_from_slice(tag);
    }
    list
}

/// Answers a request from this process, statelessly (RFC 3261 §8.2.7). An ACK gets no response. Returns whether it was
/// answered.
pub(crate) fn answer(
    site: &mut Site,
    flow: Flow,
    message: &Message<'_>,
    own: OwnResponse<'_>,
    out: &mut Outbox<ShardEvent>,
) -> bool {
    let written = write_answer(message, flow, own, site, out);
    match written {
        Ok(()) => {
            site.ledger.charge(Operation::Reject);
            site.admission.answered(&site.tokens, message, Challenger::Here, own.status());
            if own.status() >= 300 {
                site.failed(FailureCause::Refused { status: own.status(), reason: own.label() });
            } else {
                site.failed_by_rule(None);
            }
            site.counters.replied(own.status(), own.label());
        }
        Err(drop) => site.discard(drop),
    }
    written.is_ok()
}

/// Sends a 100 to the sender of a request that waits here (RFC 3261 §17.2.1).
pub(crate) fn trying(site: &mut Site, flow: Flow, message: &Message<'_>, out: &mut Outbox<ShardEvent>) {
    let own = OwnResponse::Trying;
    if write_answer(message, flow, own, site, out).is_ok() {
        site.counters.replied(own.status(), own.label());
    }
}

/// Answers or drops a request that is not forwarded. `seen` is its key, if already computed.
pub(crate) fn reject(
    site: &mut Site,
    flow: Flow,
    message: &Message<'_>,
    seen: Option<RequestKey>,
    rejection: Rejection,
    out: &mut Outbox<ShardEvent>,
) {
    let routes;
    let own = match rejection {
        Rejection::Answered(own) => own,
        Rejection::Overloaded(refused) => OwnResponse::Refused(refused),
        Rejection::By(refuser) => {
            if let Some(rule) = refuser.rule() {
                site.failed_by_rule(Some(rule));
            }
            routes = Arc::clone(&site.routes);
            match routes.answer(refuser) {
                Ok(own) => own,
                Err(drop) => return site.discard(drop),
            }
        }
        Rejection::Dropped(drop) => return site.discard(drop),
    };
    // Records only refusals that a later copy might not get again: those for load, for missing members, and for CANCEL.
    if answer(site, flow, message, own, out)
        && let OwnResponse::Refused(refusal) = own
        && message.method() == Some(Method::Invite)
        && matches!(refusal.status, 480 | 487 | 500..600)
    {
        let key = seen.unwrap_or_else(|| site.seen.request_key(&site.tokens, message, None, flow.peer));
        site.seen.note(site.now, key, RequestResult::Refused(refusal));
    }
}

/// Notes a response of a next hop that goes back to the client.
pub(crate) fn note_response(site: &mut Site, response: &Message<'_>) {
    let status = response.status().unwrap_or_default();
    if status >= 200 && site.admission.is_charging() {
        let Site { seen, tokens, now, .. } = &mut *site;
        seen.answered(*now, tokens, response);
    }
    site.admission.answered(&site.tokens, response, Challenger::Behind, status);
    if let Some(cause) = FailureCause::of_response(response) {
        site.failed(cause);
    }
}

/// Returns whether a request is an OPTIONS about this proxy, whose URI has no user part (RFC 3261 §11). A probe of this
/// proxy must not get the response of another element. An OPTIONS is refused if an INVITE with the same URI would have
/// no destination.
pub(crate) fn is_about_us(site: &Site, message: &Message<'_>) -> bool {
    let ours = |uri: SipUri<'_>| uri.user.is_none() && site.topology.is_ours(&uri);
    message.method() == Some(Method::Options)
        && message.to_tag().is_none()
        && message.uri().and_then(|uri| SipUri::parse(uri).ok()).is_some_and(ours)
}
