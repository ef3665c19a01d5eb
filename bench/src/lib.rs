//! Side-by-side measurements of what stands between callers and servers: a blind relay, Kamailio, Sarabande.
//!
//! One process plays both ends ([`driver`]): callers on one side, answering servers on the other, six datagrams a
//! call. What stands between them is another process ([`target`]), whose processor time is read from the kernel
//! ([`process`]). The method is written down in `docs/performance.md`.

pub mod answerer;
pub mod bed;
pub mod caller;
pub mod callgrind;
pub mod cluster;
pub mod credentials;
pub mod distribution;
pub mod driver;
pub mod elastic;
pub mod endpoint;
pub mod hot;
mod kamailio;
pub mod modes;
pub mod overload;
pub mod parts;
pub mod pauses;
pub mod process;
pub mod quota;
pub mod registration;
pub mod report;
pub mod scenarios;
pub mod scratch;
pub mod target;
pub mod text;
