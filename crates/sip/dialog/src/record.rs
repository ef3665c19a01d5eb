//! Records of calls.

use crate::about::About;
use crate::call::DialogParty;
use base::Instant;
use std::net::SocketAddr;

/// Event of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordEvent {
    /// The call was answered. Written if [`CallSettings::tell_answers`](crate::CallSettings::tell_answers) is set.
    Answered,
    /// The call has ended, or was not answered.
    Ended,
}

/// Cause of a call's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// One side sent BYE.
    Bye,
    /// The call was cancelled before it was answered.
    Cancelled,
    /// The INVITE failed, with [`CallRecord::status`].
    Refused,
    /// The session was not refreshed in time (RFC 4028 §8.3).
    SessionExpired,
    /// The call reached the time limit.
    TimeLimit,
    /// The call was silent for longer than allowed.
    Lost,
    /// The call had not ended: both sides were active after the end in the last record.
    Reopened,
}

impl Cause {
    /// Name in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bye => "bye",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::SessionExpired => "session-expired",
            Self::TimeLimit => "time-limit",
            Self::Lost => "lost",
            Self::Reopened => "reopened",
        }
    }
}

/// Start of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Began {
    /// Its INVITE arrived then.
    Seen(Instant),
    /// It is from before a restart; its token names this time, in Unix seconds.
    Token(u32),
}

/// Answer of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// Time at which its 2xx was forwarded; `None` if before a restart.
    pub at: Option<Instant>,
    /// Tag of the callee.
    pub tag: Box<[u8]>,
}

/// A call detail record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRecord {
    /// Event.
    pub event: RecordEvent,
    /// Parties of the call.
    pub about: About,
    /// Time of the INVITE.
    pub began: Began,
    /// Time of the INVITE in Unix seconds, by the clock of the tokens, as in a token of the dialog.
    pub began_unix: u32,
    /// Time at which it first rang (180, or another provisional response with a tag).
    pub rang: Option<Instant>,
    /// Its answer, if any.
    pub accepted: Option<Accepted>,
    /// Next hop that sent the final response; `None` if this proxy made it.
    pub peer: Option<SocketAddr>,
    /// Time of the end, of the answer with [`RecordEvent::Answered`], or of the new activity with [`Cause::Reopened`].
    pub ended: Instant,
    /// Final response to its INVITE; 200 if that was before a restart.
    pub status: u16,
    /// Final response to its BYE; 408 if none came, 0 without BYE.
    pub bye_status: u16,
    /// Side that ended it; `None` if neither did.
    pub by: Option<DialogParty>,
    /// Cause of the end; `None` while it is active.
    pub cause: Option<Cause>,
    /// Text of the Reason of the BYE, the CANCEL or the failure (RFC 3326), if any; truncated.
    pub reason: Box<[u8]>,
    /// Whether it is the last record of this call. An unproved end is written at once, but not as final: the call is
    /// watched, and later events are written in further records.
    pub is_final: bool,
}

impl CallRecord {
    /// Whether the call is from before a restart.
    pub fn is_found_again(&self) -> bool {
        matches!(self.began, Began::Token(_))
    }
}
