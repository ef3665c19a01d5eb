//! The phases of the demo.

/// A phase of constant load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// Effect that the phase shows.
    pub(super) shows: &'static str,
    /// Load as a share of the calls of which one proxy can keep all state.
    pub(super) load: f64,
}

pub(super) const PHASES: [Phase; 5] = [
    Phase { name: "quiet", load: 0.5, shows: "the first has capacity, and keeps all state" },
    Phase { name: "busy", load: 1.0, shows: "the first is full; the second keeps some" },
    Phase { name: "busier", load: 1.06, shows: "the second keeps more, until it is full" },
    Phase { name: "too much", load: 1.25, shows: "both are full, and refuse the rest" },
    Phase { name: "quiet again", load: 0.5, shows: "the first keeps all state again" },
];
/// Indices of the phases of the quick demo.
pub(super) const QUICK: [usize; 3] = [0, 2, 4];
pub(super) const QUICK_SECONDS: f64 = 5.0;
