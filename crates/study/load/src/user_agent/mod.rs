//! What the two parties of a call do, on typed events: the users of the transactions (RFC 3261 §13, §14, §15).
//!
//! Neither knows what a message looks like, nor when it is sent again before it is answered; that is the
//! transactions' business. So they are written once for both representations of a message: [`crate::Caller`] and
//! [`crate::Answerer`] run them on bytes, the simulator's model on a few numbers. What each keeps is a few bytes, so
//! millions of calls fit.

mod uac;
mod uas;

pub use uac::{Uac, UacAct, UacActs, UacEvent};
pub use uas::{Uas, UasAct, UasActs, UasEvent, UasPlan};
