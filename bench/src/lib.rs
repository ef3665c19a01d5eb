//! Side-by-side measurements of a blind relay, Kamailio and Sarabande between callers and servers.
//!
//! One process plays both ends ([`generator`]): callers on one side, answering servers on the other, six datagrams a
//! call. The target between them is another process ([`targets`]), whose processor time is read from the kernel
//! ([`process`]). `docs/evidence/performance.md` describes the method.
//!
//! Studies ([`cluster`], [`elastic`], [`overload`], [`distribution`], [`targets`]) compare alternatives in rounds with
//! a common engine (`study`).

pub mod answerer;
pub mod bed;
mod callers;
pub mod callgrind;
pub mod cluster;
pub mod credentials;
pub mod distribution;
pub mod elastic;
pub mod endpoint;
pub mod generator;
pub mod hot;
mod kamailio;
pub mod log;
pub mod modes;
pub mod overload;
pub mod parts;
pub mod process;
pub mod quota;
pub mod registration;
pub mod report;
mod rig;
pub mod scenarios;
pub mod scratch;
mod simulated;
mod study;
pub mod targets;
pub mod text;
