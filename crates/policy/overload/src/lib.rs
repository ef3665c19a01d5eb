//! Overload control: decides which requests a busy server takes, and limits the traffic of its neighbours.
//!
//! The crate does no input or output: time, load and randomness are arguments, and the host (the program that uses it)
//! owns queues and SIP text. A host
//! - puts each message in a [`MessageClass`] and may serve its queue by the rules of [`Triage`];
//! - reports its work to the meters of [`signal`], and gives a [`signal::HostLoad`] to its [`local::Controller`] at
//!   each period;
//! - as a server, answers with the [`hop::Feedback`] of a [`hop::HopReceiver`];
//! - as a client, asks a [`hop::HopSender`] and a [`retry_after::Backoff`] of each downstream neighbour before it forwards;
//! - or keeps an [`end_to_end::Targets`] if feedback travels the whole path;
//! - and keeps a [`member::MemberLimit`] for each server without overload control.
//!
//! [`OverloadSettings`] selects these parts, and a [`Guard`] combines them. A [`TurnControl`] uses the guard of a host
//! that serves each request as it comes.
#![forbid(unsafe_code)]

mod class;
pub mod end_to_end;
mod guard;
pub mod hop;
pub mod local;
pub mod member;
mod mix;
mod refusing;
pub mod retry_after;
mod settings;
pub mod signal;
mod triage;
mod turn;
mod verdict;

pub use class::{MessageClass, RequestInfo, Tier, is_above_routine, is_emergency};
pub use guard::{Guard, Rejection, RequestPath, Settled, UpstreamFeedback};
pub use mix::{Mix, Scope};
pub use refusing::{ReadShares, Refusing};
pub use settings::{FeedbackLaw, LocalLaw, OverloadSettings};
pub use triage::{Triage, TriageDecision};
pub use turn::{NewRequestSender, TurnControl, TurnRefusal};
pub use verdict::{AdmissionVerdict, RejectAt, RejectState};

use core::time::Duration;

/// RFC 3261 §17.1.1.1: estimate of the round-trip time, and the wait before the first retransmission.
pub const T1: Duration = Duration::from_millis(500);

/// Most neighbours that are distinguished in each direction; traffic with further neighbours is not controlled. Each
/// neighbour takes some hundred bytes. No server has as many neighbours that report overload.
pub const NEIGHBOURS_MAX: usize = 4096;
