//! Names of the policies.

use core::fmt;

/// A policy, by its name in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyKind {
    /// Members in turn.
    RoundRobin,
    /// By Call-ID; moves the fewest calls when a member leaves.
    Hash,
    /// By FNV hash of the Call-ID, modulo the number of members.
    FnvHash,
    /// Call-join-shortest-queue.
    Cjsq,
    /// Transaction-join-shortest-queue.
    Tjsq,
    /// Transaction-least-work-left; see [`crate::Weights`].
    #[default]
    Tlwl,
    /// Response-time weighted moving average.
    Rwma,
}

impl PolicyKind {
    /// All policies.
    pub const ALL: [Self; 7] =
        [Self::RoundRobin, Self::Hash, Self::FnvHash, Self::Cjsq, Self::Tjsq, Self::Tlwl, Self::Rwma];

    /// Name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Hash => "hash",
            Self::FnvHash => "fnv-hash",
            Self::Cjsq => "cjsq",
            Self::Tjsq => "tjsq",
            Self::Tlwl => "tlwl",
            Self::Rwma => "rwma",
        }
    }

    /// Whether the policy depends only on the Call-ID, and so finds the same node again without a session.
    pub const fn is_by_call(self) -> bool {
        matches!(self, Self::Hash | Self::FnvHash)
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
