//! The phases of the demo.

/// A phase of constant load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// Text about what the phase shows.
    pub(super) shows: &'static str,
    /// Load as a share of the calls of which one proxy can keep all state.
    pub(super) load: f64,
}

pub(super) const PHASES: [Phase; 5] = [
    Phase { name: "quiet", load: 0.5, shows: "the first has room, and keeps all" },
    Phase { name: "busy", load: 1.0, shows: "the first is full, and passes some on" },
    Phase { name: "busier", load: 1.06, shows: "it passes more on, and the second fills" },
    Phase { name: "too much", load: 1.25, shows: "both are full, and refuse the rest" },
    Phase { name: "quiet again", load: 0.5, shows: "the first takes it all back" },
];
/// Indices of the phases of the quick demo.
pub(super) const QUICK: [usize; 3] = [0, 2, 4];
pub(super) const QUICK_SECONDS: f64 = 5.0;
