//! Creation of a policy by its kind.

use super::{Cjsq, FnvHash, Hash, Policy, PolicyKind, RoundRobin, Rwma, Tjsq, Tlwl};

impl PolicyKind {
    /// Creates the policy. Policies with turns start at slot `start`.
    pub fn make(self, start: usize) -> Box<dyn Policy> {
        match self {
            Self::RoundRobin => Box::new(RoundRobin::new(start)),
            Self::Hash => Box::new(Hash),
            Self::FnvHash => Box::new(FnvHash),
            Self::Cjsq => Box::new(Cjsq::new(start)),
            Self::Tjsq => Box::new(Tjsq::new(start)),
            Self::Tlwl => Box::new(Tlwl::new(start)),
            Self::Rwma => Box::new(Rwma::new(start)),
        }
    }
}
