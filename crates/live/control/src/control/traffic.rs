//! What the traffic and the probes say.

use super::failures::Why;
use super::{Control, look_up};
use crate::log::LogEntry;
use crate::messages::ControlEffect;
use crate::probe::ProbeMessages;
use crate::settings::Egress;
use balance::{Node, NodeRefusal, PoolId};
use base::{Instant, Outbox, Peer};
use node::ShardEvent;

impl<E: Egress> Control<E> {
    /// A message came in where probes leave.
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

    /// The network said that what a shard sent there did not arrive.
    pub(super) fn unreachable(&mut self, now: Instant, peer: Peer, out: &mut Outbox<ControlEffect>) {
        if let Some(slot) = self.setup.topology.slot_at(peer) {
            out.event(ControlEffect::Log(LogEntry::Unreachable { member: peer }));
            self.members.suspect(now, slot);
        }
    }

    /// What a shard tells.
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
            // Not for the control plane: there are as many as strangers please.
            // Whoever has the stores answers and writes.
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

    /// No member of a pool took these new calls.
    fn none_took(&mut self, now: Instant, pool: PoolId, refused: u64, out: &mut Outbox<ControlEffect>) {
        self.members.none_took(now);
        let Some(refused) = self.failures.refused(now, pool, Why::NoneTook, refused) else { return };
        let all = self.members.nodes().iter().zip(self.members.records());
        let members = all.filter(|(node, record)| node.member && record.pools.contains(&pool));
        // How many calls a member has, only the shards know: one with a bound on them that refuses had no room.
        let why = |node: &Node| node.refusal(now, u32::MAX).map_or("takes calls again", NodeRefusal::name);
        let members = members.map(|(node, record)| (record.address.remote(), why(node))).collect();
        out.event(ControlEffect::Log(LogEntry::NoneTook { pool: self.pool_name(pool), refused, members }));
    }

    /// Every member of a pool that takes new calls was at a limit. Those that are dead are asked: they may be back.
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
