//! Failed requests, for the log; told only on demand.

use crate::outcome::counters::Drop;
use base::Instant;
use core::fmt::{self, Display, Formatter};
use core::time::Duration;
use std::net::SocketAddr;
use wire::{Discard, Message};

/// A request that failed, or a response that led nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Method of the request; empty where it could not be read.
    pub method: Box<str>,
    /// Of the message; empty where it could not be read.
    pub call_id: Box<str>,
    /// The sender of the message.
    pub from: SocketAddr,
    /// The failure.
    pub cause: FailureCause,
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureCause {
    /// It got an answer of ours; the reason phrase names the rule.
    Refused {
        /// Status code.
        status: u16,
        /// Reason phrase.
        reason: &'static str,
    },
    /// It was dropped.
    Dropped(Drop),
    /// The node or next hop that sent the message refused it.
    Answered {
        /// Status code.
        status: u16,
    },
}

impl Display for FailureCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status, reason } => write!(f, "answered here: {status} {reason}"),
            Self::Dropped(drop) => write!(f, "dropped: {}", drop.reason()),
            Self::Answered { status } => write!(f, "answered there: {status}"),
        }
    }
}

impl FailureCause {
    /// The failure that a response means: of an INVITE, and neither a challenge (401, 407) nor the end of a call that
    /// was cancelled (487).
    pub(crate) fn of_response(response: &Message<'_>) -> Option<Self> {
        let is_invite = response.cseq().method == wire::Method::Invite;
        let status = response.status().filter(|status| is_invite && *status >= 400)?;
        (!matches!(status, 401 | 407 | 487)).then_some(Self::Answered { status })
    }

    /// Whether it is worth a line: keep-alives are none, nor are the ACKs to our own answers.
    pub(crate) fn is_news(self) -> bool {
        !matches!(self, Self::Dropped(Drop::Ack | Drop::Unreadable(Discard::Empty | Discard::KeepAlive)))
    }
}

/// Most characters of a Call-ID that are told.
const LONGEST: usize = 128;

impl Failure {
    pub(crate) fn new(message: Option<&Message<'_>>, from: SocketAddr, cause: FailureCause) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into();
        let method = |message: &Message<'_>| text(message.cseq().method_name.of(message.bytes()));
        Self {
            method: message.map_or_else(Box::default, method),
            call_id: message.map_or_else(Box::default, |message| text(message.call_id())),
            from,
            cause,
        }
    }
}

/// Tells of something that may happen with every datagram at most once a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Throttle {
    told: Option<Instant>,
    count: u64,
}

impl Throttle {
    const EACH: Duration = Duration::from_secs(1);

    /// It has happened; how often since this was last told, if it is to be told now.
    pub(crate) fn note(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        if self.told.is_some_and(|told| now.saturating_since(told) < Self::EACH) {
            return None;
        }
        self.told = Some(now);
        Some(core::mem::take(&mut self.count))
    }
}
