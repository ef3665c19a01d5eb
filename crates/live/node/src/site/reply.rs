//! The responses that this process makes itself.

use crate::admission::Challenger;
use crate::message::validate::{LARGEST, SIPS_NOT_ALLOWED};
use crate::outcome::counters::Drop;
use crate::outcome::event::ShardEvent;
use crate::outcome::failure::FailureCause;
use crate::outcome::rejection::{OwnResponse, Rejection};
use crate::seen::{Became, RequestKey};
use crate::site::Site;
use crate::site::allowance::{Allowance, allowance};
use crate::token::keyed_hash;
use arrayvec::ArrayString;
use balance::CallKey;

use base::{Flow, Operation, Outbox};
use std::sync::Arc;
use wire::build::ResponseBuilder;
use wire::{Message, Method, SipUri};

/// How the To tags begin that we make.
const OWN_TAG: &str = "sb";

/// The To tag of our own answers, the same for each retransmission (RFC 3261 §8.2.7): made of what stays the
/// same in them, and of our address, since other elements of the site have the same key. Of the call key it shows
/// nothing, or clients could learn which Call-IDs meet in the session table.
pub(crate) fn own_tag(site: &Site, message: &Message<'_>) -> ArrayString<16> {
    let CallKey(key) = site.tokens.call_key(message.call_id());
    let here = site.topology.ports.get(0).map_or("", |port| &port.sent_by);
    let number = message.cseq().number.to_be_bytes();
    let tag = keyed_hash([(key >> 64) as u64, key as u64], &[&number, here.as_bytes()]);
    let mut text = ArrayString::new();
    text.push_str(OWN_TAG);
    // The formatter takes several times as long, and an attack has many requests refused.
    (0..14)
        .rev()
        .for_each(|digit| text.push(char::from(b"0123456789abcdef"[(tag >> (4 * digit)) as usize & 15])));
    text
}

/// Whether this is the ACK to an answer of ours: it ends here (RFC 3261 §8.2.7), nobody else knows of it.
pub(crate) fn acknowledges_us(site: &Site, message: &Message<'_>) -> bool {
    message.method() == Some(Method::Ack)
        && message.to_tag().is_some_and(|tag| {
            tag.starts_with(OWN_TAG.as_bytes()) && tag == own_tag(site, message).as_bytes()
        })
}

/// The most bytes of an answer of ours to a request of this length.
fn most(own: OwnResponse<'_>, request: usize, allowance: Allowance) -> usize {
    let usual = longest(request);
    match own {
        OwnResponse::OfRegistrar(..) | OwnResponse::Challenge(_) => allowance.most(LARGEST),
        OwnResponse::Trying => allowance.most_of_trying(usual),
        _ => allowance.most(usual),
    }
}

/// RFC 3261 §11.2: what a 200 to OPTIONS SHOULD have. No body is read, and no extension for endpoints is known: that is
/// what an empty Accept and Supported say (§20.1, §20.37). A proxy is there for every method, so it SHOULD omit Allow.
const CAPABILITIES: [(&str, &[u8]); 4] =
    [("Accept", b""), ("Accept-Encoding", b"identity"), ("Accept-Language", b"en"), ("Supported", b"")];

/// RFC 5630 §5.3: why a SIPS request is refused. No host is named, since its senders need not know ours.
const WARNING: [Header<'_>; 1] = [("Warning", b"380 proxy \"SIPS Not Allowed\"")];

/// The most bytes by which an answer is longer than its request. What it adds: `received` and `rport` in the topmost Via,
/// the tag, Content-Length, the difference between status line and request line, long names of header fields.
const GROWTH_MAX: usize = 100;

/// No request that RFC 3261 §8.1.1 allows is shorter, with names of one letter. So no answer is more than twice as long as
/// its request, whoever forged its source.
pub(crate) const ANSWERED_MIN: usize = 100;

/// The longest answer of our own to a request of this length.
pub(crate) fn longest(request: usize) -> usize {
    LARGEST.min(request + GROWTH_MAX)
}

/// Answers a request ourselves, statelessly (RFC 3261 §8.2.7).
///
/// # Errors
/// Why there is no answer; an ACK never gets one.
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
    // RFC 3261 §17.1.3: without a CSeq nobody could tell what is answered.
    if length < ANSWERED_MIN || !message.has_cseq() {
        return Err(Drop::Unanswerable);
    }
    let from = flow.peer;
    // A Via with `maddr` may lead out of the family of the listener that was asked.
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
    let is_sent = send_what_fits(own, headers, is_needless, send);
    is_sent.then_some(()).ok_or(Drop::TooLong)
}

