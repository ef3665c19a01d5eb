//! The constants of state distribution.

use core::time::Duration;

use crate::law::{Law, Room};

/// How a node knows its utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Load {
    /// It is measured.
    #[default]
    Measured,
    /// Line 2 of algorithm 1, `U(Csf, C - Csf)`: from the calls of a period, and what the node carries, in calls a
    /// second.
    Computed {
        /// With the state of every call: `T_SF`.
        stateful: f64,
        /// With the state of none: `T_SL`.
        stateless: f64,
    },
}

/// What a node works with. The same for all nodes of a network, but for `state_cost`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How the shares are found.
    pub law: Law,
    /// How a node knows its utilisation.
    pub load: Load,
    /// Share of the calls without state that get it here, from 0 to 1, with the law `fixed`. Other laws find it.
    pub keep: f64,
    /// How long a node counts calls before it corrects its shares and tells its neighbours. A second has some
    /// thousand calls of the paper's server, so that chance makes a percent or two of them. About the same for all
    /// nodes of a network: a notice counts for a number of the receiver's periods ([`validity`](Self::validity)).
    pub period: Duration,
    /// `U_high`: utilisation up to which a node keeps the state of all calls, and from which on it counts as
    /// saturated. SERvartuka paper, section 3, algorithm 1, without a value. State is cheap as long as there is room,
    /// and what is left above must bear the bursts of a period.
    pub high: f64,
    /// Level below which upstream neighbours are unthrottled: "a lower threshold" of the paper, section 3, without a
    /// value.
    pub low: f64,
    /// `deltaC`, calls a second: what the paper's law gives away in a period ("small amounts"). A hundredth of what
    /// the paper's server carries.
    pub delta_c: f64,
    /// What a call with state costs more than one without, as part of the latter: `T_SL / T_SF - 1`, and so 0.21 for
    /// the paper's server (section 2.2). For the law `level`: one that is four times too small makes it oscillate, a
    /// large one only slow.
    pub state_cost: f64,
    /// How many calls that were forwarded without state are remembered at least, for their retransmissions: as many
    /// as may come in 64*T1 = 32 s (RFC 3261 §17.1.1.2). About 40 bytes each.
    pub remembered: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            law: Law::Level,
            load: Load::Measured,
            keep: 1.0,
            period: Duration::from_secs(1),
            high: 0.9,
            low: 0.8,
            delta_c: 50.0,
            state_cost: 5700.0 / 4700.0 - 1.0,
            remembered: 200_000,
        }
    }
}

/// A notice counts for as many halves of a period, so that two in a row may be lost.
const VALIDITY_HALVES: u32 = 7;

/// The shortest validity is that of periods of this length: notices travel in responses, and a neighbour with few
/// calls has none in many a short period.
const VALIDITY_PERIOD_MIN: Duration = Duration::from_secs(1);

impl Settings {
    /// How long a notice counts after it came: three and a half periods, and no less than 3.5 s.
    pub fn validity(&self) -> Duration {
        self.period.max(VALIDITY_PERIOD_MIN) * VALIDITY_HALVES / 2
    }

    pub(crate) fn room(&self) -> Room {
        Room::above(self.high)
    }
}
