//! SIP transactions: RFC 3261 §17 with the corrections of RFC 6026 and RFC 4320.
//!
//! The crate does no input or output: time is an argument, and effects go into the caller's [`Effects`].
//!
//! - [`Machine`]: the four state machines of [`client`] and [`server`], which act on typed [`TransactionEvent`]s.
//! - [`Timers`]: the values of their timers.
//! - [`Keys`], [`TransactionKey`], [`ServerKey`]: matching of messages to transactions.
//! - [`Layer`]: all transactions of an element, generic over the [`KeptMessage`]s that it retransmits, and over the
//!   data of the transaction user.
//! - [`Packet`], [`ack_for`], [`cancel_for`]: messages as bytes. Simulations have their own representation.
//!
//! The transaction user is a proxy core or a user agent core. The user makes the 100 when the layer reports that it is
//! due, retransmits a 2xx to INVITE, acknowledges 2xx, and runs the proxy's timer C.
//!
//! Marks in brackets, a section and a number, are the rules of `docs/evidence/rfc/3261-17.md`. A test compares the
//! marks with this page.
#![forbid(unsafe_code)]
#![expect(
    clippy::inline_always,
    reason = "if the event is a constant, the compiler removes most of the machine: a twentieth of a simulation's instructions"
)]

mod build;
pub mod client;
mod counted;
mod effects;
mod key;
mod layer;
mod machine;
mod packet;
mod queues;
pub mod server;
mod store;
mod timers;

pub use build::{ack_for, cancel_for};
pub use effects::{Effects, KeptMessage, Sending, TransactionEffect, TransactionNews, UNLIMITED_REPEATS};
pub use key::{Keys, ServerKey, Side, Tag, TransactionKey, is_unique};
pub use layer::{DueTimer, EXPIRE_MAX, Layer, New};
pub use machine::{
    Life, Machine, MachineStep, Pace, Send, StatusClass, Tell, Timer, TransactionEvent, TransactionKind,
    TransportKind,
};
pub use packet::{Bytes, Packet};
pub use store::Id;
pub use timers::Timers;
