//! The TLWL paper's figures: policies before a cluster of servers that answer calls.
//!
//! Sources: Harikrishna, Vasanth Kumar, Suresh Babu, *Effective SIP Servers Load Balancing* ("TLWL paper");
//! Renganayaki, Kalyanasundaram, a digest of the same work ("TLWL digest"), whose text on CJSQ has the counter go
//! down at the end of a call, where the paper's says "increments".

mod batches;
mod cluster;
mod minutes;
mod occupancy;
mod orders;
mod pauses;
mod peak;
mod response;
mod runs;
mod unequal;

pub(super) use cluster::{POLICIES, SERVER_CAPACITY, costs, groups};
pub(super) use occupancy::OCCUPANCY;
pub(super) use peak::{PEAK, SCALING};
pub(super) use response::{BYE, INVITE};
pub(super) use unequal::UNEQUAL;
