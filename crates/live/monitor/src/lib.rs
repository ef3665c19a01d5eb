//! Measures the latency of any SIP server from outside (Kim and Schulzrinne, "Cloud Support for Latency-Sensitive
//! Telephony Applications", sections IV-A and V-A). Messages are captured on both sides of the server, outgoing
//! messages are paired with incoming ones, and each window of time gets its statistics.
//!
//! Pure: no sockets and no clock; files are passed in. Time is an argument, since 1970, by the clock that stamped the
//! messages.
//!
//! - [`Monitor`] takes packets, HEP packets or messages, and returns a [`WindowReport`] for each window.
//! - `packet/`: messages from packets; [`hep`]: from HEP; [`mod@file`]: capture files.
//! - [`Pairing`]: which outgoing message belongs to which incoming one.
//! - [`Latencies`]: the statistics alone, for known response times.
//!
//! All tables are bounded, and dropped entries are counted ([`Counts`]).
#![forbid(unsafe_code)]

mod captured;
mod counts;
pub mod file;
pub mod hep;
mod monitor;
mod packet;
mod pair;
mod window;

pub use captured::{Captured, Servers};
pub use counts::Counts;
pub use monitor::{Monitor, MonitorSettings, WindowReport};
pub use packet::{LinkLayer, ip_packet};
pub use pair::Pairing;
pub use window::{Latencies, Latency, P2, Window};
