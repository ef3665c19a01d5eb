//! Members that are ejected as outliers ([`crate::outlier`]).

use super::{Cluster, Effect, News};
use crate::outlier::{ROW, Tally};
use crate::{Node, Slot};
use base::Instant;
use core::fmt;
use core::time::Duration;

/// Why a member is an outlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlier {
    /// It failed many new requests in a row, while others did not.
    InARow,
    /// It failed a far greater share of them than the others.
    ByShare,
}

impl fmt::Display for Outlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InARow => "server failures in a row, while others answer",
            Self::ByShare => "far more failures than the others",
        })
    }
}

/// An ejection that begins so soon after the last one, beside the length of that, is one in a row: a member that comes back
/// slowly takes some time to fail again.
const IN_A_ROW: Duration = Duration::from_mins(1);

impl Cluster {
    /// What a shard has counted of a node's answers since the last time.
    pub(super) fn tallied(&mut self, now: Instant, slot: Slot, tally: Tally) {
        if !self.settings.outlier.enabled {
            return;
        }
        if now >= self.interval_since + self.settings.outlier.interval {
            self.end_interval(now);
        }
        self.watches[slot.index()].tally += tally;
        if tally.row >= ROW && self.others(slot, true).is_sound() {
            self.eject(now, slot, Outlier::InARow);
        }
    }

    fn end_interval(&mut self, now: Instant) {
        for slot in self.slots() {
            let others = self.others(slot, false);
            if self.watches[slot.index()].tally.stands_out(&others, &self.settings.outlier) {
                self.eject(now, slot, Outlier::ByShare);
            }
        }
        for watch in &mut self.watches {
            watch.last_tally = core::mem::take(&mut watch.tally);
        }
        self.interval_since = now;
    }

    /// What all other members gave in this interval, and perhaps in the last one.
    fn others(&self, slot: Slot, with_last: bool) -> Tally {
        let mut sum = Tally::default();
        for other in self.slots().filter(|&other| other != slot && self.nodes[other.index()].member) {
            let watch = &self.watches[other.index()];
            sum += watch.tally;
            if with_last {
                sum += watch.last_tally;
            }
        }
        sum
    }

    /// No new calls for a while, unless half of the members are ejected, or no other one takes calls.
    fn eject(&mut self, now: Instant, slot: Slot, outlier: Outlier) {
        let settings = self.settings.outlier;
        let members = || self.nodes.iter().filter(|node| node.member);
        let ejected = members().filter(|node| node.is_ejected(now)).count();
        let is_taker = |other: Slot| other != slot && self.nodes[other.index()].refusal(now, 0).is_none();
        let node = &self.nodes[slot.index()];
        let may = node.member && node.is_up() && !node.is_ejected(now);
        if !may || 2 * (ejected + 1) > members().count() || !self.slots().any(is_taker) {
            return;
        }
        let watch = &mut self.watches[slot.index()];
        let length = |ejections: u32| (settings.ejection * ejections).min(settings.max_ejection);
        let last = length(watch.ejections);
        let in_a_row = now < self.nodes[slot.index()].ejected_until + last + IN_A_ROW;
        watch.ejections = if in_a_row { watch.ejections + 1 } else { 1 };
        let until = now + length(watch.ejections);
        let node = &mut self.nodes[slot.index()];
        node.ejected_until = until;
        node.ejections = node.ejections.saturating_add(1);
        (node.joined, node.ramp) = (until, self.settings.slow_start);
        self.version += 1;
        self.effects.push(Effect::Note(News::Ejected { slot, outlier, until }));
    }

    /// Ends an ejection.
    pub(super) fn readmit(&mut self, slot: Slot) {
        self.watches[slot.index()].ejections = 0;
        self.nodes[slot.index()].ejected_until = Instant::ZERO;
    }
}

impl Node {
    /// Whether it gets no new calls since it is an outlier.
    pub fn is_ejected(&self, now: Instant) -> bool {
        now < self.ejected_until
    }
}
