//! Calls of a proxy that keeps the state of dialogs (RFC 3261 §12, as seen by a proxy on the path): when they ring, are
//! answered and end, and their records.
//!
//! Pure: no sockets, no clock, no SIP text. The host reports the messages that it forwards, in both directions, and
//! carries out the resulting events:
//! - [`Calls`] are all calls of a shard. [`Calls::invited`], [`Calls::provisional`], [`Calls::accepted`],
//!   [`Calls::failed`] and [`Calls::cancelled`] report on the INVITE of a call; [`Calls::heard`], [`Calls::bye`],
//!   [`Calls::bye_answered`], [`Calls::refreshed`] and [`Calls::goes_on`] on requests within it; [`Calls::expire`]
//!   handles time.
//! - A [`CallRecord`] is emitted when a call ends. The host has it written before the response to the BYE is forwarded,
//!   so that an acknowledged end is not lost. One record of a call is final.
//! - A [`HangUp`] is emitted when a call reaches its time limit: both sides must be sent a BYE.
//! - [`session_timer`] handles Session-Expires at a proxy (RFC 4028 §8).
//!
//! # Calls from before a restart The token in our Record-Route says that the dialog was kept here, and since when. A
//! request with a token of an unknown dialog belongs to a call from before a restart: [`Calls::found`] enters the call
//! again, and its record says so. A call that has just ended is remembered as long as a retransmission may arrive
//! (64*T1), so that it is not found again.
//!
//! # Unproved ends Only one event proves that a call is over: a BYE that went to its target ([`Proof`]) and was
//! accepted. A party that wants a shorter record could have a third party answer its BYE, or let a session expire, and
//! keep talking. So any other end is written, but not as final, and the call is watched. Later traffic of both sides
//! reopens the call: this is written, too, and so is the next end. If nothing happens for as long as a call may be
//! silent, or too many calls are watched, the written end becomes final.
//!
//! # One call, one record An INVITE that passes the proxy again (a spiral) belongs to the same call: the call fails
//! when all its passes have failed. Several 2xx (forks beyond us) are several dialogs, each with its record. An INVITE
//! with the same key that is not a spiral is another call, whatever its sender meant by it.
#![forbid(unsafe_code)]

mod about;
mod call;
mod calls;
mod record;
pub mod session_timer;
mod settings;

pub use about::About;
pub use call::{DialogEnds, DialogParty, DialogPath, Proof};
pub use calls::{CallCounts, CallEvent, Calls, CallsFull, DialogKey, ForwardedBye, HangUp, Heard, Invited};
pub use record::{Accepted, Began, CallRecord, Cause, RecordEvent};
pub use settings::CallSettings;
