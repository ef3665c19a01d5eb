//! Decisions apart from the traffic: membership, health, the assignment of slots, and the resulting setup of the
//! shards.
//!
//! Pure: time and all input are arguments. [`Control`] takes one input, makes one bounded step, and puts its effects
//! into the caller's outbox in their order: probes as datagrams, and [`ControlEffect`]s. The caller sends the DNS
//! queries of a [`LookUp`], sleeps until the deadline, sends datagrams, gives every shard its [`node::Setup`], and
//! writes the log. [`Membership`] is the part without bytes: slots, health and the schedule of probes, generic over the
//! type of addresses. [`scale`] decides about servers that are started and stopped.
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

pub use address::{Address, MemberSettings, name_and_address};
pub use control::{Control, LISTED_MOST, ListedMember};
pub use log::LogEntry;
pub use membership::{
    Drainer, Drains, MemberEvent, Membership, MembershipEvent, ReachableMember, SlotRecord, Tenure,
};
pub use messages::{ControlEffect, ControlInput};
pub use names::{
    DnsQuery, DnsQuestion, DnsRecord, Families, FoundAddresses, LookUp, MemberName, NameLookUp, Names,
    PointerRecord, RecordKind, ResolvedMember, SearchList, ServiceRecord, Share, Usable,
};
pub use probe::{Probe, ProbeOutcome, ProbeResult, ProbeSchedule, ProbeSettings};
pub use process::{ProcessId, WorkLeft};
pub use questions::QuestionId;
pub use settings::{ControlSettings, Egress, PoolSettings};
