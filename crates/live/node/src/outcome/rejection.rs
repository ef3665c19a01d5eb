//! Refusals of requests: by a response of this process, by the response of a rule, or without a response.

use crate::outcome::counters::Drop;
use base::Instant;
use route::AccessRefusal;

/// A refusal by this process: status and reason phrase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
    /// Retry-After in seconds (RFC 3261 §20.33).
    pub(crate) retry_after: Option<u64>,
}

/// Returns a refusal without Retry-After.
pub(crate) const fn refused(status: u16, reason: &'static str) -> Refused {
    Refused { status, reason, retry_after: None }
}

/// Returns the refusal of a new request by a process that stops at the time `end` at the latest (§21.5.4).
pub(crate) fn refused_until(end: Instant, now: Instant) -> Refused {
    let seconds = end.saturating_since(now).as_secs() + 1;
    Refused { retry_after: Some(seconds), ..refused(503, "Service Unavailable") }
}

/// A response of this process to a request that is not forwarded.
#[derive(Clone, Copy)]
pub(crate) enum OwnResponse<'a> {
    Refused(Refused),
    /// 100: the request waits here.
    Trying,
    /// 200 to the CANCEL of a request that waited here.
    Cancelled,
    /// 200 to an OPTIONS about this proxy.
    Capabilities,
    ByRule(&'a route::Answer),
    /// A response of the registrar, and whether the sender of the request has proved to know a password.
    OfRegistrar(&'a ::location::RegistrarResponse, bool),
    /// 422 (RFC 4028 §6) with the minimum session interval in seconds.
    SessionTooShort(u32),
    /// A challenge (RFC 3261 §22).
    Challenge(&'a ::location::RegistrarResponse),
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

    /// Returns the label in counts: the reason phrase, or a fixed label for the response of a rule.
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

/// Reason why a request is not forwarded now.
#[derive(Clone, Copy)]
pub(crate) enum Rejection {
    Answered(OwnResponse<'static>),
    /// Overload control refuses it.
    Overloaded(Refused),
    /// An access list or a rule refuses the request.
    By(Refuser),
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

/// The access list or rule of the configuration that refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refuser {
    /// The access list of the listener with this index.
    Listener(u16),
    /// The access list of the rule with this index.
    Rule(usize),
    /// The response of the rule with this index.
    Answer(usize),
    /// The rule with this index, which sends requests to their Request-URI. It allows this only for members of pools,
    /// or only into its networks.
    Relay(usize),
    /// The rule with this index, which gives no response.
    Silence(usize),
    /// No rule matches the request.
    NoRule,
}

impl Refuser {
    /// Returns the index of the rule that refuses.
    pub(crate) fn rule(self) -> Option<usize> {
        match self {
            Self::Rule(rule) | Self::Answer(rule) | Self::Relay(rule) | Self::Silence(rule) => Some(rule),
            Self::Listener(_) | Self::NoRule => None,
        }
    }
}

/// Refusal of a sender that must be authenticated, if neither this proxy nor the next hop verifies credentials.
pub(crate) const CREDENTIALS_NOT_VERIFIED: Refused =
    Refused { retry_after: Some(1), ..refused(503, "Credentials Not Verified Here") };

/// Returns the rejection that an access list or a rate limit asks for.
pub(crate) fn refuse(refusal: AccessRefusal) -> Rejection {
    match refusal {
        AccessRefusal::Forbidden => refused(403, "Forbidden").into(),
        AccessRefusal::Unavailable => refused(503, "Too Many Requests").into(),
        AccessRefusal::Silence => Rejection::Dropped(Drop::Silenced),
    }
}
