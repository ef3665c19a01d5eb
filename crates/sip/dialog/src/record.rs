//! Records of calls.

use crate::call::DialogSide;
use crate::description::CallDescription;
use base::Instant;
use std::net::SocketAddr;

/// Event of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordEvent {
    /// The call was answered. Written if [`CallSettings::record_answers`](crate::CallSettings::record_answers) is set.
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
    /// The operator ended the call.
    Operator,
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
            Self::Operator => "operator",
            Self::Lost => "lost",
            Self::Reopened => "reopened",
        }
    }
}

/// Start of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallStart {
    /// The INVITE arrived at this time.
    Seen(Instant),
    /// The call is from before a restart; its token names this start, in Unix seconds.
    Token(u32),
}

/// Answer of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// Time at which the 2xx was forwarded; `None` if this was before a restart.
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
    pub about: CallDescription,
    /// Time of the INVITE.
    pub began: CallStart,
    /// Time of the INVITE in Unix seconds, the same as in a token of the dialog.
    pub began_unix: u32,
    /// Time at which the call first rang (180, or another provisional response with a tag).
    pub rang: Option<Instant>,
    /// Its answer, if any.
    pub accepted: Option<Accepted>,
    /// Next hop that sent the final response; `None` if this proxy made it.
    pub peer: Option<SocketAddr>,
    /// Number of next hops that got the INVITE; 0 if unknown, for a call from before a restart.
    pub attempts: u16,
    /// Time of the end. With [`RecordEvent::Answered`] it is the time of the answer, with [`Cause::Reopened`] the time
    /// of the new activity.
    pub ended: Instant,
    /// Status of the final response to the INVITE; 200 if the INVITE was answered before a restart.
    pub status: u16,
    /// Status of the final response to the BYE; 408 if no response came, 0 if there was no BYE.
    pub bye_status: u16,
    /// Side that ended the call; `None` if neither did.
    pub by: Option<DialogSide>,
    /// Cause of the end; `None` while the call is active.
    pub cause: Option<Cause>,
    /// Text of the Reason of the BYE, the CANCEL or the failure (RFC 3326), if any; truncated.
    pub reason: Box<[u8]>,
    /// Whether this is the last record of the call. An unproved end is written at once, but not as final: the call is
    /// watched, and later events are written in further records.
    pub is_final: bool,
}

impl CallRecord {
    /// Whether the call is from before a restart.
    pub fn is_found_again(&self) -> bool {
        matches!(self.began, CallStart::Token(_))
    }
}
