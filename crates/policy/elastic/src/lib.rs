//! Servers in a cloud, beside a balancer: how much each can carry, a queue from which they pull, and how many of
//! them there should be.
//!
//! Source: J. Y. Kim and H. Schulzrinne, "Cloud Support for Latency-Sensitive Telephony Applications" (the Cloud
//! paper); index packing as in A. Gandhi and others, "`AutoScale`", ACM Transactions on Computer Systems 30(4), 2012.
//!
//! Pure: time, measurements and random numbers are arguments, decisions are return values. Nothing here talks to a
//! server or to a cloud.
//!
//! - [`estimate`]: beside a server, once a window: latency and goodput in, capacity in calls a second out. In front,
//!   what a server has announced, and what it still counts for when it falls silent.
//! - [`queue`]: new calls wait until a server has capacity left; bounded by length and by time.
//! - [`update`]: capacity on its way from the estimator to the front, authenticated, as lines of text.
//! - [`scale`]: servers to be started, drained and stopped, from the rate of arrivals and the total capacity.
#![forbid(unsafe_code)]

pub mod estimate;
pub mod queue;
pub mod scale;
pub mod update;
