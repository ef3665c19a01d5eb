//! Refusal at the entry: the share of clients' new calls that a node accepts when no node on their paths has room.
//!
//! An overloaded network loses calls at any full node, after other nodes have worked for them, and clients retransmit
//! unanswered requests. Only the node where a call enters can refuse it at the cost of one response. Its own overload
//! control refuses the excess of this node alone. The share of this module handles the excess of later nodes: all of
//! them are busy, or one is full by forwarding while all state is kept before it.
//!
//! Once a period, with U the utilisation of the node, or of such a later node:
//!
//! `f <- f * target / U`, between a least share and 1, `target = U_high + 0.8 * (1 - U_high)`.
//!
//! This is the occupancy algorithm of overload control, with two differences.
//!
//! - A utilisation near 1 does not show the amount of excess, but the refusals of overload control do. So near 1, f
//!   falls by the refused share of the period, and by another twentieth.
//! - f does not fall as long as a later node has room: [`ShareLaw::Level`](crate::ShareLaw::Level) gives state away
//!   instead.

use crate::law::Room;

/// Smallest share. A share of 0 could not grow again by multiplication.
const LEAST: f64 = 0.02;

/// Largest factor between periods: an idle period, or one with few calls, says little about the next.
const STEP: f64 = 2.0;

/// Factor of a period in which the node was full.
const FALL: f64 = 0.95;

/// The share f.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) share: f64,
}

impl Default for Entry {
    /// Accepts everything.
    fn default() -> Self {
        Self { share: 1.0 }
    }
}

impl Entry {
    /// Handles the end of a period. `taken`: share of the admitted client calls that overload control accepted.
    /// `has_way_out`: a later node has room, or no calls of clients go to later nodes.
    pub(crate) fn on_period(&mut self, room: Room, utilisation: f64, taken: f64, has_way_out: bool) {
        let share = if utilisation >= room.full() {
            self.share * taken.max(1.0 / STEP) * FALL
        } else {
            // An idle node (U = 0) would give an infinite increase.
            self.share * (room.target() / utilisation.max(f64::MIN_POSITIVE)).min(STEP)
        };
        let share = if has_way_out { share.max(self.share) } else { share };
        self.share = share.clamp(LEAST, 1.0);
    }
}
