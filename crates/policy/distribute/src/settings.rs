//! Settings of state distribution.

use core::time::Duration;

use crate::law::{Room, ShareLaw};

/// Source of a node's utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum UtilisationSource {
    /// Measured.
    #[default]
    Measured,
    /// Line 2 of algorithm 1, `U(Csf, C - Csf)`: computed from the calls of a period and the capacity of the node in
    /// calls a second.
    Computed {
        /// Capacity with the state of every call: `T_SF`.
        stateful: f64,
        /// Capacity without any state: `T_SL`.
        stateless: f64,
    },
}

/// Settings of a node. The same for all nodes of a network, except `state_cost`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DistributionSettings {
    /// Law of the shares.
    pub law: ShareLaw,
    /// Source of the utilisation.
    pub load: UtilisationSource,
    /// Share of the calls without state whose state is kept here, from 0 to 1, with the law `fixed`. Other laws compute
    /// it.
    pub keep: f64,
    /// Period of counting, after which a node corrects its shares and notifies its neighbours. In a second the paper's
    /// server has some thousand calls, so that chance causes an error of one or two percent. The period should be
    /// similar at all nodes of a network, since the validity of a notice is a number of the receiver's periods
    /// ([`validity`](Self::validity)).
    pub period: Duration,
    /// `U_high`: utilisation up to which a node keeps the state of all calls, and from which it counts as saturated.
    /// SERvartuka paper, section 3, algorithm 1, which gives no value. State is cheap while there is room, and the rest
    /// must absorb the bursts of a period.
    pub high: f64,
    /// Level below which upstream neighbours are unthrottled: "a lower threshold" of the paper, section 3, which gives
    /// no value.
    pub low: f64,
    /// `deltaC`, in calls a second: amount that the paper's law gives away in a period ("small amounts"). A hundredth
    /// of the capacity of the paper's server.
    pub delta_c: f64,
    /// Additional cost of a call with state, relative to one without: `T_SL / T_SF - 1`, which is 0.21 for the paper's
    /// server (section 2.2). Used by the law `level`. A value four times too small makes it oscillate; a value that is
    /// too large only makes it slow.
    pub state_cost: f64,
    /// Least number of calls forwarded without state that are remembered for their retransmissions: as many as may come
    /// in 64*T1 = 32 s (RFC 3261 §17.1.1.2). About 40 bytes each.
    pub remembered: usize,
}

impl Default for DistributionSettings {
    fn default() -> Self {
        Self {
            law: ShareLaw::Level,
            load: UtilisationSource::Measured,
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

/// Validity of a notice in half periods: two in a row may be lost.
const VALIDITY_HALVES: u32 = 7;

/// Shortest period from which the validity is computed. Notices travel in responses, and a neighbour with few calls has
/// none in many short periods.
const VALIDITY_PERIOD_MIN: Duration = Duration::from_secs(1);

impl DistributionSettings {
    /// Validity of a notice after its arrival: three and a half periods, and at least 3.5 s.
    pub fn validity(&self) -> Duration {
        self.period.max(VALIDITY_PERIOD_MIN) * VALIDITY_HALVES / 2
    }

    pub(crate) fn room(&self) -> Room {
        Room::above(self.high)
    }
}
