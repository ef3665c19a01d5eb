//! What a request gets that is not forwarded: an answer of this proxy, the answer of a rule, or nothing.

use crate::outcome::counters::Drop;
use base::Instant;
use route::Refusal;

/// A refusal of our own in place of forwarding: status and reason phrase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
    /// Seconds of Retry-After (RFC 3261 §20.33).
    pub(crate) retry_after: Option<u64>,
}

/// A refusal without Retry-After.
pub(crate) const fn refused(status: u16, reason: &'static str) -> Refused {
    Refused { status, reason, retry_after: None }
}

/// What a new request gets from a process that has stopped by `end` (§21.5.4).
pub(crate) fn refused_until(end: Instant, now: Instant) -> Refused {
    let seconds = end.saturating_since(now).as_secs() + 1;
    Refused { retry_after: Some(seconds), ..refused(503, "Service Unavailable") }
}

/// What a request gets from us in place of being forwarded.
#[derive(Clone, Copy)]
pub(crate) enum OwnResponse<'a> {
    /// A failure.
    Refused(Refused),
    /// 100: the request waits here.
    Trying,
    /// 200 to the CANCEL of a request that waited here.
    Cancelled,
    /// 200 to an OPTIONS about ourselves.
    Capabilities,
    /// What a rule says.
    ByRule(&'a route::Answer),
    /// What the registrar says, and whether the sender of the request has proved to know a password.
    OfRegistrar(&'a ::location::Answer, bool),
    /// 422 (RFC 4028 §6), and the least session interval in seconds.
    SessionTooShort(u32),
    /// A challenge (RFC 3261 §22).
    Challenge(&'a ::location::Answer),
}

impl<'a> OwnResponse<'a> {
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Refused(refusal) => refusal.status,
            Self::Trying => 100,
            Self::Cancelled | Self::Capabilities => 200,
            Self::ByRule(answer) => answer.status(),
            Self::SessionTooShort(_) => 422,
            Self::OfRegistrar(answer, _) | Self::Challenge(answer) => answer.status,
        }
    }

    pub(crate) fn reason(self) -> &'a str {
        match self {
            Self::ByRule(answer) => answer.reason(),
            other => other.label(),
        }
    }

    /// What it is counted as: the reason phrase, unless that is a rule's.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.reason,
            Self::Trying => "Trying",
            Self::Cancelled | Self::Capabilities => "OK",
            Self::ByRule(_) => "By Rule",
            Self::SessionTooShort(_) => "Session Interval Too Small",
            Self::OfRegistrar(answer, _) | Self::Challenge(answer) => answer.reason,
        }
    }

    pub(crate) fn contact(self) -> Option<String> {
        match self {
            Self::ByRule(answer) => answer.contact(),
            _ => None,
        }
    }

    pub(crate) fn retry_after(self) -> Option<u64> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }
}

/// Why a request is not forwarded now.
#[derive(Clone, Copy)]
pub(crate) enum Rejection {
    /// It gets an answer of ours.
    Answered(OwnResponse<'static>),
    /// Overload control refuses it.
    Overloaded(Refused),
    /// A list or a rule refuses it.
    By(Refuser),
    /// It gets nothing.
    Dropped(Drop),
}

impl From<Refused> for Rejection {
    fn from(refusal: Refused) -> Self {
        Self::Answered(OwnResponse::Refused(refusal))
    }
}

impl From<Refuser> for Rejection {
    fn from(refuser: Refuser) -> Self {
        Self::By(refuser)
    }
}

/// The list or rule of the configuration that refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refuser {
    /// The access list of a listener, by its index.
    Listener(u16),
    /// The access list of a rule, by its index.
    Rule(usize),
    /// The answer of a rule, by its index.
    Answer(usize),
    /// A rule that sends a request where its Request-URI leads: for members of pools, or into its networks.
    Relay(usize),
    /// A rule that answers nobody.
    Silence(usize),
    /// No rule is for the request.
    NoRule,
}

/// Its sender is to be authenticated here, and nobody can be.
pub(crate) const NOBODY_VERIFIES: Refused =
    Refused { retry_after: Some(1), ..refused(503, "Nobody Verifies Credentials") };

/// What a sender gets who may not do what it asks for.
pub(crate) fn refuse(refusal: Refusal) -> Rejection {
    match refusal {
        Refusal::Forbidden => refused(403, "Forbidden").into(),
        Refusal::Unavailable => refused(503, "Too Many Requests").into(),
        Refusal::Silence => Rejection::Dropped(Drop::Silenced),
    }
}
