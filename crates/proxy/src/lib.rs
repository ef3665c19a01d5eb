//! The core of a transaction-stateful proxy (RFC 3261 §16), written once for all representations of a message.
//!
//! Pure: time is an argument, what is sent goes to the caller's [`Sink`], nothing is read from outside. What a
//! message looks like and how it is edited is a [`Medium`]'s, and where it goes a [`Router`]'s: bytes live, small typed
//! values in the simulator. What to do is decided here: [`Context`] is the response context of one request (§16.7), [`Proxy`] ties
//! it to the transactions below.
//!
//! One request goes to one next hop; another is tried after a 503 when the medium knows an alternate. There is no
//! parallel forking.
#![forbid(unsafe_code)]

mod collect;
mod context;
mod counters;
mod medium;
mod proxy;
mod table;

pub use context::{Action, ActionList, Context, ProxyEvent};
pub use counters::ProxyCounters;
pub use medium::{Form, Medium, ProxyRefusal, ProxyStep, Router, Sink};
pub use proxy::{Arrived, Fire, Proxy, ProxyTimers};
