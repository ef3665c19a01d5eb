//! Input and output of a guard: paths of requests, rejections, results and feedback.

use crate::AdmissionVerdict;
use crate::end_to_end::{DownstreamPath, TargetReport};
use crate::hop::{Feedback, RequestOutcome};

/// Path of a request through this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestPath<N> {
    /// The neighbour that sent it; `None` if the sender is not a server. User agents have no own share of the capacity.
    pub from: Option<N>,
    /// Whether the sender follows this host's feedback, and so rejects in its place. The Via of such a sender says so
    /// (RFC 7339 §4.1); the Via of a user agent does not (Overload paper, III-B).
    pub takes_feedback: bool,
    /// The neighbour that it goes to; `None` if the next hop is not a server.
    pub to: Option<N>,
    /// Remaining path, if feedback travels the whole path.
    pub path: Option<DownstreamPath>,
    /// Whether earlier hosts of a chain that shares out its work have already worked on the request.
    pub is_onward: bool,
}

/// Response to a request that is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// Status of the response.
    pub status: u16,
    /// Retry-After in seconds; 0 for none.
    pub retry_after: u16,
}

impl Rejection {
    /// The only next hop has asked for a pause, so there is no destination (Overload paper, V-C).
    pub const NO_NEXT_HOP: Self = Self { status: 500, retry_after: 0 };

    pub(super) fn of(verdict: AdmissionVerdict) -> Result<(), Self> {
        match verdict {
            AdmissionVerdict::Accept => Ok(()),
            AdmissionVerdict::Reject { retry_after } => {
                let seconds = retry_after.map_or(0, |pause| pause.as_secs());
                Err(Self { status: 503, retry_after: seconds.try_into().unwrap_or(u16::MAX) })
            }
        }
    }
}

/// Result of a new request at a next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled<N> {
    /// Neighbour that sent the request; `None` as in [`RequestPath`].
    pub from: Option<N>,
    /// Neighbour that got the request; `None` as in [`RequestPath`].
    pub to: Option<N>,
    /// Result.
    pub outcome: RequestOutcome,
    /// Whether no alternate next hop is tried afterwards.
    pub is_last: bool,
}

/// Feedback in a response to an upstream neighbour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum UpstreamFeedback {
    /// Hop-by-hop feedback of this host.
    Hop(Feedback),
    /// Report about the path to a target.
    Target(TargetReport),
}
