//! Settings of calls.

use core::time::Duration;

/// Limits of the duration and the number of calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallSettings {
    /// Maximum number of calls that are being set up or active; further calls are refused.
    pub most: usize,
    /// Longest duration of a call. Then the proxy sends a BYE to both sides. `None`: no limit.
    pub longest: Option<Duration>,
    /// Time without any message after which a call counts as lost: its BYE probably did not pass the proxy.
    pub silence: Duration,
    /// Whether a record is written when a call is answered ([`RecordEvent::Answered`](crate::RecordEvent::Answered)).
    pub record_answers: bool,
}

impl Default for CallSettings {
    fn default() -> Self {
        Self { most: 200_000, longest: None, silence: Duration::from_hours(24), record_answers: false }
    }
}
