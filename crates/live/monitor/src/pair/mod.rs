//! Pairs outgoing messages with incoming ones: one file for each way of pairing.

mod final_answer;
mod header;
mod invite;
mod key;
mod provisional;
mod table;
mod time;

use crate::captured::{Captured, Servers, Side};
use crate::counts::Counts;
use base::Instant;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use key::Keys;
use std::collections::VecDeque;
use table::{Answer, Gone, Table};
use time::InOrder;
use wire::Message;

/// Longest time after the final response at which the INVITE may still be seen to leave, if messages are copies out of
/// order. A process of the server sends the INVITE, is interrupted, and makes its copy after another process has
/// forwarded the response. The times in the copies are those of copying, so sorting does not help. Kamailio with two
/// processes on two processors: 11 calls in 100, by milliseconds.
const OUT_OF_ORDER: Duration = Duration::from_millis(100);
/// Most refusals that may be uncertain at a time: those of a flood of 40,000 a second.
const IN_DOUBT_MAX: usize = 4096;

/// The pairs of messages between which time is measured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Pairing {
    /// From an incoming INVITE to the same INVITE when it leaves: for proxies.
    #[default]
    Invite,
    /// From an INVITE to its first response.
    Provisional,
    /// From a request to its final response; of all methods, or of one.
    Final(Option<String>),
    /// From an INVITE to one with the same value of this header field: for B2BUAs.
    Header(String),
    /// From an INVITE to the next one that leaves: for B2BUAs.
    Time,
}

impl Pairing {
    /// Returns the default time for which a request may wait for its response: Timer B and F, for INVITEs that ring
    /// Timer C (RFC 3261 §16.6). With `Time` it is a second, so that a loss is soon forgotten.
    pub fn timeout(&self) -> Duration {
        match self {
            Self::Final(method) if method.as_deref().is_none_or(|method| method == "INVITE") => {
                Duration::from_mins(3)
            }
            Self::Time => Duration::from_secs(1),
            _ => Duration::from_secs(32),
        }
    }
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invite => f.write_str("invite"),
            Self::Provisional => f.write_str("provisional"),
            Self::Final(None) => f.write_str("final"),
            Self::Final(Some(method)) => write!(f, "final:{method}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Time => f.write_str("time"),
        }
    }
}

impl FromStr for Pairing {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let token = |text: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte);
            (!text.is_empty() && text.bytes().all(allowed)).then(|| text.to_owned())
        };
        match text.split_once(':') {
            None if text == "invite" => Ok(Self::Invite),
            None if text == "provisional" => Ok(Self::Provisional),
            None if text == "final" => Ok(Self::Final(None)),
            None if text == "time" => Ok(Self::Time),
            Some(("final", "ACK")) => Err("ACK has no response"),
            Some(("final", method)) => {
                token(method).map(|method| Self::Final(Some(method))).ok_or("final:METHOD needs a method")
            }
            Some(("header", name)) => {
                token(name).map(Self::Header).ok_or("header:NAME needs the name of a header field")
            }
            _ => Err("expected invite, provisional, final, final:METHOD, header:NAME or time"),
        }
    }
}

/// Meaning of a message for the table of requests, with the key of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sighting {
    /// A request arrived.
    Came(u64),
    /// The second message of the pair left.
    Left(u64),
    /// The second message of the pair left. Only the order shows to which request it belongs.
    Next(u64),
    /// The request got a final response: from the server itself, or long after it was forwarded.
    Refused(u64),
    /// A request that the server itself started.
    Own,
    /// A request without the header field of the pairing.
    WithoutKey,
}

/// Result of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Request,
    Repeated,
    Latency(Duration),
    Refused,
    Unmatched,
    WithoutKey,
    Nothing,
}

/// Whether a response ends its transaction (RFC 3261 §17).
fn final_response(message: &Message<'_>) -> bool {
    message.status().is_some_and(|status| status >= 200)
}

/// Pairs messages.
#[derive(Debug)]
pub(crate) struct Pairs {
    pairing: Pairing,
    keys: Keys,
    table: Table,
    in_order: Option<InOrder>,
    /// Whether messages are copies made by the server, whose order is not exact.
    has_copies: bool,
    /// Requests with a final response that were not seen to leave, with the time at which they count as refused.
    in_doubt: VecDeque<(Instant, u64)>,
}

impl Pairs {
    /// A pairing that remembers at most `most` requests, for `timeout`. The key keeps senders from choosing collisions.
    pub(crate) fn new(pairing: Pairing, timeout: Duration, most: usize, key: [u64; 2]) -> Self {
        let in_order = (pairing == Pairing::Time).then(|| InOrder::new(timeout, most));
        let table = Table::new(timeout, most);
        Self { pairing, keys: Keys(key), table, in_order, has_copies: false, in_doubt: VecDeque::new() }
    }

    /// From now on messages are copies made by the server.
    pub(crate) fn expect_copies(&mut self) {
        self.has_copies = true;
    }

    /// Whether a message can be relevant, by its first line. Most are not, and need not be parsed.
    pub(crate) fn wants(&self, captured: &Captured<'_>, servers: &Servers) -> bool {
        servers.sides(captured).any(|side| self.wants_from(captured.bytes, side))
    }

