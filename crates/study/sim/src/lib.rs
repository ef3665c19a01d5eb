//! The simulator: an engine of discrete events, and the statistics that say what a run has shown.
//!
//! A run is one thread, one seed and virtual time: no clock, no randomness of the operating system, no unordered
//! iteration. The same seed gives the same [`engine::Trace`] digest. Threads appear in one place only, the
//! [`stats::sweep`] runner, where whole runs are independent of each other.
//!
//! [`model`] is SIP on the engine: the server's own machines on virtual hosts. [`cloud`] is a cluster whose hosts
//! have neighbours: calls as jobs, with the server's own queue, estimator and scaler.
#![forbid(unsafe_code)]

pub mod cloud;
pub mod engine;
pub mod model;
pub mod stats;
