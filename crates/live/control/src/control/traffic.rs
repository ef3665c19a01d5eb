//! Inputs from the traffic and from probes.

use super::failures::Why;
use super::{Control, look_up};
use crate::address::name_and_address;
use crate::log::LogEntry;
use crate::messages::ControlEffect;
use crate::probe::ProbeMessages;
use crate::settings::Egress;
use balance::{Node, NodeRefusal, PoolId};
use base::{Instant, Outbox, Peer};
use node::ShardEvent;

impl<E: Egress> Control<E> {
    /// Processes a message that arrived at a socket or connection of probes.
    pub(super) fn probe_message(
        &mut self,
        now: Instant,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox<ControlEffect>,
    ) {
        let Some(answer) = ProbeMessages::read(bytes) else { return };
        let mut elsewhere = None;
        let is_it = self.probes.answered_by(answer, from, &mut elsewhere);
        self.members.answered(now, answer.status, answer.pause, is_it);
        if let Some(member) = elsewhere {
            out.event(ControlEffect::Log(LogEntry::ForeignAnswer { member, from: from.address }));
        }
    }

    /// Processes an ICMP error about a message of a shard to this peer.
    pub(super) fn unreachable(&mut self, now: Instant, peer: Peer, out: &mut Outbox<ControlEffect>) {
        if let Some(slot) = self.setup.topology.slot_at(peer) {
            out.event(ControlEffect::Log(LogEntry::Unreachable { member: peer }));
            self.members.suspect(now, slot);
        }
    }

    pub(super) fn shard(&mut self, now: Instant, event: ShardEvent, out: &mut Outbox<ControlEffect>) {
        match event {
            ShardEvent::Sign(sign) => self.members.sign(now, sign),
            ShardEvent::LookUp(name) => {
                if let Some(question) = self.questions.next_hop(name) {
                    look_up(question, out);
                }
            }
            ShardEvent::NoServer { pool, refused } => self.none_took(now, pool, refused, out),
            ShardEvent::AtLimit { pool, by, refused } => self.at_limit(now, (pool, by), refused, out),
            ShardEvent::NoRoom(refused) => {
                let max_sessions = self.settings.shards.sessions.max_sessions;
                out.event(ControlEffect::Log(LogEntry::NoRoom { refused, max_sessions }));
            }
            // These events are handled where the stores and the log are. Strangers can cause any number of them.
            ShardEvent::Ask(_)
            | ShardEvent::Failed(_)
            | ShardEvent::NoRecordRoute(_)
            | ShardEvent::NoPath(_)
            | ShardEvent::MarkOfStranger(_)
            | ShardEvent::NoFeedback(_)
            | ShardEvent::Record(_)
            | ShardEvent::WrongPassword(_)
            | ShardEvent::Judgement(_) => {}
        }
    }

    /// Handles new calls that no member of a pool took.
    fn none_took(&mut self, now: Instant, pool: PoolId, refused: u64, out: &mut Outbox<ControlEffect>) {
        self.members.none_took(now);
        let Some(refused) = self.failures.refused(now, pool, Why::NoneTook, refused) else { return };
        let all = self.members.nodes().iter().zip(self.members.records());
        let members = all.filter(|(node, record)| node.member && record.pools.contains(&pool));
        // Only the shards know the number of calls of a member. A member with a limit of calls that refuses was full.
        let why = |node: &Node| node.refusal(now, u32::MAX).map_or("takes calls again", NodeRefusal::name);
        let members = members
            .map(|(node, record)| (name_and_address(record.label(), record.address.remote()), why(node)))
            .collect();
        out.event(ControlEffect::Log(LogEntry::NoneTook { pool: self.pool_name(pool), refused, members }));
    }

    /// Handles new calls for which every member that takes calls was at a limit. Dead members are probed, since they
    /// may be back.
    fn at_limit(
        &mut self,
        now: Instant,
        (pool, by): (PoolId, NodeRefusal),
        refused: u64,
        out: &mut Outbox<ControlEffect>,
    ) {
        self.members.none_took(now);
        if let Some(refused) = self.failures.refused(now, pool, Why::AtLimit, refused) {
            let (pool, limit) = (self.pool_name(pool), by.name());
            out.event(ControlEffect::Log(LogEntry::AtLimit { pool, limit, refused }));
        }
    }
}
