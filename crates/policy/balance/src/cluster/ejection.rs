//! Ejection of outliers ([`crate::outlier`]).

use super::Cluster;
use super::news::{HealthEffect, HealthNews, Outlier};
use crate::outlier::{INTERVAL, OutcomeTally, ROW};
use crate::{Node, PoolId, Slot};
use base::Instant;
use core::time::Duration;

/// Two ejections are successive if the second one starts within this time plus the length of the first one, after the
/// end of the first one. The margin covers a slow start, during which a member fails more slowly.
const IN_A_ROW: Duration = Duration::from_mins(1);
/// Length of the first ejection. The second successive ejection is twice as long, the third three times as long.
const EJECTION: Duration = Duration::from_secs(10);
/// Longest ejection.
const MAX_EJECTION: Duration = Duration::from_mins(5);

impl Cluster {
    /// Adds a shard's counts of a node's outcomes.
    pub(super) fn tallied(&mut self, now: Instant, slot: Slot, tally: OutcomeTally) {
        if !self.settings(slot).ejects {
            return;
        }
        let pool = self.nodes[slot.index()].pool;
        if let Some(whole) = self.pools.get(pool.index())
            && now >= whole.interval_since + INTERVAL
        {
            self.end_interval(now, pool);
        }
        self.watches[slot.index()].tally += tally;
        if tally.row >= ROW && self.others(slot, true).is_sound() {
            self.eject(now, slot, Outlier::InARow);
        }
    }

    fn end_interval(&mut self, now: Instant, pool: PoolId) {
        let of_pool = |cluster: &Self, slot: Slot| cluster.nodes[slot.index()].pool == pool;
        for slot in self.slots() {
            let others = self.others(slot, false);
            let stands_out = self.watches[slot.index()].tally.stands_out(&others);
            if of_pool(self, slot) && stands_out {
                self.eject(now, slot, Outlier::ByShare);
            }
        }
        for slot in self.slots() {
            if of_pool(self, slot) {
                let watch = &mut self.watches[slot.index()];
                watch.last_tally = core::mem::take(&mut watch.tally);
            }
        }
        self.pools[pool.index()].interval_since = now;
    }

    /// Outcomes of all other members of its pool in this interval; with `with_last`, the outcomes of the last interval
    /// as well.
    fn others(&self, slot: Slot, with_last: bool) -> OutcomeTally {
        let mut sum = OutcomeTally::default();
        let is_other = |&other: &Slot| other != slot && self.is_peer(slot, other);
        for other in self.slots().filter(is_other) {
            let watch = &self.watches[other.index()];
            sum += watch.tally;
            if with_last {
                sum += watch.last_tally;
            }
        }
        sum
    }

    /// Whether `other` is a member of the pool of `slot`.
    fn is_peer(&self, slot: Slot, other: Slot) -> bool {
        let (node, other) = (&self.nodes[slot.index()], &self.nodes[other.index()]);
        other.member && other.pool == node.pool
    }

    /// Ejects a member: it gets no new calls for a while. Does nothing if half of the members are ejected, or no other
    /// member takes calls.
    fn eject(&mut self, now: Instant, slot: Slot, outlier: Outlier) {
        let slow_start = self.settings(slot).slow_start;
        let pool = self.nodes[slot.index()].pool;
        let members = || self.members_of(pool);
        let ejected = members().filter(|node| node.is_ejected(now)).count();
        let is_taker = |other: Slot| {
            other != slot && self.is_peer(slot, other) && self.nodes[other.index()].refusal(now, 0).is_none()
        };
        let node = &self.nodes[slot.index()];
        let may = node.member && node.is_up() && !node.is_ejected(now);
        if !may || 2 * (ejected + 1) > members().count() || !self.slots().any(is_taker) {
            return;
        }
        let watch = &mut self.watches[slot.index()];
        let length = |ejections: u32| (EJECTION * ejections).min(MAX_EJECTION);
        let last = length(watch.ejections);
        let in_a_row = now < self.nodes[slot.index()].ejected_until + last + IN_A_ROW;
        watch.ejections = if in_a_row { watch.ejections + 1 } else { 1 };
        let until = now + length(watch.ejections);
        let node = &mut self.nodes[slot.index()];
        node.ejected_until = until;
        node.ejections = node.ejections.saturating_add(1);
        (node.joined, node.ramp) = (until, slow_start);
        self.version += 1;
        self.effects.push(HealthEffect::Note(HealthNews::Ejected { slot, outlier, until }));
    }

    /// Ends an ejection.
    pub(super) fn readmit(&mut self, slot: Slot) {
        self.watches[slot.index()].ejections = 0;
        self.nodes[slot.index()].ejected_until = Instant::ZERO;
    }
}

impl Node {
    /// Whether the node is ejected as an outlier, so that it gets no new calls.
    pub fn is_ejected(&self, now: Instant) -> bool {
        now < self.ejected_until
    }
}
