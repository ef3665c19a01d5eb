//! How a node finds the share of calls whose state it keeps. One file a law.

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
    pub(crate) fn adjust(self, settings: &Settings, node: NodeLoad, paths: &mut [PathLoad<'_>]) {
        match self {
            Self::Paper => paper::adjust(settings, node, paths),
            Self::Level => level::adjust(settings, node, paths),
        }
    }
}
