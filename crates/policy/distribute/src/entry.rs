//! Refusal at the entry: which share of the clients' new calls a node takes once nobody on their way has room.
//!
//! A network that cannot carry a load loses calls wherever a node is full, after other nodes have worked for them,
//! and clients send again what got no answer. Only the node where a call enters can refuse it for the price of one
//! response. What is too much for that node alone, its overload control refuses. This here is for what is too much for
//! the nodes behind: all of them are busy, or one is full of what it forwards while all state is kept before it.
//!
//! Once a period, with U the utilisation of the node, or of such a one behind:
//!
//! `f <- f * target / U`, between a least share and 1, `target = U_high + 0.8 * (1 - U_high)`.
//!
//! This is the occupancy algorithm of overload control. Two things differ. A utilisation near 1 does not say how much
//! too much there is; overload control does, by what it has refused. So from there on f falls by that in the period, and
//! by a twentieth more. And as long as somebody behind has room, f does not fall:
//! [`Law::Level`](crate::Law::Level) gives state away instead.

use crate::law::Room;

/// The least share. Were it 0, no multiplication could lift it again.
const LEAST: f64 = 0.02;

/// The largest step from one period to the next: an idle one, or one with few calls, says little about the next.
const STEP: f64 = 2.0;

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
    /// A period is over, in which overload control took this share of the clients' calls that were let in.
    /// `has_way_out`: somebody behind has room, or no calls of clients go to anybody behind.
    pub(crate) fn on_period(&mut self, room: Room, utilisation: f64, taken: f64, has_way_out: bool) {
        let share = if utilisation >= room.full() {
            self.share * taken.max(1.0 / STEP) * FALL
        } else {
            // An idle node (U = 0) asks for an infinite increase.
            self.share * (room.target() / utilisation.max(f64::MIN_POSITIVE)).min(STEP)
        };
        let share = if has_way_out { share.max(self.share) } else { share };
        self.share = share.clamp(LEAST, 1.0);
    }
}
