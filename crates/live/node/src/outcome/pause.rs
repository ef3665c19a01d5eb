//! Time without new calls after a node answered 503.

use core::time::Duration;
use wire::Message;

/// Pause after a 503 without Retry-After.
const WITHOUT_RETRY_AFTER: Duration = Duration::from_secs(2);

/// Time without new calls after a node answered a call or a probe with 503 (RFC 3261 §21.5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Length of the pause, from the response on.
    pub length: Duration,
    /// Whether the node gave the time itself (Retry-After).
    pub asked: bool,
}

impl Pause {
    /// Returns the pause that this response asks for; `None` if it is no 503.
    pub fn asked_by(response: &Message<'_>) -> Option<Self> {
        response.status().filter(|&status| status == 503)?;
        let asked = response.retry_after().map(|seconds| Duration::from_secs(seconds.into()));
        Some(Self { length: asked.unwrap_or(WITHOUT_RETRY_AFTER), asked: asked.is_some() })
    }
}
