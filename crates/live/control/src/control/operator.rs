//! What operators say and see, and how a process ends: on demand, or because another one takes over.

use super::Control;
use crate::Address;
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
    /// As the configuration names it.
    pub name: String,
    /// Where it is, and over what.
    pub peer: Peer,
    /// The pools that it is in; of one that left, those that it was in and that are still there.
    pub pools: Vec<PoolId>,
    /// Its membership and health.
    pub node: Node,
    /// Who drains it.
    pub drains: Drains,
    /// What came of the last probe.
    pub last_probe: Option<ProbeResult>,
    /// When it was last found dead or back.
    pub last_change: Instant,
    /// What other processes have there.
    pub before: Load,
}

/// How often the shards are asked whether calls are left when the process stops.
const STOP_POLL: Duration = Duration::from_millis(100);

impl<E: Egress> Control<E> {
    /// Members and former members in the order of their slots; not every slot has one.
    pub fn listed(&self) -> Vec<ListedMember> {
        let all = (0..).map(Slot).zip(self.members.nodes().iter().zip(self.members.records()));
        let listed = all.filter(|(_, (_, record))| record.tenure != Tenure::Vacant);
        listed
            .map(|(slot, (node, record))| ListedMember {
                slot,
                name: record.name.clone(),
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

    /// The pools in the order of the configuration, with the numbers that [`ListedMember::pools`] names them by.
    pub fn pools(&self) -> impl Iterator<Item = (PoolId, &PoolSettings)> {
        self.numbers.live().iter().copied().zip(&self.settings.pools)
    }

    /// The pool with this number, unless it is gone.
    pub fn pool(&self, number: PoolId) -> Option<&PoolSettings> {
        self.pools().find(|(id, _)| *id == number).map(|(_, pool)| pool)
    }

    /// The number of the pool with this name.
    pub fn pool_number(&self, name: &str) -> Option<PoolId> {
        self.pools().find(|(_, pool)| pool.name == name).map(|(id, _)| id)
    }

    /// Whether the process is to end, or another one takes its new calls.
    pub fn is_stopping(&self) -> bool {
        self.stopping.begun().is_some()
    }

    /// When the process ends even with calls, once it is stopping.
    pub fn stops_at(&self) -> Option<Instant> {
        self.stopping.begun().map(|since| since + self.settings.stop_wait)
    }

    /// The members that an operator means: by address or name, in any form that the configuration takes, which
    /// `named` is when it was read; a name may stand for several.
    ///
    /// # Errors
    /// Says which members there are.
    pub fn meant(&self, member: &str, named: Option<&Address>) -> Result<Vec<(Slot, Peer)>, String> {
        let all = self.listed();
        let (name, peers) =
            named.map_or((String::new(), Vec::new()), |named| (named.to_string(), self.names.peers(named)));
        // By its address too: two names for one server are one member, which has the first.
        let is_meant = |known: &&ListedMember| known.name == name || peers.contains(&known.peer);
        let mut meant: Vec<_> = all.iter().filter(is_meant).map(|known| (known.slot, known.peer)).collect();
        if let (true, Some(Address::Socket(Peer { transport: Transport::Udp, address }))) =
            (meant.is_empty(), named)
        {
            // Whoever names no transport may mean the server that is there over another one.
            let is_there = |known: &&ListedMember| known.peer.address == *address;
            meant = all.iter().filter(is_there).map(|known| (known.slot, known.peer)).collect();
        }
        let is_unresolved = self.names().iter().any(|known| known.name == name && known.addresses == 0);
        if meant.is_empty() && is_unresolved {
            return Err(format!("{name} is not resolved: it stands for no member yet"));
        }
        if meant.is_empty() {
            let both = |known: &ListedMember| match known.peer.to_string() {
                address if address == known.name => address,
                address => format!("{address} ({})", known.name),
            };
            let known: Vec<_> = all.iter().map(both).collect();
            return Err(format!("no member {member:?}; there are: {}", known.join(", ")));
        }
        Ok(meant)
    }

    /// The members, as the configuration names them, that stand for a server at this address, over whatever transport:
    /// an address may have several names. Where it is only that of a former member, the name that it had.
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
        let member = self.members.records()[slot.index()].address.remote();
        out.event(ControlEffect::Log(LogEntry::DrainChanged { member, by, draining }));
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

    /// What is drained or dead in the other process stays so.
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
            // What a scaler does it says itself.
            if by == Drainer::Operator {
                let member = self.members.records()[slot.index()].address.remote();
                out.event(ControlEffect::Log(LogEntry::DrainedBefore { member }));
            }
        }
        for slot in dead.iter().filter_map(|&node| self.members.slot(node)).collect::<Vec<_>>() {
            self.members.was_dead(now, slot);
        }
    }

    /// The calls that another process has count as load of its members.
    pub(super) fn other_loads(
        &mut self,
        process: ProcessId,
        loads: Vec<(NodeId, Load)>,
        out: &mut Outbox<ControlEffect>,
    ) {
        // One that has ended has nothing.
        if let Some(known) = self.processes.get_mut(&process) {
            *known = loads;
            self.tell_elsewhere(out);
        }
    }

    fn tell_elsewhere(&self, out: &mut Outbox<ControlEffect>) {
        let loads = self.members.nodes().iter().map(|node| self.elsewhere(node.id)).collect();
        out.event(ControlEffect::Elsewhere(loads));
    }

    /// What other processes have on a node.
    fn elsewhere(&self, id: NodeId) -> Load {
        let of_node = self.processes.values().flatten().filter(|(node, _)| *node == id);
        of_node.fold(Load::default(), |sum, (_, load)| sum + *load)
    }

    /// What the other process had is nobody's.
    pub(super) fn gone(&mut self, process: ProcessId, out: &mut Outbox<ControlEffect>) {
        if self.processes.remove(&process).is_some() {
            self.tell_elsewhere(out);
            out.event(ControlEffect::Log(LogEntry::ProcessEnded(process)));
            out.event(ControlEffect::Gone(process));
        }
    }

    /// Whether the last call has ended, also of other processes, or the wait is over.
    pub(super) fn work_left(&mut self, now: Instant, left: &WorkLeft, out: &mut Outbox<ControlEffect>) {
        let Some(since) = self.stopping.begun().filter(|_| !self.stopping.has_ended) else { return };
        // What a dead member has left open need not be waited for.
        let is_alive = |slot: usize| self.members.nodes().get(slot).is_none_or(Node::is_up);
        let open = left.open.iter().enumerate().filter(|&(slot, _)| is_alive(slot));
        let active = open.map(|(_, open)| open).sum::<usize>() + left.waiting;
        // Who repeats an answered message gets the same again only here: the process that has taken over has no
        // memory of it. And it reaches clients by connections that are here.
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
