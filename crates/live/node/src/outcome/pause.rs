//! For how long a node that answered 503 gets no new calls.

use core::time::Duration;
use wire::Message;

/// How long a node pauses that answered 503 without Retry-After.
const WITHOUT_RETRY_AFTER: Duration = Duration::from_secs(2);

/// For how long a node gets no new calls that answered a call or a probe with 503 (RFC 3261 §21.5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// From the answer on, as the node has it.
    pub length: Duration,
    /// Whether it named the time itself (Retry-After).
    pub asked: bool,
}

impl Pause {
    /// The pause that this response stands for; `None` if it is no 503.
    pub fn asked_by(response: &Message<'_>) -> Option<Self> {
        response.status().filter(|&status| status == 503)?;
        let asked = response.retry_after().map(|seconds| Duration::from_secs(seconds.into()));
        Some(Self { length: asked.unwrap_or(WITHOUT_RETRY_AFTER), asked: asked.is_some() })
    }
}
