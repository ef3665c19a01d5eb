//! Entries of the log.

use crate::address::Address;
use crate::membership::{Drainer, MemberEvent};
use crate::process::ProcessId;
use base::Peer;
use core::time::Duration;
use node::HopName;
use std::net::SocketAddr;

/// A log entry. The caller writes it to the log.
#[derive(Clone, PartialEq, Debug)]
pub enum LogEntry {
    /// A name that had not been found completely is resolved now.
    NameResolved {
        /// The name as in the configuration.
        name: Address,
    },
    /// A look-up of a name failed, at least in part.
    NameFailed {
        /// The name as in the configuration.
        name: Address,
        /// The error.
        error: String,
        /// Whether an earlier answer remains in use.
        is_known: bool,
    },
    /// The name of a next hop has no address, or the look-up failed.
    NextHopNameFailed {
        /// The name as in a URI.
        name: HopName,
        /// The error.
        error: String,
    },
    /// No listener can reach this member.
    LeftOut {
        /// Address of the member.
        member: Peer,
    },
    /// An event of a member.
    Member {
        /// Address of the member.
        member: Peer,
        /// Name of the member for display.
        name: String,
        /// The event.
        event: MemberEvent,
    },
    /// No member of a pool is alive.
    NoneAlive {
        /// Name of the pool.
        pool: String,
        /// Whether calls still go to members that are dead only because of silence.
        silent: bool,
    },
    /// New calls were refused because no member of a pool took any.
    NoneTook {
        /// Name of the pool.
        pool: String,
        /// Number of refused calls since the last entry about the pool.
        refused: u64,
        /// The members, each with the reason why it takes no calls.
        members: Vec<(String, &'static str)>,
    },
    /// New calls were refused because every member of a pool that takes calls is at a limit.
    AtLimit {
        /// Name of the pool.
        pool: String,
        /// Kind of limit: `limit` (found from each member's answers) or `max_rate`.
        limit: &'static str,
        /// Number of refused calls since the last entry about the pool.
        refused: u64,
    },
    /// New calls were refused because the session table is full.
    NoRoom {
        /// Number of refused calls.
        refused: u64,
        /// Limit of sessions.
        max_sessions: usize,
    },
    /// An answer to a probe came from another host.
    ForeignAnswer {
        /// Member that the probe was sent to.
        member: Peer,
        /// Sender of the answer.
        from: SocketAddr,
    },
    /// The network reported that a message to a member did not arrive.
    Unreachable {
        /// Address of the member.
        member: Peer,
    },
    /// A drain of a member was set or ended.
    DrainChanged {
        /// Address of the member.
        member: Peer,
        /// Name of the member for display.
        name: String,
        /// Source of the drain.
        by: Drainer,
        /// Whether the drain was set.
        draining: bool,
    },
    /// A member is drained by an operator since before the takeover.
    DrainedBefore {
        /// Address of the member.
        member: Peer,
    },
    /// A stop was requested.
    Stopping {
        /// Longest wait for calls.
        wait: Duration,
    },
    /// Another process has taken over.
    Succeeded {
        /// Longest wait of this process for its calls.
        wait: Duration,
    },
    /// Another process with calls at the members has ended.
    ProcessEnded(ProcessId),
    /// The process ends.
    Stopped {
        /// Calls that have not ended.
        calls_left: usize,
    },
}
