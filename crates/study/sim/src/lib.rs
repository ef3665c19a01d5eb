//! The simulator: an engine of discrete events, and statistics of its runs.
//!
//! A run is one thread, one seed and virtual time: no clock, no randomness of the operating system, no unordered
//! iteration. The same seed gives the same [`engine::Trace`] digest. Only the [`stats::sweep`] runner uses threads; its
//! runs are independent of each other.
//!
//! [`model`] simulates SIP: the server's own state machines on virtual hosts. [`cloud`] simulates a cluster on shared
//! machines: calls as jobs, with the server's own queue, estimator and scaler.
#![forbid(unsafe_code)]

pub mod cloud;
pub mod engine;
pub mod model;
pub mod stats;
