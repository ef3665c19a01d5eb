//! What people are to hear of.

use crate::address::Address;
use crate::membership::{Drainer, MemberEvent};
use crate::process::ProcessId;
use base::Peer;
use core::time::Duration;
use node::HopName;
use std::net::SocketAddr;

/// Something that people want to know. The caller writes it to its log.
#[derive(Clone, PartialEq, Debug)]
pub enum LogEntry {
    /// A name that was not found, or not in full, is resolved now.
    NameResolved {
        /// As the configuration has it.
        name: Address,
    },
    /// A look-up of a name failed, or a part of it.
    NameFailed {
        /// As the configuration has it.
        name: Address,
        /// What failed.
        error: String,
        /// Whether there is an earlier answer, which stays.
        is_known: bool,
    },
    /// The name of a next hop has no address, or none was found.
    NextHopNameFailed {
        /// As a URI has it.
        name: HopName,
        /// What failed.
        error: String,
    },
    /// No listener leads to this member.
    LeftOut {
        /// Where it is.
        member: Peer,
    },
    /// Something happened to a member.
    Member {
        /// Where it is.
        member: Peer,
        /// As the configuration has it.
        name: String,
        /// What.
        event: MemberEvent,
    },
    /// No member of a pool is alive. `silent`: some are dead for silence alone, and get the calls all the same.
    NoneAlive {
        /// The pool's name.
        pool: String,
        /// Whether calls still go to some.
        silent: bool,
    },
    /// New calls were refused since no member of a pool took any.
    NoneTook {
        /// The pool's name.
        pool: String,
        /// How many since this was last told of the pool.
        refused: u64,
        /// The members, and why each takes none.
        members: Vec<(Peer, &'static str)>,
    },
    /// New calls were refused since every member of a pool that takes calls is at a limit.
    AtLimit {
        /// The pool's name.
        pool: String,
        /// The limit: one that is found of each member (`limit`), or `max_rate`.
        limit: &'static str,
        /// How many since this was last told of the pool.
        refused: u64,
    },
    /// New calls were refused since the session table is full.
    NoRoom {
        /// How many.
        refused: u64,
        /// How many it may have.
        max_sessions: usize,
    },
    /// An answer to a probe came from another host.
    ForeignAnswer {
        /// Whom the probe was sent to.
        member: Peer,
        /// Who answered.
        from: SocketAddr,
    },
    /// The network said that what was sent to a member did not arrive.
    Unreachable {
        /// Where the member is.
        member: Peer,
    },
    /// A member is drained, or not any more by the same.
    DrainChanged {
        /// Where it is.
        member: Peer,
        /// By whom.
        by: Drainer,
        /// Whether it is drained.
        draining: bool,
    },
    /// A member is drained by an operator, as it was in the process before.
    DrainedBefore {
        /// Where it is.
        member: Peer,
    },
    /// The process is to stop.
    Stopping {
        /// How long it waits for calls at most.
        wait: Duration,
    },
    /// Another process has taken over.
    Succeeded {
        /// How long this one waits for its calls at most.
        wait: Duration,
    },
    /// Another process, which had calls on the nodes, has ended.
    ProcessEnded(ProcessId),
    /// The process ends.
    Stopped {
        /// Calls that have not ended.
        calls_left: usize,
    },
}
