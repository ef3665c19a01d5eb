//! How a policy is made.

use super::{Cjsq, FnvHash, Hash, Policy, PolicyKind, RoundRobin, Rwma, Tjsq, Tlwl};

impl PolicyKind {
    /// The policy; `start` is the slot with which those begin that take turns.
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
