//! How a node finds the share of calls whose state it keeps. One file a law.

mod fixed;
mod level;
mod paper;

use crate::Settings;

/// A law by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Law {
    /// Additive decrease: algorithm 1 of the SERvartuka paper.
    Paper,
    /// Utilisation is levelled out with the nodes behind.
    #[default]
    Level,
    /// [`Settings::keep`] of the calls, whatever the load.
    Fixed,
}

/// The room that a node has above `U_high`, which is where it counts as saturated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    high: f64,
}

impl Room {
    pub(crate) const fn above(high: f64) -> Self {
        Self { high }
    }

    /// The utilisation that a node aims at that refuses calls: 0.98 with the usual `U_high`. As much as can be had of
    /// it without being full by chance.
    pub(crate) fn target(self) -> f64 {
        self.high + 0.8 * (1.0 - self.high)
    }

    /// From this utilisation on a node is full: 0.995 with the usual `U_high`. How much too much it has to do cannot
    /// be seen.
    pub(crate) fn full(self) -> f64 {
        self.high + 0.95 * (1.0 - self.high)
    }
}

/// For how many periods in a row nobody had room.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Saturation {
    periods: u8,
}

impl Law {
    /// Whether it gives state away to nodes with room, as things are.
    pub(crate) fn gives(self, saturation: Saturation) -> bool {
        match self {
            Self::Paper => true,
            Self::Level => !saturation.is_standing(),
            Self::Fixed => false,
        }
    }
}

/// What a node did in a period. Rates are calls a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeLoad {
    /// From 0 to 1.
    pub(crate) utilisation: f64,
    /// All calls.
    pub(crate) calls: f64,
    /// Those whose state was kept here, whether there was a choice or not.
    pub(crate) kept: f64,
    /// New calls that were refused, since the node has too much to do.
    pub(crate) refused: f64,
    /// Whether calls without state came from a neighbour and went on to another one.
    pub(crate) is_between: bool,
}

/// What went one way in a period, and what is known of it.
#[derive(Debug)]
pub(crate) struct PathLoad<'p> {
    /// Calls a second that came without state.
    pub(crate) open: f64,
    /// The level behind, 0 if nothing is known.
    pub(crate) level: f64,
    /// Whether the neighbour asks for no more calls without state.
    pub(crate) throttled: bool,
    pub(crate) share: &'p mut Share,
}

impl Share {
    /// What a law begins with.
    pub(crate) fn first(settings: &Settings) -> Self {
        let keep = if settings.law == Law::Fixed { settings.keep } else { 1.0 };
        Self { keep, ..Self::default() }
    }
}

/// What a law decides for a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// Share of the calls without state that get it here, from 0 to 1.
    pub(crate) keep: f64,
    /// `Csf_reduced` of algorithm 1, calls a second.
    reduced: f64,
}

impl Default for Share {
    /// "First time `Csf_reduced` = infinity": everything is kept.
    fn default() -> Self {
        Self { keep: 1.0, reduced: f64::INFINITY }
    }
}

impl Law {
    pub(crate) fn adjust(
        self,
        settings: &Settings,
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
