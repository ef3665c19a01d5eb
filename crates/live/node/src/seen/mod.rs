//! Results of recent requests: the hop to which they went without a transaction, that they were dropped, or how an
//! INVITE was refused. Copies, CANCEL and ACK get the same result (RFC 3261 §8.2.7, §16.11). This holds even if the
//! next hop has been removed or the user has registered another contact. If sources are charged, requests forwarded
//! with a transaction are recorded as well.
//!
//! Transactions, calls in the session table and waiting requests are kept and found elsewhere.

mod answers;

use crate::address::contact::Contact;
use crate::outcome::rejection::Refused;
use crate::token::Tokens;
use answers::Answers;
pub(crate) use answers::{COPIES_LAST, RequestPrint};
use balance::{Balancer, Slot};
use base::{Instant, Recent};
use core::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use transaction::{Keys, ServerKey, Side, TransactionKey, is_unique};
use wire::{Message, Method, request_source_target, response_target};

/// Number of requests in each of two generations: as many as come in 32 s (64*T1, RFC 3261 §17.1.1.2) at 4,000 requests
/// a second.
const GENERATION: usize = 131_072;

/// Number of requests that went to a user's contact, in each of two generations.
const CONTACTS: usize = 16_384;
/// Maximum bytes of the contacts in the young generation.
const CONTACT_BYTES: usize = 16 << 20;

/// Number of refused INVITEs in each of two generations: as many as come in 32 s at 2,000 INVITEs a second.
const REFUSED: usize = 65_536;

/// Most retransmissions of a request by a client: six of an INVITE (RFC 3261 §17.1.1.2), ten of another request
/// (§17.1.2.2).
const COPIES: u8 = 10;

/// The receiver of a request without a transaction.
#[derive(Clone)]
pub(crate) enum Hop {
    /// A member or next hop.
    Member(Slot),
    /// The contact of a user.
    Contact(Arc<Contact>),
    /// The address that the request names.
    Address,
}

impl Hop {
    /// Returns the member or next hop, if the node is still in use.
    pub(crate) fn member(&self, balancer: &Balancer) -> Option<Slot> {
        let Self::Member(slot) = *self else { return None };
        balancer.nodes().get(slot.index()).is_some_and(|node| node.member).then_some(slot)
    }
}

/// Result of a request.
#[derive(Clone)]
pub(crate) enum RequestResult {
    /// The request was forwarded. `Some`: without a transaction, to this hop.
    Forwarded(Option<Hop>),
    /// The request was dropped without a response.
    Dropped,
    /// An INVITE that was refused. A late copy must not begin a call: a caller that has acknowledged a 503 would not
    /// know of it.
    Refused(Refused),
}

/// A request that was here before.
#[derive(Clone)]
pub(crate) struct Earlier {
    /// Time when its first copy came.
    pub(crate) first: Instant,
    pub(crate) became: RequestResult,
    /// Time since when copies are free of charge. `free` is the number of further free copies.
    free_since: Instant,
    free: u8,
}

impl Earlier {
    pub(crate) fn hop(&self) -> Option<&Hop> {
        if let RequestResult::Forwarded(hop) = &self.became { hop.as_ref() } else { None }
    }

    pub(crate) fn refused(&self) -> Option<Refused> {
        if let RequestResult::Refused(refused) = self.became { Some(refused) } else { None }
    }

    /// Returns whether a copy that comes now is free of charge. Number and time of free copies are limited.
    pub(crate) fn is_free(&self, now: Instant) -> bool {
        self.free > 0 && now.saturating_since(self.free_since) < COPIES_LAST
    }
}

/// The key of a request, computed once.
#[derive(Clone, Copy)]
pub(crate) struct RequestKey {
    key: TransactionKey,
    /// Hash of the Request-URI. A request that comes back with another one (a spiral, §16.3 step 4) is another request.
    uri: u64,
}

impl RequestKey {
    fn entry(self) -> TransactionKey {
        TransactionKey(self.key.0 ^ u128::from(self.uri) << 64)
    }
}

