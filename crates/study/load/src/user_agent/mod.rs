//! State machines of the two parties of a call, on typed events: the transaction users (RFC 3261 §13, §14, §15).
//!
//! Parsing, rendering and retransmission by transactions happen elsewhere. The machines therefore serve both
//! representations of a message: [`crate::Caller`] and [`crate::Answerer`] run them on bytes, the simulator's model on
//! a few numbers. Each machine takes a few bytes, so millions of calls fit into memory.

mod uac;
mod uas;

pub use uac::{Uac, UacAct, UacActs, UacEvent};
pub use uas::{Uas, UasAct, UasActs, UasEvent, UasPlan};
