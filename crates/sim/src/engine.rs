//! What every simulated model stands on: events in order of time, processors with their queues, links with their
//! faults, and a digest of everything that happened.
//!
//! Nothing here knows SIP. A model owns an [`EventQueue`] with an event type of its own, pops the next event, hands it
//! to the part that it concerns, and schedules what follows. Parts ([`Cpu`], [`Network`]) return instants rather than
//! schedule, so they fit any event type.

mod buffer;
mod cpu;
mod fault;
mod link;
mod queue;
mod spread;
mod stalls;
mod trace;

pub use buffer::{Admission, Plain, Priority, Triage};
pub use cpu::{ClassStats, Cpu, CpuConfig, Due, Finish, Mark, Served, Ticket};
pub use fault::{Effect, Rule};
pub use link::{Arrivals, HostId, LinkConfig, Network, Reliable};
pub use queue::EventQueue;
pub use spread::{QuantileTable, Spread, TableError};
pub use stalls::{StallConfig, Stalls};
pub use trace::Trace;
