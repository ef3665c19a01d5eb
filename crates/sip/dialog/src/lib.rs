//! Calls of a proxy that keeps the state of dialogs (RFC 3261 §12, as seen by a proxy on the path): when they ring, are
//! answered and end, and their records.
//!
//! The crate uses no sockets, no clock and no SIP text. The host (the program that uses it) reports the messages that
//! it forwards in both directions, and carries out the resulting events:
//! - [`Calls`] are all calls of a shard. [`Calls::invited`], [`Calls::provisional`], [`Calls::accepted`],
//!   [`Calls::failed`] and [`Calls::cancelled`] report on the INVITE of a call; [`Calls::heard`], [`Calls::bye`],
//!   [`Calls::bye_answered`], [`Calls::refreshed`] and [`Calls::request_accepted`] on requests within it; [`Calls::expire`]
//!   handles time.
//! - A [`CallRecord`] is emitted when a call ends. The host has it written before the response to the BYE is forwarded,
//!   so that an acknowledged end is not lost. One record of a call is final.
//! - A [`HangUp`] is emitted when a call reaches its time limit: the host must send a BYE to both sides.
//! - [`session_timer`] handles Session-Expires at a proxy (RFC 4028 §8).
//!
//! # Calls from before a restart
//! The token in this proxy's Record-Route says that the dialog was kept here, and when it began. A request with a token
//! of an unknown dialog belongs to a call from before a restart. [`Calls::found`] enters this call again, and its
//! record says so. A call that has just ended is remembered as long as a retransmission may arrive (64*T1), so that it
//! is not found again.
//!
//! # Unproved ends
//! Only one event proves that a call is over: a BYE that went to its target ([`Proof`]) and was accepted. A side that
//! wants a shorter record could let a third party answer its BYE, or let a session expire, and still talk. So any other
//! end is written, but not as final, and the call is watched. Later traffic of both sides reopens the call. Then a
//! record of the reopening is written, and later one of the next end. The written end becomes final if nothing happens
//! for as long as a call may be silent, or if too many calls are watched.
//!
//! # One call, one record
//! An INVITE that passes the proxy again (a spiral) belongs to the same call. The call fails when the INVITE has failed
//! for each time that it has passed. Several 2xx (after a fork behind this proxy) are several dialogs, each with its
//! own record. An INVITE with the same key that is not a spiral is another call.
#![forbid(unsafe_code)]

mod call;
mod calls;
mod description;
mod record;
pub mod session_timer;
mod settings;

pub use call::{DialogEnds, DialogPath, DialogSide, Proof};
pub use calls::{
    CallCounts, CallEvent, Calls, CallsFull, DialogKey, ForwardedBye, HangUp, Heard, Invited, OpenCall,
};
pub use description::CallDescription;
pub use record::{Accepted, CallRecord, CallStart, Cause, RecordEvent};
pub use settings::CallSettings;
