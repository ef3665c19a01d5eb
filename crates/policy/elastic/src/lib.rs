//! Elastic servers behind a balancer: the capacity of each server, a queue from which servers pull calls, and the
//! number of servers.
//!
//! Source: J. Y. Kim and H. Schulzrinne, "Cloud Support for Latency-Sensitive Telephony Applications" (the Cloud
//! paper); index packing as in A. Gandhi and others, "`AutoScale`", ACM Transactions on Computer Systems 30(4), 2012.
//!
//! Pure: time, measurements and random numbers are arguments, decisions are return values. The crate talks to no server
//! and no cloud.
//!
//! - [`estimate`]: runs beside a server; turns latency and goodput of each window into a capacity in calls a second. In
//!   front: the announced capacity of a server, and its decay when the server falls silent.
//! - [`queue`]: new calls wait until a server has spare capacity; bounded by length and time.
//! - [`update`]: transport of capacities from estimator to front, authenticated, as lines of text.
//! - [`scale`]: decides which servers to start, drain and stop, from the rate of arrivals and the total capacity.
#![forbid(unsafe_code)]

pub mod estimate;
pub mod queue;
pub mod scale;
pub mod update;
