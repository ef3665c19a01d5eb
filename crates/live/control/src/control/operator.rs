//! Queries and commands of operators, and the end of a process: on request, or after a takeover.

use super::Control;
use crate::address::{Address, name_and_address};
use crate::log::LogEntry;
use crate::membership::{Drainer, Drains, Tenure};
use crate::messages::ControlEffect;
use crate::probe::ProbeResult;
use crate::process::{ProcessId, WorkLeft};
use crate::settings::{Egress, PoolSettings};
use balance::{Load, Node, NodeId, PoolId, Slot};
use base::{Instant, Outbox, Peer, Transport};
use core::time::Duration;
use std::net::SocketAddr;

/// A member or former member.
#[derive(Clone, PartialEq, Debug)]
pub struct ListedMember {
    /// Its slot.
    pub slot: Slot,
    /// Address or host name of the member in the configuration.
    pub name: String,
    /// Name for display; without one in the configuration `name`.
    pub label: String,
    /// Address and transport of the member.
    pub peer: Peer,
    /// Pools of the member; of a former member, its pools that still exist.
    pub pools: Vec<PoolId>,
    /// Its membership and health.
    pub node: Node,
    /// Drains of the member.
    pub drains: Drains,
    /// Result of the last probe.
    pub last_probe: Option<ProbeResult>,
    /// When the member was last found dead or alive.
    pub last_change: Instant,
    /// Load of the member from calls at other processes.
    pub before: Load,
}

/// Most members that a sentence lists, in an answer or in the log.
pub const LISTED_MOST: usize = 20;

/// Interval at which the shards are asked for remaining work when the process stops.
const STOP_POLL: Duration = Duration::from_millis(100);

impl<E: Egress> Control<E> {
    /// Returns members and former members in the order of their slots. A slot can be empty.
    pub fn listed(&self) -> Vec<ListedMember> {
        let all = (0..).map(Slot).zip(self.members.nodes().iter().zip(self.members.records()));
        let listed = all.filter(|(_, (_, record))| record.tenure != Tenure::Vacant);
        listed
            .map(|(slot, (node, record))| ListedMember {
                slot,
                name: record.name.clone(),
                label: record.label().to_owned(),
                peer: record.address.remote(),
                pools: record.pools.clone(),
                node: node.clone(),
                drains: record.drains,
                last_probe: record.last_probe,
                last_change: record.last_change,
                before: self.elsewhere(node.id),
            })
            .collect()
    }

    /// Returns the pools in the order of the configuration, with the numbers that [`ListedMember::pools`] uses.
    pub fn pools(&self) -> impl Iterator<Item = (PoolId, &PoolSettings)> {
        self.numbers.live().iter().copied().zip(&self.settings.pools)
    }

    /// Returns the pool with this number; `None` if it is gone.
    pub fn pool(&self, number: PoolId) -> Option<&PoolSettings> {
        self.pools().find(|(id, _)| *id == number).map(|(_, pool)| pool)
    }

    /// Returns the number of the pool with this name.
    pub fn pool_number(&self, name: &str) -> Option<PoolId> {
        self.pools().find(|(_, pool)| pool.name == name).map(|(id, _)| id)
    }

    /// Returns whether a stop was requested, or another process takes the new calls.
    pub fn is_stopping(&self) -> bool {
        self.stopping.since().is_some()
    }

    /// Returns when the process ends even if calls remain; `None` unless it is stopping.
    pub fn stops_at(&self) -> Option<Instant> {
        self.stopping.since().map(|since| since + self.settings.stop_wait)
    }

    /// Returns the members that an operator names by address or name. `named` is the parsed form of `member`. A name
    /// may stand for several members.
    ///
    /// # Errors
    /// If there is no such member. The error lists the members.
    pub fn meant(&self, member: &str, named: Option<&Address>) -> Result<Vec<(Slot, Peer)>, String> {
        let all = self.listed();
        let (name, peers) =
            named.map_or((String::new(), Vec::new()), |named| (named.to_string(), self.names.peers(named)));
        // Compares addresses, too: two names of one server are one member with the first name.
        let is_meant = |known: &&ListedMember| {
            known.name == name || known.label == member || peers.contains(&known.peer)
        };
        let mut meant: Vec<_> = all.iter().filter(is_meant).map(|known| (known.slot, known.peer)).collect();
        if let (true, Some(Address::Socket(Peer { transport: Transport::Udp, address }))) =
            (meant.is_empty(), named)
        {
            // An address without a transport may mean a server that uses another transport than UDP.
            let is_there = |known: &&ListedMember| known.peer.address == *address;
            meant = all.iter().filter(is_there).map(|known| (known.slot, known.peer)).collect();
        }
        let is_unresolved = self.names().iter().any(|known| known.name == name && known.addresses == 0);
        if meant.is_empty() && is_unresolved {
            return Err(format!("{name} is not resolved: it stands for no member yet"));
        }
        if meant.is_empty() {
            let known = all.iter().map(|known| name_and_address(&known.label, known.peer));
            let known: Vec<_> = known.take(LISTED_MOST).collect();
            let more = if known.len() < all.len() { ", ..." } else { "" };
            return Err(format!("no member {member:?}; there are: {}{more}", known.join(", ")));
        }
        Ok(meant)
    }

