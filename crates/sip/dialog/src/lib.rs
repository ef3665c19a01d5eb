//! The calls of a proxy that keeps the state of dialogs (RFC 3261 §12, as an element on the way sees it): when they
//! ring, are answered and end, and what is written of each.
//!
//! Pure: no sockets, no clock, no text of SIP. The host tells what it forwards, in both directions, and does what
//! comes out:
//! - [`Calls`] are all calls of a shard. [`Calls::invited`], [`Calls::provisional`], [`Calls::accepted`],
//!   [`Calls::failed`] and [`Calls::cancelled`] tell of the INVITE that begins one; [`Calls::heard`], [`Calls::bye`],
//!   [`Calls::bye_answered`], [`Calls::refreshed`] and [`Calls::goes_on`] of what comes within; [`Calls::expire`]
//!   that time has passed.
//! - A [`CallRecord`] comes out when a call ends; the host has it written before the answer to the BYE goes back, so
//!   that an end that was acknowledged is not forgotten. One is the final one.
//! - A [`HangUp`] comes out when a call has had its time: both sides are to be sent a BYE.
//! - [`session_timer`] is what a proxy does about Session-Expires (RFC 4028 §8).
//!
//! # A call that nobody remembers
//! The token in our Record-Route says that the dialog was kept here, and since when. A request that comes with one,
//! of a dialog that is not known, is of a call from before a restart: [`Calls::found`] enters it again, and its
//! record says so. What has just ended is remembered for as long as a repetition may come (64*T1), so that it is not
//! found again.
//!
//! # An end that is not proved
//! Only one thing proves that a call is over: a BYE that went to its target ([`Proof`]) and was accepted. A party
//! that wants a shorter record can have a BYE answered by somebody else, or let a session expire, and talk on. So any
//! other end is written, but not as final, and the call is watched. What both sides do in it later reopens it: that
//! is written, too, and its end when that comes. Nothing happens for as long as a call may be silent, or too many are
//! watched: then the end that was written is final.
//!
//! # One call, one record
//! An INVITE that comes by a second time on its way (a spiral) belongs to the same call: a failure counts when all
//! its passes have failed. Several 2xx (forks beyond us) are several dialogs, each with its record. An INVITE of the
//! same name that is no spiral is another call, whatever its sender meant by that.
#![forbid(unsafe_code)]

mod about;
mod call;
mod calls;
mod record;
pub mod session_timer;
mod settings;

pub use about::About;
pub use call::{DialogPath, Ends, Proof, Side};
pub use calls::{CallCounts, CallEvent, Calls, CallsFull, DialogKey, ForwardedBye, HangUp, Heard, Invited};
pub use record::{Accepted, Began, CallRecord, Cause, RecordEvent};
pub use settings::CallSettings;
