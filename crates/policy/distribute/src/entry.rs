//! Refusal at the entry: which share of the clients' new calls a node takes once nobody on their way has room.
//!
//! A network that cannot carry a load loses calls wherever a node is full, after other nodes have worked for them,
//! and clients send again what got no answer. Only the node where a call enters can refuse it for the price of one
//! response. It does so when it is busy and cannot give away state: all nodes behind are busy as well, or it has
//! given away all.
//!
//! Once a period, with U the utilisation of the node:
//!
//! `f <- f * target / U`, between a least share and 1, `target = U_high + 0.7 * (1 - U_high)`.
//!
//! This is the occupancy algorithm of overload control. Two things differ. A utilisation near 1 does not say how much
//! too much there is, so from there on f falls by a twentieth in a period. And where others have room for state, f
//! does not fall: [`Law::Level`](crate::Law::Level) gives state away instead.

use crate::law::Room;

/// The least share. Were it 0, no multiplication could lift it again.
const LEAST: f64 = 0.02;

/// The largest increase from one period to the next, so that one idle period does not let in a flood.
const RISE: f64 = 1.1;

/// The factor of a period in which the node was full.
const FALL: f64 = 0.95;

/// The share f.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) share: f64,
}

impl Default for Entry {
    /// Takes everything.
    fn default() -> Self {
        Self { share: 1.0 }
    }
}

impl Entry {
    /// A period is over. `has_way_out`: state can be given away still, to a node with room.
    pub(crate) fn on_period(&mut self, room: Room, utilisation: f64, has_way_out: bool) {
        let target = room.target();
        let factor = if utilisation >= room.full() {
            FALL
        } else {
            // An idle node (U = 0) asks for an infinite increase.
            (target / utilisation.max(f64::MIN_POSITIVE)).min(RISE)
        };
        let factor = if has_way_out { factor.max(1.0) } else { factor };
        self.share = (self.share * factor).clamp(LEAST, 1.0);
    }
}
