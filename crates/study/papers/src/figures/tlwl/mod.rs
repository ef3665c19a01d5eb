//! The TLWL paper's figures: policies in front of a cluster of servers that answer calls.
//!
//! Sources: Harikrishna, Vasanth Kumar, Suresh Babu, *Effective SIP Servers Load Balancing* ("TLWL paper");
//! Renganayaki, Kalyanasundaram, a digest of the same work ("TLWL digest"). In the digest's text on CJSQ the counter
//! goes down at the end of a call, where the paper says "increments".

mod batches;
mod cluster;
mod minutes;
pub(super) mod occupancy;
mod orders;
mod pauses;
pub(super) mod peak;
pub(super) mod response;
mod runs;
pub(super) mod unequal;

pub(super) use self::runs::Runs;
pub(super) use cluster::{POLICIES, SERVER_CAPACITY, costs, groups};
