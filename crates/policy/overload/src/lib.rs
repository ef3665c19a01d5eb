//! Which requests a busy server takes, and what it asks of those who send them.
//!
//! Pure: time, load and randomness are arguments; queues and SIP text belong to the host. A host
//! - puts each message in a [`MessageClass`] and, if it likes, serves its queue by the rules of [`Triage`];
//! - feeds the meters of [`signal`] and gives a [`signal::HostLoad`] to its [`local::Controller`] at each period;
//! - as a server answers with the [`hop::Feedback`] of a [`hop::Receiver`]; as a client keeps a [`hop::Sender`]
//!   and a [`retry_after::Backoff`] for each downstream neighbour, and asks them before it forwards;
//! - or keeps an [`end_to_end::Targets`] where feedback travels the whole path;
//! - and for each server that knows nothing of all this a [`member::MemberLimit`].
//!
//! [`OverloadSettings`] says which of these a host runs, and a [`Guard`] puts them together. A [`TurnControl`] asks
//! the guard of a host that serves each request as it comes.
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
pub use guard::{Guard, Notice, Rejection, RequestPath, Settled};
pub use mix::{Mix, Scope};
pub use refusing::Refusing;
pub use settings::{FeedbackLaw, LocalLaw, OverloadSettings};
pub use triage::{Fate, Triage};
pub use turn::{Origin, TurnControl, TurnRefusal};
pub use verdict::{RejectAt, RejectState, Verdict};

use core::time::Duration;

/// RFC 3261 §17.1.1.1: the estimate of a round trip, and the first wait before a request is sent again.
pub const T1: Duration = Duration::from_millis(500);

/// How many neighbours are told apart in each direction; what others send and get is not controlled. Some hundred
/// bytes each, and more than any server has that hears of overload from its neighbours.
pub const NEIGHBOURS_MAX: usize = 4096;
