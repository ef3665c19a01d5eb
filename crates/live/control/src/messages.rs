//! Inputs and effects of the control plane.

use crate::log::LogEntry;
use crate::membership::Drainer;
use crate::names::{DnsQuestion, FoundAddresses};
use crate::process::{ProcessId, WorkLeft};
use crate::questions::QuestionId;
use crate::settings::ControlSettings;
use balance::{Load, NodeId, Slot};
use base::Peer;
use node::{HopName, Resolved, Setup, ShardEvent};
use std::net::SocketAddr;
use std::sync::Arc;

/// An input of the control plane.
#[derive(Debug)]
pub enum ControlInput<'a> {
    /// A timer: work that is [due](crate::Control::deadline) is done.
    Timer,
    /// A new configuration.
    Settings {
        /// Its settings.
        settings: Box<ControlSettings>,
        /// Whether the DNS servers or the search domains have changed, so that earlier answers no longer count.
        is_other_resolver: bool,
    },
    /// The wall clock was set.
    ClockSet {
        /// Unix time of [`Instant::ZERO`](base::Instant::ZERO) in seconds.
        epoch_unix: u64,
    },
    /// The settings of the resolver were read again, after [`ControlEffect::ReadResolver`].
    ResolverRead {
        /// Whether the DNS servers or the search domains have changed.
        is_other: bool,
    },
    /// The answer to a question, after [`ControlEffect::LookUp`].
    Answer {
        /// The question.
        id: QuestionId,
        /// The addresses that were found, or an error.
        answer: Result<FoundAddresses, String>,
    },
    /// A message that arrived at a socket or connection of probes.
    ProbeMessage {
        /// Sender of the message.
        from: Peer,
        /// Bytes of the message.
        bytes: &'a [u8],
    },
    /// No process listens at this address, as an ICMP error or a refused connection reports. The refused message began
    /// with `quoted` and left from a socket or connection of probes.
    ProbeRefused {
        /// The address.
        by: Peer,
        /// First bytes of the refused message.
        quoted: &'a [u8],
    },
    /// The network reported (ICMP) that a message of a shard to this address did not arrive.
    Unreachable(Peer),
    /// An event of a shard.
    Shard(ShardEvent),
    /// The slots that any shard uses, after [`ControlEffect::AskSlotsInUse`]; `None` if a shard did not answer.
    SlotsInUse(Option<Vec<bool>>),
    /// Starts or ends the drain of a node.
    Drain {
        /// The node.
        slot: Slot,
        /// The source of the drain.
        by: Drainer,
        /// Whether the drain starts.
        draining: bool,
    },
    /// A doubt whether the node still exists. It is probed at once, and the probe decides.
    Doubt(Slot),
    /// An operator reports that a node is back and takes calls.
    Up(Slot),
    /// A request to stop. No new calls are taken; the present calls may end.
    Stop,
    /// Another process takes the new calls from now on.
    Succeeded,
    /// The successor was killed. New calls come to this process again.
    GivenBack,
    /// The successor has ended regularly, or no longer waits for this process. It hands over no more messages.
    SuccessionOver,
    /// Another process of this configuration has calls of its own at the nodes, such as the predecessor.
    Joins {
        /// The process.
        process: ProcessId,
        /// The nodes that were drained there, with the source of the drain.
        drained: &'a [(NodeId, Drainer)],
        /// The nodes that were dead there.
        dead: &'a [NodeId],
    },
    /// The load of another process at these nodes.
    OtherLoads {
        /// The process.
        process: ProcessId,
        /// The load of each node.
        loads: Vec<(NodeId, Load)>,
    },
    /// Another process has ended.
    Gone(ProcessId),
    /// The remaining work, after [`ControlEffect::AskWorkLeft`].
    WorkLeft(WorkLeft),
    /// The capacity of a member as its monitor announces it.
    Capacity {
        /// Address of the member.
        member: SocketAddr,
        /// New calls a second.
        capacity: f64,
    },
}

/// An effect that the caller carries out. Probes are separate messages in the outbox. UDP probes leave by socket 0
/// (IPv4) or socket 1 (IPv6), which is the listener index of their flow. Other probes leave over a connection that is
/// unknown to the shards, from the address of their listener.
#[derive(Clone, PartialEq, Debug)]
pub enum ControlEffect {
    /// Gives every shard this setup.
    SetUp(Arc<Setup>),
    /// Asks the DNS a question. The answer is [`ControlInput::Answer`].
    LookUp {
        /// Number of the question.
        id: QuestionId,
        /// The question.
        question: DnsQuestion,
    },
    /// Reads the settings of the resolver again, since they may have changed. The answer is
    /// [`ControlInput::ResolverRead`].
    ReadResolver,
    /// Tells every shard the addresses of a name.
    Name(Arc<(HopName, Resolved)>),
    /// Asks the shards which slots they use. The answer is [`ControlInput::SlotsInUse`].
    AskSlotsInUse,
    /// Load of other processes, by slot.
    Elsewhere(Vec<Load>),
    /// Tells every shard how many new calls a second the member in this slot can take.
    Capacity {
        /// The slot.
        slot: Slot,
        /// New calls a second.
        capacity: f64,
    },
    /// Tells all predecessors not to read the sockets again when this process ends.
    Release,
    /// Tells every shard that another process has ended.
    Gone(ProcessId),
    /// Asks the shards for their remaining work. The answer is [`ControlInput::WorkLeft`].
    AskWorkLeft,
    /// Ends the process.
    End,
    /// Writes an entry to the log.
    Log(LogEntry),
}
