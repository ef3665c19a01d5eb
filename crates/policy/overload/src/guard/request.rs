//! What a guard is told of requests, and what it says of them.

use crate::Verdict;
use crate::end_to_end::{DownstreamPath, Report};
use crate::hop::{Feedback, RequestOutcome};

/// Between which neighbours a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestPath<N> {
    /// The neighbour that sent it; none if it is no server (a user agent), so that it has no share of its own.
    pub from: Option<N>,
    /// Whether the sender keeps to the feedback of this host and so rejects in its place. Who does says so in its Via
    /// (RFC 7339 §4.1); user agents do not (Overload paper, III-B).
    pub takes_feedback: bool,
    /// The neighbour that it is to go to; none if that is no server.
    pub to: Option<N>,
    /// The rest of its way, where feedback travels the whole path.
    pub path: Option<DownstreamPath>,
    /// Whether hosts before have worked for it that share their work with this one.
    pub is_onward: bool,
}

/// How a request is answered that is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// The status of the response.
    pub status: u16,
    /// Its Retry-After in seconds; 0 is none.
    pub retry_after: u16,
}

impl Rejection {
    /// The only next hop has asked for a pause, so that there is nobody to send the request to (Overload paper, V-C).
    pub const NO_NEXT_HOP: Self = Self { status: 500, retry_after: 0 };

    pub(super) fn of(verdict: Verdict) -> Result<(), Self> {
        match verdict {
            Verdict::Accept => Ok(()),
            Verdict::Reject { retry_after } => {
                let seconds = retry_after.map_or(0, |pause| pause.as_secs());
                Err(Self { status: 503, retry_after: seconds.try_into().unwrap_or(u16::MAX) })
            }
        }
    }
}

/// A next hop has answered a new request, or never will.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled<N> {
    /// The neighbour that sent the request here; none as in [`RequestPath`].
    pub from: Option<N>,
    /// The neighbour that it went to; none as in [`RequestPath`].
    pub to: Option<N>,
    /// What that one said.
    pub outcome: RequestOutcome,
    /// Whether no alternate is tried after it.
    pub is_last: bool,
}

/// What a response tells the upstream neighbour that it goes to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Notice {
    /// What this host asks of its neighbours.
    Hop(Feedback),
    /// What the way to a target takes.
    Target(Report),
}
