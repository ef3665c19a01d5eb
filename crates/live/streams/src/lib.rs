//! Connections: TCP, TLS and `WebSocket`, each owned by the thread that accepted or opened it.
//!
//! What is read goes into a [`StreamBatch`], each message with the flow that names its connection. What is sent waits in
//! a queue of bounded length for each connection: a peer that does not read is cut off, and nobody waits for it
//! (`carrier`). Each state of a connection ends after a while if nothing happens (`connection`). Nothing here decides
//! about SIP, and nothing reads a clock: the time is told.

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
pub use table::{ConnectionView, StreamSetup, Streams, Undelivered};
