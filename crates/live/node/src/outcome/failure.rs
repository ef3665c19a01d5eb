//! Causes of failed requests, and their reports for the log, made only if the configuration asks for them.

use crate::outcome::counters::Drop;
use base::Instant;
use core::fmt::{self, Display, Formatter};
use core::time::Duration;
use std::net::SocketAddr;
use wire::{Discard, Message};

/// A request that failed, or a response that could not be forwarded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Method of the request; empty if it could not be read.
    pub method: Box<str>,
    /// Call-ID of the message; empty if it could not be read.
    pub call_id: Box<str>,
    /// The sender of the message.
    pub from: SocketAddr,
    /// Reason of the failure.
    pub cause: FailureCause,
}

/// Reason why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureCause {
    /// This process refused the request. The reason phrase names the cause.
    Refused {
        /// Status code.
        status: u16,
        /// Reason phrase.
        reason: &'static str,
    },
    /// The message was dropped without an answer.
    Dropped(Drop),
    /// The node or next hop that sent the response refused the request.
    Answered {
        /// Status code.
        status: u16,
    },
    /// The handshake of a connection failed for this reason.
    Handshake(&'static str),
}

impl Display for FailureCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status, reason } => write!(f, "answered here: {status} {reason}"),
            Self::Dropped(drop) => write!(f, "dropped: {}", drop.reason()),
            Self::Answered { status } => write!(f, "answered by the next hop: {status}"),
            Self::Handshake(reason) => write!(f, "connection failed: {reason}"),
        }
    }
}

impl FailureCause {
    /// Returns the failure that a response to an INVITE reports. A challenge (401, 407) and the end of a cancelled call
    /// (487) are no failures.
    pub(crate) fn of_response(response: &Message<'_>) -> Option<Self> {
        let is_invite = response.cseq().method == wire::Method::Invite;
        let status = response.status().filter(|status| is_invite && *status >= 400)?;
        (!matches!(status, 401 | 407 | 487)).then_some(Self::Answered { status })
    }

    /// Returns whether a request with this cause has failed. A challenge and a success have not; a request whose target
    /// is being looked up is repeated. A cancelled call is no failure either.
    pub(crate) fn is_failure(self) -> bool {
        match self {
            Self::Refused { reason, .. } if reason == WRONG_PASSWORD => true,
            Self::Refused { status, .. } | Self::Answered { status } => {
                status >= 400 && !matches!(status, 401 | 407 | 487)
            }
            Self::Dropped(drop) => !matches!(drop, Drop::Unresolved) && self.is_news(),
            Self::Handshake(_) => true,
        }
    }

    /// Returns whether the failure is worth a log line. Dropped keep-alives, and ACKs to responses of this process, are
    /// not.
    pub(crate) fn is_news(self) -> bool {
        !matches!(self, Self::Dropped(Drop::Ack | Drop::Unreadable(Discard::Empty | Discard::KeepAlive)))
    }
}

/// Reason of a challenge to a request with wrong credentials.
pub(crate) const WRONG_PASSWORD: &str = "Wrong Password Or Unknown User";

/// Maximum length of a reported Call-ID, in bytes.
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

/// Limits the reports of an event that every datagram may cause: at most one report a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Throttle {
    last_report: Option<Instant>,
    count: u64,
}

impl Throttle {
    const EACH: Duration = Duration::from_secs(1);

    /// Counts the event. Returns the number of events since the last report, if a report is due now.
    pub(crate) fn note(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        if self.last_report.is_some_and(|last| now.saturating_since(last) < Self::EACH) {
            return None;
        }
        self.last_report = Some(now);
        Some(core::mem::take(&mut self.count))
    }
}
