//! The inputs that the control plane takes, and the effects that it wants.

use crate::log::LogEntry;
use crate::membership::Drainer;
use crate::names::{FoundAddresses, Question};
use crate::process::{ProcessId, WorkLeft};
use crate::questions::QuestionId;
use crate::settings::ControlSettings;
use balance::{Load, NodeId, Slot};
use base::Peer;
use node::{HopName, Resolved, Setup, ShardEvent};
use std::net::SocketAddr;
use std::sync::Arc;

/// Something that the control plane hears of.
#[derive(Debug)]
pub enum ControlInput<'a> {
    /// Time has passed: what is [due](crate::Control::deadline) is done.
    Timer,
    /// Another configuration. `is_other_resolver`: other DNS servers are asked from now on, or other domains tried.
    Settings {
        /// What it says.
        settings: Box<ControlSettings>,
        /// Whether what the DNS said before does not count.
        is_other_resolver: bool,
    },
    /// The wall clock was set.
    ClockSet {
        /// Unix time of [`Instant::ZERO`](base::Instant::ZERO) in seconds.
        epoch_unix: u64,
    },
    /// The settings of the resolver were read again, after [`ControlEffect::ReadResolver`].
    ResolverRead {
        /// Whether other DNS servers are asked from now on, or other domains tried.
        is_other: bool,
    },
    /// A question has come to its end, after [`ControlEffect::LookUp`].
    Answer {
        /// Which.
        id: QuestionId,
        /// What was found.
        answer: Result<FoundAddresses, String>,
    },
    /// A message came in where probes leave.
    ProbeMessage {
        /// From there.
        from: Peer,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Nobody listens at this address, to which what began with `quoted` was sent from where probes leave: the network
    /// said so (ICMP), or there can be no connection.
    ProbeRefused {
        /// Where.
        by: Peer,
        /// The beginning of what was sent.
        quoted: &'a [u8],
    },
    /// The network said (ICMP) that what a shard sent to this address did not arrive.
    Unreachable(Peer),
    /// What a shard tells.
    Shard(ShardEvent),
    /// Which slots are in use in any shard, after [`ControlEffect::AskSlotsInUse`]; `None` if a shard did not say.
    SlotsInUse(Option<Vec<bool>>),
    /// A node is taken out of service, or put back.
    Drain {
        /// The node.
        slot: Slot,
        /// By whom.
        by: Drainer,
        /// Whether it is taken out.
        draining: bool,
    },
    /// Somebody who should know says that a node is not there: it is asked at once, and that decides.
    Doubt(Slot),
    /// An operator says that a node is back, and takes calls.
    Up(Slot),
    /// The process is to stop: no new calls, the others may end.
    Stop,
    /// Another process takes the new calls from now on.
    Succeeded,
    /// That process was killed: the new calls are ours again.
    GivenBack,
    /// That process has ended as it should, or does not wait any longer: nothing comes from it any more.
    SuccessionOver,
    /// Another process of this configuration has calls of its own on the nodes, as the one that this process has
    /// taken over from.
    Joins {
        /// The process.
        process: ProcessId,
        /// The nodes that were drained there, and by whom.
        drained: &'a [(NodeId, Drainer)],
        /// The nodes that were dead there.
        dead: &'a [NodeId],
    },
    /// Another process has this on these nodes.
    OtherLoads {
        /// The process.
        process: ProcessId,
        /// The load of each node.
        loads: Vec<(NodeId, Load)>,
    },
    /// Another process has ended.
    Gone(ProcessId),
    /// What is left to do, after [`ControlEffect::AskWorkLeft`].
    WorkLeft(WorkLeft),
    /// A monitor beside the member at this address says how many new calls a second it can take.
    Capacity {
        /// Where the member is.
        member: SocketAddr,
        /// Calls a second.
        capacity: f64,
    },
}

/// Something that the control plane wants done. Probes are messages beside these. Those over UDP leave by socket 0 for
/// IPv4 and by socket 1 for IPv6, which stand in place of the listener of their flow. The others leave by a connection
/// that shards know nothing of, from the address of their listener.
#[derive(Clone, PartialEq, Debug)]
pub enum ControlEffect {
    /// Every shard is to have this from now on.
    SetUp(Arc<Setup>),
    /// A question to the DNS, to be answered with [`ControlInput::Answer`].
    LookUp {
        /// Which.
        id: QuestionId,
        /// What is asked.
        question: Question,
    },
    /// The settings of the resolver may have changed, and are to be read again: [`ControlInput::ResolverRead`].
    ReadResolver,
    /// Every shard is to know where a name leads.
    Name(Arc<(HopName, Resolved)>),
    /// The shards are to say which slots they have anything in: [`ControlInput::SlotsInUse`].
    AskSlotsInUse,
    /// By slot, what other processes have there.
    Elsewhere(Vec<Load>),
    /// Every shard is to know how many new calls a second the member in this slot can take.
    Capacity {
        /// The slot.
        slot: Slot,
        /// Calls a second.
        capacity: f64,
    },
    /// When this process ends, none that it has taken over from is to go on in its place.
    Release,
    /// Every shard is to know that another process has ended.
    Gone(ProcessId),
    /// The shards are to say what they still have to do: [`ControlInput::WorkLeft`].
    AskWorkLeft,
    /// The process ends.
    End,
    /// People are to hear of this.
    Log(LogEntry),
}
