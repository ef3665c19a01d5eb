//! The latency of any SIP server from outside (Kim and Schulzrinne, "Cloud Support for Latency-Sensitive Telephony
//! Applications", sections IV-A and V-A): its messages are captured on both sides, what goes out is paired with what
//! came in, and each window of time gets its statistics.
//!
//! Pure: no sockets, no clock, no files but what is handed in. Time is an argument, since 1970 by whichever clock the
//! messages were stamped with.
//!
//! - [`Monitor`] takes packets, HEP packets or messages, and gives a [`Report`] for each window.
//! - `packet/`: from packets to messages; [`hep`]: from HEP; [`mod@file`]: capture files.
//! - [`Pairing`]: which message that goes out belongs to which that came in.
//! - [`Latencies`]: the statistics alone, for whoever knows response times already.
//!
//! All tables are bounded, and what is thrown away is counted ([`Counts`]).
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
pub use monitor::{Monitor, Report, Settings};
pub use packet::{Link, ip_packet};
pub use pair::Pairing;
pub use window::{Latencies, Latency, P2, Window};