/// Results of recent requests of a shard.
pub(crate) struct Seen {
    pub(crate) keys: Keys,
    /// Refused INVITEs. They have their own table, since any sender can cause many refusals and must not evict other
    /// entries.
    refused: Recent<TransactionKey, Earlier>,
    contacts: Recent<TransactionKey, Earlier>,
    /// Bytes of the contacts in the young generation.
    contact_bytes: usize,
    others: Recent<TransactionKey, Earlier>,
    /// Time when a request got its final response, by the key of the request without Request-URI.
    answered: Recent<TransactionKey, Instant>,
    pub(crate) answers: Answers,
}

impl Seen {
    pub(crate) fn new(keys: Keys) -> Self {
        Self {
            keys,
            refused: Recent::new(REFUSED),
            contacts: Recent::new(CONTACTS),
            contact_bytes: 0,
            others: Recent::new(GENERATION),
            answered: Recent::new(GENERATION),
            answers: Answers::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.contacts.is_empty() && self.refused.is_empty()
    }

    /// Returns whether any refused INVITE is remembered.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Returns the key of a request, which a CANCEL and the ACK to a failure share with their INVITE. It combines the
    /// key of the transaction (RFC 3261 §9.1, §17.1.1.3, §17.2.3) with all other properties that copies share. `known`
    /// is the key of the transaction if already computed. The branch alone is not enough: some clients use one branch
    /// for several requests, and a branch of an RFC 2543 client means nothing.
    pub(crate) fn key(
        &self,
        tokens: &Tokens,
        request: &Message<'_>,
        known: Option<ServerKey>,
        from: SocketAddr,
    ) -> TransactionKey {
        let key = if request.top_via().branch.is_some_and(is_unique) {
            match request.method() {
                Some(Method::Cancel) => self.keys.cancelled(request).key,
                _ => known.unwrap_or_else(|| self.keys.request(request)).key,
            }
        } else {
            key_of_method(request.method().unwrap_or(Method::Other))
        };
        combine(key, print(tokens, request, from))
    }

    /// Returns the key of the request to which a response belongs. In the response, the client's Via is below this
    /// proxy's Via.
    fn key_of_answered(&self, tokens: &Tokens, response: &Message<'_>) -> Option<TransactionKey> {
        let via = response.second_via()?;
        let below = self.keys.below(response, &via);
        let key = below.unwrap_or_else(|| key_of_method(response.cseq().method));
        Some(combine(key, print_to(tokens, response, response_target(&via)?)))
    }

    /// Returns the key with the Request-URI, for [`recall`](Self::recall) and [`note`](Self::note).
    pub(crate) fn request_key(
        &self,
        tokens: &Tokens,
        request: &Message<'_>,
        known: Option<ServerKey>,
        from: SocketAddr,
    ) -> RequestKey {
        let mut hasher = tokens.kept_hasher();
        hasher.write(request.uri().unwrap_or_default());
        RequestKey { key: self.key(tokens, request, known, from), uri: hasher.finish() }
    }

    /// Returns the result of an earlier copy of a request, or of the INVITE of an ACK or CANCEL. Copies of a request
    /// with a final response are not free.
    pub(crate) fn recall(&self, key: RequestKey) -> Option<Earlier> {
        let tables = [&self.refused, &self.contacts, &self.others];
        let mut earlier = tables.into_iter().find_map(|table| table.get(&key.entry()))?.clone();
        if self.answered.get(&key.key).is_some_and(|answered| *answered >= earlier.free_since) {
            earlier.free = 0;
        }
        Some(earlier)
    }

    /// Records the result of a request or of a copy.
    pub(crate) fn note(&mut self, now: Instant, key: RequestKey, became: RequestResult) {
        let earlier = self.recall(key);
        let first = earlier.as_ref().map_or(now, |earlier| earlier.first);
        let (free_since, free) = match earlier {
            Some(earlier) if earlier.is_free(now) => (earlier.free_since, earlier.free - 1),
            _ => (now, COPIES),
        };
        let table = match &became {
            RequestResult::Refused(_) => &mut self.refused,
            RequestResult::Forwarded(Some(Hop::Contact(contact))) => {
                self.contact_bytes += contact.memory();
                if self.contact_bytes > CONTACT_BYTES {
                    self.contacts.age();
                    self.contact_bytes = contact.memory();
                }
                &mut self.contacts
            }
            RequestResult::Forwarded(_) | RequestResult::Dropped => &mut self.others,
        };
        table.insert(key.entry(), Earlier { first, became, free_since, free });
    }

    /// Records the final response to a request. After it a client sends copies only if the response was lost. These
    /// copies are charged.
    pub(crate) fn answered(&mut self, now: Instant, tokens: &Tokens, response: &Message<'_>) {
        if let Some(key) = self.key_of_answered(tokens, response) {
            self.answered.insert(key, now);
        }
    }
}

/// Returns a key for the method alone. ACK and CANCEL have the key of INVITE.
fn key_of_method(method: Method) -> TransactionKey {
    let is_about = matches!(method, Method::Ack | Method::Cancel);
    TransactionKey::from_numbers(Side::Server, 0, if is_about { Method::Invite } else { method })
}

fn combine(key: TransactionKey, print: u64) -> TransactionKey {
    TransactionKey(key.0 ^ u128::from(print))
}

/// Returns a hash, under a secret, of the properties that copies share besides branch and Request-URI. These are the
/// target of the responses, and the fields that a CANCEL and the ACK to a failure also have (RFC 3261 §9.1, §17.1.1.3).
fn print(tokens: &Tokens, request: &Message<'_>, from: SocketAddr) -> u64 {
    print_to(tokens, request, request_source_target(request.top_via(), from).unwrap_or(from))
}

fn print_to(tokens: &Tokens, message: &Message<'_>, target: SocketAddr) -> u64 {
    let from_tag = message.from_tag().unwrap_or_default();
    let ip = match target.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut fixed = [0; 26];
    fixed[..16].copy_from_slice(&ip.octets());
    fixed[16..18].copy_from_slice(&target.port().to_be_bytes());
    fixed[18..22].copy_from_slice(&message.cseq().number.to_be_bytes());
    fixed[22..].copy_from_slice(&(from_tag.len() as u32).to_be_bytes());
    let mut hasher = tokens.kept_hasher();
    for text in [&fixed, from_tag, message.call_id()] {
        hasher.write(text);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Flow;

    fn invite(number: usize) -> Vec<u8> {
        format!(
            "INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.9;branch=z9hG4bK{number}\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:a@b>\r\nCall-ID: {number}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }

    /// Notes one INVITE for each result, with numbers from `number` on.
    fn note(
        seen: &mut Seen,
        tokens: &Tokens,
        number: usize,
        became: impl IntoIterator<Item = RequestResult>,
    ) {
        for (at, became) in became.into_iter().enumerate() {
            let bytes = invite(number + at);
            let message = wire::scan(&bytes).expect("a message");
            seen.note(Instant::ZERO, seen.request_key(tokens, &message, None, from()), became);
        }
    }

    fn recall(seen: &Seen, tokens: &Tokens, number: usize) -> Option<Earlier> {
        let bytes = invite(number);
        seen.recall(seen.request_key(tokens, &wire::scan(&bytes).expect("a message"), None, from()))
    }

    fn from() -> SocketAddr {
        "127.0.0.9:5060".parse().expect("an address")
    }

    #[test]
    fn refusals_evict_no_call_and_contacts_are_bounded_in_bytes() {
        let (mut seen, tokens) = (
            Seen::new(Keys::new([1; 16])),
            Tokens::new(crate::TokenKey(*b"sixteen bytes ok"), &[], core::time::Duration::MAX),
        );
        note(&mut seen, &tokens, 0, [RequestResult::Forwarded(Some(Hop::Address))]);
        let refused = crate::outcome::rejection::refused(503, "Overloaded");
        note(&mut seen, &tokens, 1, (0..2 * GENERATION).map(|_| RequestResult::Refused(refused)));
        assert!(recall(&seen, &tokens, 0).is_some_and(|earlier| earlier.hop().is_some()));
        assert!(recall(&seen, &tokens, 1).is_none() && seen.refused.len() <= 2 * REFUSED);
        let long = Contact {
            uri: vec![b'a'; 1 << 20].into(),
            path: Box::default(),
            q: 1_000,
            hop: Flow::udp(0, from()),
            is_registered: false,
            spare: Vec::new(),
        };
        let contact = || RequestResult::Forwarded(Some(Hop::Contact(Arc::new(long.clone()))));
        note(&mut seen, &tokens, usize::MAX / 2, (0..100).map(|_| contact()));
        assert!(seen.contacts.len() * long.memory() <= 2 * CONTACT_BYTES, "{}", seen.contacts.len());
        assert!(recall(&seen, &tokens, usize::MAX / 2 + 99).is_some());
    }
}
