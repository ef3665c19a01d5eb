//! Laws for the share of calls whose state a node keeps. One file per law.

mod fixed;
mod level;
mod paper;

use crate::DistributionSettings;

/// Law for the shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShareLaw {
    /// Additive decrease: algorithm 1 of the SERvartuka paper.
    Paper,
    /// Levels the utilisation with the nodes behind.
    #[default]
    Level,
    /// Constant share [`DistributionSettings::keep`], whatever the load.
    Fixed,
}

/// Room of a node above `U_high`, where it counts as saturated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    high: f64,
}

impl Room {
    pub(crate) const fn above(high: f64) -> Self {
        Self { high }
    }

    /// Target utilisation of a node that refuses calls: 0.98 with the default `U_high`. As high as possible without
    /// being full by chance.
    pub(crate) fn target(self) -> f64 {
        self.high + 0.8 * (1.0 - self.high)
    }

    /// Utilisation from which a node counts as full: 0.995 with the default `U_high`. The amount of excess cannot be
    /// measured then.
    pub(crate) fn full(self) -> f64 {
        self.high + 0.95 * (1.0 - self.high)
    }
}

/// Number of periods in a row in which no node had room.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Saturation {
    periods: u8,
}

impl ShareLaw {
    /// Whether the law can give state away to nodes with room at present.
    pub(crate) fn gives(self, saturation: Saturation) -> bool {
        match self {
            Self::Paper => true,
            Self::Level => !saturation.is_standing(),
            Self::Fixed => false,
        }
    }
}

/// Load of a node in a period. Rates are calls a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeLoad {
    /// From 0 to 1.
    pub(crate) utilisation: f64,
    /// All calls.
    pub(crate) calls: f64,
    /// Calls whose state was kept here, by choice or not.
    pub(crate) kept: f64,
    /// New calls that were refused because the node is overloaded.
    pub(crate) refused: f64,
    /// Whether calls without state came from a neighbour and went on to another one.
    pub(crate) is_between: bool,
}

/// Load of a path in a period, and the neighbour's notice.
#[derive(Debug)]
pub(crate) struct PathLoad<'p> {
    /// Rate of calls that arrived without state.
    pub(crate) open: f64,
    /// Level reported by the neighbour; 0 if unknown.
    pub(crate) level: f64,
    /// Whether the neighbour asks for no more calls without state.
    pub(crate) throttled: bool,
    pub(crate) share: &'p mut Share,
}

impl Share {
    /// Initial share of a law.
    pub(crate) fn first(settings: &DistributionSettings) -> Self {
        let keep = if settings.law == ShareLaw::Fixed { settings.keep } else { 1.0 };
        Self { keep, ..Self::default() }
    }
}

/// Decision of a law for a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// Share of the calls arriving without state whose state is kept here, from 0 to 1.
    pub(crate) keep: f64,
    /// `Csf_reduced` of algorithm 1, calls a second.
    reduced: f64,
}

impl Default for Share {
    /// "First time `Csf_reduced` = infinity": all state is kept.
    fn default() -> Self {
        Self { keep: 1.0, reduced: f64::INFINITY }
    }
}

impl ShareLaw {
    pub(crate) fn adjust(
        self,
        settings: &DistributionSettings,
        node: NodeLoad,
        paths: &mut [PathLoad<'_>],
        saturation: &mut Saturation,
    ) {
        match self {
            Self::Paper => paper::adjust(settings, node, paths),
            Self::Level => level::adjust(settings, node, paths, saturation),
            Self::Fixed => fixed::adjust(settings, paths),
        }
    }
}
