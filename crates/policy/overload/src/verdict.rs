//! What becomes of a request at an overloaded host.

use core::time::Duration;

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is taken.
    Accept,
    /// It is answered with a 503 here and now.
    Reject {
        /// The Retry-After of that 503. Without one the 503 speaks of this request alone (Overload paper, III-A).
        retry_after: Option<Duration>,
    },
}

impl Verdict {
    /// A rejection of this request alone: a 503 without Retry-After.
    pub const REJECT: Self = Self::Reject { retry_after: None };

    /// Whether the request is taken.
    pub const fn is_accept(self) -> bool {
        matches!(self, Self::Accept)
    }

    pub(crate) const fn accept_if(accepted: bool) -> Self {
        if accepted { Self::Accept } else { Self::REJECT }
    }
}

/// When a host asks its local controller (Overload paper, VI-A).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RejectAt {
    /// Before the request enters the queue ("early"): what is rejected never waits behind what is accepted.
    #[default]
    Arrival,
    /// When the request leaves the queue ("late").
    Service,
}

/// How a host answers a request that it rejects (Overload paper, VI-A).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RejectState {
    /// No transaction is looked up or made; cheapest, and the ACK that comes back is absorbed by its branch.
    #[default]
    Stateless,
    /// Through a server transaction, as any other final response.
    Stateful,
}
