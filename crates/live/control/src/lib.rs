//! What is decided beside the traffic: who is a member, who is alive, whose slot is whose, and what follows for the
//! shards.
//!
//! Pure: time and all input are arguments. [`Control`] takes one input, makes one bounded step, and puts its effects
//! into the caller's outbox in their order: probes as datagrams, and [`ControlEffect`]s. The caller asks the DNS what
//! a [`LookUp`] wants to know, sleeps until the deadline, sends, gives every shard its [`node::Setup`], and writes
//! the log. [`Membership`] is the part that knows no bytes: slots, health and the schedule of probes, whatever an
//! address is. [`scale`] is what is decided about servers that are started and stopped.
#![forbid(unsafe_code)]

mod address;
mod control;
mod log;
mod membership;
mod messages;
mod names;
mod pools;
mod probe;
mod process;
mod questions;
pub mod scale;
mod settings;

pub use address::{Address, MemberSettings};
pub use control::{Control, ListedMember};
pub use log::LogEntry;
pub use membership::{
    Drainer, Drains, MemberEvent, Membership, MembershipEvent, ReachableMember, SlotRecord, Tenure,
};
pub use messages::{ControlEffect, ControlInput};
pub use names::{
    AskedName, DnsQuery, Families, FoundAddresses, LookUp, MemberName, Names, PointerRecord, Question,
    Record, RecordKind, ResolvedMember, SearchList, ServiceRecord, Share, Usable,
};
pub use probe::{Probe, ProbeOutcome, ProbeResult, ProbeSchedule, ProbeSettings};
pub use process::{ProcessId, WorkLeft};
pub use questions::QuestionId;
pub use settings::{ControlSettings, Egress, PoolSettings};
