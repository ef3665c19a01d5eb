//! The TLWL paper's figures: policies before a cluster of servers that answer calls.
//!
//! Sources: Harikrishna, Vasanth Kumar, Suresh Babu, *Effective SIP Servers Load Balancing* ("TLWL paper");
//! Renganayaki, Kalyanasundaram, a digest of the same work ("TLWL digest"), whose text on CJSQ has the counter go
//! down at the end of a call, where the paper's says "increments".

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
