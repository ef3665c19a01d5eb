//! The front-end queue: servers pull, new calls wait (Cloud paper, sections IV-C and V-B, listing 1).
//!
//! A [`FrontQueue`] holds the items of new calls (`T`: the INVITE, or a reference to it) by call key (`K`: Call-ID
//! and From tag) until a member (`M`) has capacity left. Members are ordered by `M`: index packing fills the first
//! one first.
//!
//! It is the paper's second thread. The first one, the {Call-ID, server} mapping, is the session table of the caller:
//! what belongs to a session never comes here, and whoever delivers an item enters the session before the next
//! message is read, so that repetitions find it.
//!
//! Waiting is bounded by length and by time. Nothing waits past its bound: by then the caller's client has sent the
//! INVITE again, or will soon, and the next copy is a call as good as this one.
//!
//! A member has no more calls unanswered than its capacity times the threshold ([`QueueSettings::threshold`]): what
//! comes beyond that waits here, where another member may pull it.

mod credit;
mod front;
mod members;
mod settings;
mod unanswered;
mod waiting;

pub use front::{Effect, FrontQueue, Offer, QueueCounts};
pub use members::MemberView;
pub use settings::{Accrual, Choice, LengthSettings, Overflow, QueueSettings};
