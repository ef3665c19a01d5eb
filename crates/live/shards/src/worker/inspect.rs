//! Answers of a thread to questions about its state.

use super::Worker;
use crate::counts::{ShardCounts, ShardSnapshot, Traffic};
use balance::{Load, SessionView, Slot};
use base::Instant;

/// Entries visited in one step of a walk through the session table.
const WALK: usize = 4_096;

impl Worker {
    pub(crate) fn counts(&mut self) -> ShardCounts {
        let now = self.clock.now();
        let overload = self.shard.overload_report(now);
        let neighbours = self.shard.neighbour_reports(now);
        let (balancer, proxy) = (self.shard.balancer(), self.shard.proxy_report());
        let slots = (0..).map(Slot).zip(balancer.nodes());
        let counters = self.shard.counters();
        ShardCounts {
            table: balancer.counts(),
            transactions: self.shard.open_transactions(),
            loads: slots.clone().map(|(slot, node)| (node.id, balancer.load(slot).own)).collect(),
            rooms: slots.clone().map(|(slot, _)| balancer.room(self.clock.now(), slot)).collect(),
            totals: slots.map(|(slot, _)| balancer.stats(slot).totals()).collect(),
            without_takers: counters.without_takers,
            at_limit: counters.at_limit,
            replies: counters.replies,
            proxy,
            home: self.shard.registrar_report(),
            overload,
            neighbours,
            unread: self.queue.len(),
            read_share: self.read_share.get().least(),
            relayed: self.streams.as_ref().map_or(0, |streams| streams.unanswered()),
            has_dialogs: self.streams.as_ref().is_some_and(|streams| streams.has_dialogs(now)),
            queues: self.shard.queue_reports(),
        }
    }

    pub(crate) fn snapshot(&mut self) -> ShardSnapshot {
        let counts = self.counts();
        let balancer = self.shard.balancer();
        let slots = (0..).map(Slot).zip(balancer.nodes());
        let stats = slots.map(|(slot, node)| (node.pool, balancer.stats(slot).clone())).collect();
        let lost = self.sockets.iter().filter_map(|socket| socket.lost_datagrams().ok()).map(u64::from).sum();
        ShardSnapshot {
            counters: self.shard.counters(),
            ledger: self.shard.ledger(),
            counts,
            stats,
            former: balancer.former_histograms().clone(),
            traffic: Traffic { receive_lost: lost, ..self.traffic },
            signals: self.signals.figures(self.clock.now()),
            triage: self.queue.counts,
            streams: self.streams.as_ref().map(|streams| streams.counts),
        }
    }

    pub(crate) fn oldest_calls(&mut self) -> Vec<Option<Instant>> {
        let mut oldest: Vec<Option<Instant>> = vec![None; self.slots()];
        self.walk(|session| {
            if session.is_call {
                let oldest = &mut oldest[session.slot.index()];
                *oldest = Some(oldest.map_or(session.created, |then| then.min(session.created)));
            }
        });
        oldest
    }

    /// Returns the session with this Call-ID; the oldest if there are several.
    pub(crate) fn session(&mut self, call_id: &[u8]) -> Option<SessionView> {
        let key = self.shard.tokens().call_key(call_id);
        let mut first: Option<SessionView> = None;
        self.walk(|session| {
            if session.key.call_id() == key.call_id()
                && first.is_none_or(|first| session.created < first.created)
            {
                first = Some(session);
            }
        });
        first
    }

    pub(crate) fn slots_in_use(&mut self) -> Vec<bool> {
        let mut used = vec![false; self.slots()];
        self.walk(|session| used[session.slot.index()] = true);
        for (used, (_, load)) in used.iter_mut().zip(self.counts().loads) {
            *used |= load != Load::default();
        }
        used
    }

    pub(crate) fn slots(&self) -> usize {
        self.shard.balancer().nodes().len()
    }

    /// Walks the whole table, with pauses for the traffic every few thousand entries.
    pub(crate) fn walk(&mut self, mut visit: impl FnMut(SessionView)) {
        let mut from = Some(0);
        while let Some(start) = from {
            from = self.shard.balancer().sessions(start, WALK, &mut visit);
            if from.is_some() {
                let now = self.clock.now();
                self.read_board(now);
                for socket in 0..self.sockets.len() {
                    self.read_socket(now, socket);
                }
                self.read_rings(now);
                self.flush();
            }
        }
    }
}
