//! Queue in front of servers: servers pull, new calls wait (Cloud paper, sections IV-C and V-B, listing 1).
//!
//! A [`FrontQueue`] holds the items of new calls (`T`: the INVITE, or a reference to it) by call key (`K`: Call-ID and
//! From tag) until a member (`M`) has spare capacity. Members are ordered by `M`: index packing fills the first member
//! first.
//!
//! It is the paper's second thread. The first thread, the {Call-ID, server} mapping, is the caller's session table.
//! Requests of a session never enter the queue. The caller enters the session of a delivered item before it reads the
//! next message, so that retransmissions find it.
//!
//! Waiting is bounded by length and by time. No call waits past its bound. At the bound the client has retransmitted
//! the INVITE or soon will, and the next copy serves as well as the waiting one.
//!
//! A member has no more unanswered calls than its capacity times the threshold ([`QueueSettings::threshold`]). Further
//! calls wait here, where another member may pull them.

mod credit;
mod front;
mod members;
mod settings;
mod unanswered;
mod waiting;

pub use front::{Effect, FrontQueue, OfferResult, QueueCounts};
pub use members::MemberView;
pub use settings::{Accrual, LengthSettings, MemberChoice, Overflow, QueueSettings};
