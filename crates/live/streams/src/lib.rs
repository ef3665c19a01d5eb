//! Connections: TCP, TLS and `WebSocket`, each owned by the thread that accepted or opened it.
//!
//! Received messages go into a [`StreamBatch`], each with the flow that names its connection. Messages to send wait in
//! a bounded queue for each connection: a peer that does not read is disconnected, and no thread waits for it
//! (`carrier`). Each state of a connection has a time limit (`connection`). Nothing here decides about SIP or reads a
//! clock: time is an argument.

mod admission;
mod alias;
mod backoff;
mod batch;
mod carrier;
mod connection;
mod counts;
mod dialogs;
mod limits;
mod listener;
mod settings;
mod table;
#[cfg(test)]
mod tests;
pub mod tls;
mod unanswered;
mod way;
mod websocket;

pub use admission::Admission;
pub use batch::StreamBatch;
pub use counts::{CloseReason, StreamCounts};
pub use limits::ConnectionLimits;
pub use listener::{StreamListener, close_listener, listen, listen_again};
pub use settings::StreamSettings;
pub use table::{ConnectionView, FailedHandshake, StreamSetup, Streams, Undelivered};
