//! Decision about a request at an overloaded host.

use core::time::Duration;

/// Decision about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionVerdict {
    /// The request is accepted.
    Accept,
    /// The request is answered with a 503 now.
    Reject {
        /// Retry-After of the 503. Without Retry-After the 503 concerns only this request (Overload paper, III-A).
        retry_after: Option<Duration>,
    },
}

impl AdmissionVerdict {
    /// A rejection that concerns only this request: a 503 without Retry-After.
    pub const REJECT: Self = Self::Reject { retry_after: None };

    /// Whether the request is accepted.
    pub const fn is_accept(self) -> bool {
        matches!(self, Self::Accept)
    }

    pub(crate) const fn accept_if(accepted: bool) -> Self {
        if accepted { Self::Accept } else { Self::REJECT }
    }
}

/// Time at which a host consults its local controller (Overload paper, VI-A).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RejectAt {
    /// Before the request enters the queue ("early"): rejected requests never wait behind accepted ones.
    #[default]
    Arrival,
    /// When the request leaves the queue ("late").
    Service,
}

/// Form of a rejection (Overload paper, VI-A).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RejectState {
    /// Without a transaction, which takes the least work. The ACK to the rejection is recognised by its branch.
    #[default]
    Stateless,
    /// Through a server transaction, like any other final response.
    Stateful,
}