    fn wants_from(&self, bytes: &[u8], side: Side) -> bool {
        let is_response = bytes.starts_with(b"SIP/2.0 ");
        let is_final = || is_response && bytes.get(8).is_some_and(|digit| *digit >= b'2');
        let is_invite = || bytes.starts_with(b"INVITE ");
        match (&self.pairing, side) {
            (Pairing::Final(None), Side::In) => !is_response,
            (Pairing::Final(Some(method)), Side::In) => bytes.starts_with(method.as_bytes()),
            (_, Side::In) => is_invite(),
            (Pairing::Provisional, Side::Out) => is_response,
            (Pairing::Final(_), Side::Out) => is_final(),
            (_, Side::Out) => is_invite() || is_final(),
        }
    }

    /// Takes a parsed message, and calls `note` with each latency that it completes.
    pub(crate) fn message(
        &mut self,
        captured: &Captured<'_>,
        message: &Message<'_>,
        servers: &Servers,
        counts: &mut Counts,
        mut note: impl FnMut(Duration),
    ) {
        self.settle_doubts(captured.at, counts);
        for side in servers.sides(captured) {
            let Some(sighting) = self.sighting(message, side) else { continue };
            match self.see(captured.at, sighting, counts) {
                Seen::Request => counts.requests += 1,
                Seen::Repeated => counts.repeated += 1,
                Seen::Latency(latency) => note(latency),
                Seen::Refused => counts.refused += 1,
                Seen::Unmatched => counts.unmatched += 1,
                Seen::WithoutKey => counts.without_key += 1,
                Seen::Nothing => {}
            }
        }
    }

    fn sighting(&self, message: &Message<'_>, side: Side) -> Option<Sighting> {
        match &self.pairing {
            Pairing::Invite => invite::sighting(self.keys, message, side),
            Pairing::Provisional => provisional::sighting(self.keys, message, side),
            Pairing::Final(method) => {
                final_answer::sighting(self.keys, message, side, method.as_ref().map(String::as_bytes))
            }
            Pairing::Header(name) => header::sighting(self.keys, message, side, name),
            Pairing::Time => time::sighting(self.keys, message, side),
        }
    }

    fn see(&mut self, now: Instant, sighting: Sighting, counts: &mut Counts) -> Seen {
        let mut gone = Gone::default();
        let seen = match sighting {
            Sighting::Came(key) if self.table.came(now, key, &mut gone) => Seen::Request,
            Sighting::Came(_) => Seen::Repeated,
            Sighting::Left(key) => match self.table.answered(now, key) {
                Answer::First(latency) => Seen::Latency(latency),
                Answer::Again => Seen::Repeated,
                Answer::Unknown => Seen::Unmatched,
            },
            Sighting::Next(key) => match &mut self.in_order {
                Some(in_order) => in_order.left(now, key, &mut self.table, &mut gone),
                None => Seen::Nothing,
            },
            Sighting::Refused(key) if self.doubts(key) => {
                self.in_doubt.push_back((now + OUT_OF_ORDER, key));
                Seen::Nothing
            }
            Sighting::Refused(key) => match self.table.answered(now, key) {
                Answer::First(_) => Seen::Refused,
                Answer::Again | Answer::Unknown => Seen::Nothing,
            },
            Sighting::Own => Seen::Unmatched,
            Sighting::WithoutKey => Seen::WithoutKey,
        };
        counts.add_gone(gone.unanswered, gone.evicted);
        seen
    }

    /// Whether a request with a final response may still be seen to leave. With `Time` this is not possible, because
    /// the next INVITE that leaves would be taken for it.
    fn doubts(&self, key: u64) -> bool {
        self.has_copies && self.pairing != Pairing::Time && self.table.is_open(key)
    }

    /// Counts refusals that are certain now. A request whose INVITE has left meanwhile was not refused.
    fn settle_doubts(&mut self, now: Instant, counts: &mut Counts) {
        while let Some((due, key)) = self.in_doubt.front().copied()
            && (due <= now || self.in_doubt.len() > IN_DOUBT_MAX)
        {
            self.in_doubt.pop_front();
            if matches!(self.table.answered(now, key), Answer::First(_)) {
                counts.refused += 1;
            }
        }
    }

    /// Drops requests that are too old.
    pub(crate) fn expire(&mut self, now: Instant, counts: &mut Counts) {
        self.settle_doubts(now, counts);
        let mut gone = Gone::default();
        if let Some(in_order) = &mut self.in_order {
            in_order.expire(now, &mut self.table, &mut gone);
        }
        self.table.expire(now, &mut gone);
        counts.add_gone(gone.unanswered, gone.evicted);
    }

    /// Returns the age of the oldest request that is newer than every answered one, if there is a second such request;
    /// `None` while refusals are uncertain.
    pub(crate) fn oldest(&self, now: Instant) -> Option<Duration> {
        self.table.oldest(now).filter(|_| self.in_doubt.is_empty())
    }

    /// Returns the number of unanswered requests.
    pub(crate) fn waiting(&self) -> usize {
        self.table.open()
    }
}

#[cfg(test)]
mod tests;
