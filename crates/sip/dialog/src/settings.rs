//! What the calls go by.

use core::time::Duration;

/// How long calls may take, and how many there may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallSettings {
    /// Most calls at a time that are set up or go on; what would be one more is refused.
    pub most: usize,
    /// Longest call: then both sides are sent a BYE. `None`: as long as they please.
    pub longest: Option<Duration>,
    /// A call of which nothing is heard for so long has been lost: its BYE never came by.
    pub silence: Duration,
    /// Whether a call that is answered is told of ([`RecordEvent::Answered`](crate::RecordEvent::Answered)), too.
    pub tell_answers: bool,
}

impl Default for CallSettings {
    fn default() -> Self {
        Self { most: 200_000, longest: None, silence: Duration::from_hours(24), tell_answers: false }
    }
}