    /// Returns the members in the configuration that lead to a server at this address, over any transport. An address
    /// may have several names. A former member is listed by its former name.
    pub fn named_at(&self, at: SocketAddr) -> Vec<String> {
        let members = self.settings.members.iter().map(|member| &member.address);
        let named: Vec<_> =
            members.filter(|name| self.names.leads_to(name, at)).map(ToString::to_string).collect();
        if !named.is_empty() {
            return named;
        }
        let records = self.members.records().iter().filter(|record| record.tenure != Tenure::Vacant);
        records
            .filter(|record| record.address.remote().address == at)
            .map(|record| record.name.clone())
            .collect()
    }

    pub(super) fn drain(&mut self, slot: Slot, by: Drainer, draining: bool, out: &mut Outbox<ControlEffect>) {
        self.members.drain(slot, by, draining);
        let record = &self.members.records()[slot.index()];
        let (member, name) = (record.address.remote(), record.label().to_owned());
        out.event(ControlEffect::Log(LogEntry::DrainChanged { member, name, by, draining }));
    }

    pub(super) fn stop(&mut self, now: Instant, out: &mut Outbox<ControlEffect>) {
        if self.stopping.since.is_none() {
            (self.stopping.since, self.stopping.next) = (Some(now), Some(now));
            self.is_changed = true;
            out.event(ControlEffect::Log(LogEntry::Stopping { wait: self.settings.stop_wait }));
            out.event(ControlEffect::Release);
        }
    }

    pub(super) fn succeeded(&mut self, now: Instant, out: &mut Outbox<ControlEffect>) {
        (self.stopping.succeeded, self.stopping.next) = (Some(now), Some(now));
        self.is_changed = true;
        out.event(ControlEffect::Log(LogEntry::Succeeded { wait: self.settings.stop_wait }));
        out.event(ControlEffect::Release);
    }

    pub(super) fn given_back(&mut self) {
        self.stopping.succeeded = None;
        self.is_changed = true;
    }

    /// Takes over drained and dead members from the other process.
    pub(super) fn joins(
        &mut self,
        now: Instant,
        process: ProcessId,
        (drained, dead): (&[(NodeId, Drainer)], &[NodeId]),
        out: &mut Outbox<ControlEffect>,
    ) {
        self.processes.entry(process).or_default();
        for &(node, by) in drained {
            let Some(slot) = self.members.slot(node) else { continue };
            self.members.drain(slot, by, true);
            // The scaler logs its drains itself.
            if by == Drainer::Operator {
                let member = self.members.records()[slot.index()].address.remote();
                out.event(ControlEffect::Log(LogEntry::DrainedBefore { member }));
            }
        }
        for slot in dead.iter().filter_map(|&node| self.members.slot(node)).collect::<Vec<_>>() {
            self.members.was_dead(now, slot);
        }
    }

    /// Counts the calls of another process as load of its members.
    pub(super) fn other_loads(
        &mut self,
        process: ProcessId,
        loads: Vec<(NodeId, Load)>,
        out: &mut Outbox<ControlEffect>,
    ) {
        // A process that has ended has no load.
        if let Some(known) = self.processes.get_mut(&process) {
            *known = loads;
            self.tell_elsewhere(out);
        }
    }

    fn tell_elsewhere(&self, out: &mut Outbox<ControlEffect>) {
        let loads = self.members.nodes().iter().map(|node| self.elsewhere(node.id)).collect();
        out.event(ControlEffect::Elsewhere(loads));
    }

    /// Returns the load of other processes at a node.
    fn elsewhere(&self, id: NodeId) -> Load {
        let of_node = self.processes.values().flatten().filter(|(node, _)| *node == id);
        of_node.fold(Load::default(), |sum, (_, load)| sum + *load)
    }

    /// Removes the load of a process that has ended.
    pub(super) fn gone(&mut self, process: ProcessId, out: &mut Outbox<ControlEffect>) {
        if self.processes.remove(&process).is_some() {
            self.tell_elsewhere(out);
            out.event(ControlEffect::Log(LogEntry::ProcessEnded(process)));
            out.event(ControlEffect::Gone(process));
        }
    }

    /// Ends the process if the last call has ended, also at other processes, or if the wait is over.
    pub(super) fn work_left(&mut self, now: Instant, left: &WorkLeft, out: &mut Outbox<ControlEffect>) {
        let Some(since) = self.stopping.since().filter(|_| !self.stopping.has_ended) else { return };
        // Open calls of a dead member are not waited for.
        let is_alive = |slot: usize| self.members.nodes().get(slot).is_none_or(Node::is_up);
        let open = left.open.iter().enumerate().filter(|&(slot, _)| is_alive(slot));
        let active = open.map(|(_, open)| open).sum::<usize>() + left.waiting;
        // A retransmission of an answered message gets the same response only from this process, since the successor
        // does not remember it. Some clients can also be reached only by connections of this process.
        let is_late = self.stopping.succeeded.is_some() && left.is_any_kept;
        let is_idle = active == 0 && !is_late && self.processes.is_empty();
        let is_over = self.stopping.is_over || now.saturating_since(since) >= self.settings.stop_wait;
        if is_idle || is_over {
            self.stopping.has_ended = true;
            out.event(ControlEffect::Log(LogEntry::Stopped { calls_left: active }));
            out.event(ControlEffect::End);
        } else {
            self.stopping.next = Some(now + STOP_POLL);
        }
    }
}
