//! What every simulated model stands on: events in order of time, processors with their queues, links with their
//! faults, and a digest of everything that happened.
//!
//! Nothing here knows SIP. A model owns an [`EventQueue`] with an event type of its own, pops the next event, hands
//! it to the part that it concerns, and schedules what follows. Parts ([`Cpu`], [`SimNetwork`]) return instants
//! rather than schedule, so they fit any event type.

mod buffer;
mod card;
mod cpu;
mod fault;
mod link;
mod queue;
mod quota;
mod spread;
mod stalls;
mod trace;

pub use buffer::{Admission, Plain, Priority, QueueTriage};
pub use card::{Card, CardSide};
pub use cpu::{BegunService, Cpu, CpuConfig, Finish, Mark, Served, Ticket};
pub use fault::{FaultEffect, FaultRule};
pub use link::{HostIndex, LinkConfig, Reliable, SimNetwork};
pub use queue::EventQueue;
pub use quota::QuotaConfig;
pub use spread::{QuantileTable, Spread};
pub use stalls::{StallConfig, Stalls};
pub use trace::Trace;
