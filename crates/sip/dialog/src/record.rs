//! What is written of a call.

use crate::about::About;
use crate::call::Side;
use base::Instant;
use std::net::SocketAddr;

/// What a record tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordEvent {
    /// The call was answered. Told where [`CallSettings::tell_answers`](crate::CallSettings::tell_answers) says so.
    Answered,
    /// The call has ended, or nothing has come of it.
    Ended,
}

/// How a call has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// One side sent BYE.
    Bye,
    /// The caller gave up before it was answered.
    Cancelled,
    /// It was refused, with [`CallRecord::status`].
    Refused,
    /// Its session was not refreshed in time (RFC 4028 §8.3).
    SessionExpired,
    /// It took as long as a call may.
    TimeLimit,
    /// Nothing was heard of it for longer than a call may be silent.
    Lost,
    /// It had not ended: both sides have gone on with it after the end in the record before.
    Reopened,
}

impl Cause {
    /// As it stands in a record.
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

/// When a call began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Began {
    /// Its INVITE came then.
    Seen(Instant),
    /// It is from before a restart; its token is of then, in Unix seconds.
    Token(u32),
}

/// When and by whom a call was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// When its 2xx went back; `None` where that was before a restart.
    pub at: Option<Instant>,
    /// The tag of the callee.
    pub tag: Box<[u8]>,
}

/// A call detail record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRecord {
    /// What it tells of.
    pub event: RecordEvent,
    /// Who called whom.
    pub about: About,
    /// When the INVITE came.
    pub began: Began,
    /// The same in Unix seconds by the clock of the tokens, as a token of the dialog has it.
    pub began_unix: u32,
    /// When it first rang (180, or another provisional response with a tag).
    pub rang: Option<Instant>,
    /// When and by whom it was answered, if it was.
    pub accepted: Option<Accepted>,
    /// Who answered or refused it: the next hop that the response came from. `None` where this proxy did.
    pub peer: Option<SocketAddr>,
    /// When it ended; of [`RecordEvent::Answered`] when it was answered, of [`Cause::Reopened`] when it was heard to
    /// go on.
    pub ended: Instant,
    /// The final response to its INVITE; 200 where that was before a restart.
    pub status: u16,
    /// The final response to its BYE; 408 where none came, 0 where there was no BYE.
    pub bye_status: u16,
    /// Who ended it; `None` where nobody did.
    pub by: Option<Side>,
    /// How it ended; `None` while it goes on.
    pub cause: Option<Cause>,
    /// What the Reason of the BYE, the CANCEL or the refusal says (RFC 3326), if there is one; cut off.
    pub reason: Box<[u8]>,
    /// Whether no other record of this call is to follow. An end that is not proved is written at once, but not as
    /// final: the call is watched, and what comes of that is written later.
    pub is_final: bool,
}

impl CallRecord {
    /// Whether the call is from before a restart.
    pub fn is_found_again(&self) -> bool {
        matches!(self.began, Began::Token(_))
    }
}
