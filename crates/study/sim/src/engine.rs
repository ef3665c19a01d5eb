//! The engine of every simulated model: ordered events, processors with queues, links with faults, and a digest.
//!
//! The engine does not know SIP. A model has an [`EventQueue`] with its own event type, pops the next event, passes it
//! to the part concerned, and schedules the events that follow. The parts ([`Cpu`], [`SimNetwork`]) return instants and
//! schedule nothing, so they work with any event type.

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

pub use buffer::{EnqueueOutcome, Plain, Priority, QueueTriage};
pub use card::{Card, CardSide};
pub use cpu::{BegunService, Cpu, CpuConfig, CpuMark, Finish, Served, Ticket};
pub use fault::{FaultEffect, FaultRule};
pub use link::{HostIndex, LinkConfig, Reliable, SimNetwork};
pub use queue::EventQueue;
pub use quota::QuotaConfig;
pub use spread::{QuantileTable, TimeSpread};
pub use stalls::{StallConfig, Stalls};
pub use trace::Trace;