/// The name and the value of a header field.
type Header<'a> = (&'a str, &'a [u8]);

/// Sends an answer with these header fields, or with as many of them as there is room for. Returns whether it was sent.
fn send_what_fits(
    own: OwnResponse<'_>,
    headers: &[Header<'_>],
    is_needless: bool,
    mut send: impl FnMut(&[Header<'_>]) -> bool,
) -> bool {
    // What it SHOULD or MAY have comes after the bound, and so do the Contacts of a redirection (§8.1.3.4): whoever
    // wrote a request that short knows at least that it is refused, and a forged source gets no more than of other
    // answers.
    if send(headers) || (is_needless && send(&[])) {
        return true;
    }
    match own {
        // What a stranger is told of the bindings is bounded: the last ones are his own.
        OwnResponse::OfRegistrar(..) => (1..headers.len()).any(|first| send(&headers[first..])),
        // The last challenge is the one that every client knows.
        OwnResponse::Challenge(_) if headers.len() > 1 => send(&headers[headers.len() - 1..]),
        _ => false,
    }
}

/// RFC 3261 §16.3 step 5: the option tags that we do not know, which are all. Never longer than where they stood.
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

/// Answers a request ourselves, statelessly (RFC 3261 §8.2.7). An ACK gets nothing. Returns whether it was answered.
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
            site.failed(FailureCause::Refused { status: own.status(), reason: own.label() });
            site.counters.replied(own.status(), own.label());
        }
        Err(drop) => site.discard(drop),
    }
    written.is_ok()
}

/// Tells who sent a request that it waits here (RFC 3261 §17.2.1).
pub(crate) fn trying(site: &mut Site, flow: Flow, message: &Message<'_>, out: &mut Outbox<ShardEvent>) {
    let own = OwnResponse::Trying;
    if write_answer(message, flow, own, site, out).is_ok() {
        site.counters.replied(own.status(), own.label());
    }
}

/// Gives a request that is not forwarded what it gets instead. `seen`: its key, if that has been computed.
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
            routes = Arc::clone(&site.routes);
            match routes.answer(refuser) {
                Ok(own) => own,
                Err(drop) => return site.discard(drop),
            }
        }
        Rejection::Dropped(drop) => return site.discard(drop),
    };
    // Only what may not be refused again a moment later is kept: for load, for missing members, and for CANCEL.
    if answer(site, flow, message, own, out)
        && let OwnResponse::Refused(refusal) = own
        && message.method() == Some(Method::Invite)
        && matches!(refusal.status, 480 | 487 | 500..600)
    {
        let key = seen.unwrap_or_else(|| site.seen.request_key(&site.tokens, message, None, flow.peer));
        site.seen.note(site.now, key, Became::Refused(refusal));
    }
}

/// A response goes back that a next hop has sent.
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

/// Whether it is an OPTIONS about this proxy itself, whose URI has no user part (RFC 3261 §11): who asks whether we are alive
/// must not be told how somebody behind us is. Where an INVITE had nowhere to go, nor has this.
pub(crate) fn is_about_us(site: &Site, message: &Message<'_>) -> bool {
    let ours = |uri: SipUri<'_>| uri.user.is_none() && site.topology.is_ours(&uri);
    message.method() == Some(Method::Options)
        && message.to_tag().is_none()
        && message.uri().and_then(|uri| SipUri::parse(uri).ok()).is_some_and(ours)
}
