//! The order in which an overloaded host serves what waits, and what it rejects instead.

use crate::{MessageClass, T1};
use core::time::Duration;

/// The rules of a triage queue; the queue itself is the host's. Lanes are [`MessageClass::lane`], first come first
/// served within a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Triage {
    /// A new request that waited this long is rejected instead of served. At T1 its sender sends it again, and
    /// all that was gained by taking it is a longer queue.
    pub reject_after: Duration,
    /// A new request that waited this long is dropped: its sender has given up (Timer B or F, 64*T1, RFC 3261
    /// §17.1.1.2), so that nobody reads an answer.
    pub drop_after: Duration,
}

impl Default for Triage {
    /// T1 and 64*T1.
    fn default() -> Self {
        Self { reject_after: T1, drop_after: T1 * 64 }
    }
}

/// What to do with a message that leaves the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Serve it.
    Serve,
    /// Answer it with a 503.
    Reject,
    /// Forget it.
    Drop,
}

impl Triage {
    /// What becomes of a message that waited for `age`.
    pub fn fate(&self, class: MessageClass, age: Duration) -> Fate {
        match class {
            _ if !class.is_new() => Fate::Serve,
            _ if age >= self.drop_after => Fate::Drop,
            // An emergency call is late rather than refused.
            MessageClass::Priority => Fate::Serve,
            _ if age >= self.reject_after => Fate::Reject,
            _ => Fate::Serve,
        }
    }

    /// Whether a copy of a message that is still queued (same transaction, same method or status) can be
    /// dropped: the first one's answer answers both. Two firings of a timer are two events, not copies.
    pub const fn coalesces(class: MessageClass) -> bool {
        !matches!(class, MessageClass::Timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_requests_grow_stale() {
        let triage = Triage::default();
        let at = |class, millis| triage.fate(class, Duration::from_millis(millis));
        assert_eq!(at(MessageClass::NewInvite, 499), Fate::Serve);
        assert_eq!(at(MessageClass::NewInvite, 500), Fate::Reject);
        assert_eq!(at(MessageClass::Priority, 500), Fate::Serve);
        for class in [MessageClass::NewInvite, MessageClass::NewOther, MessageClass::Priority] {
            assert_eq!(at(class, 32_000), Fate::Drop);
        }
        for class in [
            MessageClass::Timer,
            MessageClass::Response,
            MessageClass::Closing,
            MessageClass::InDialog,
            MessageClass::Repeat,
        ] {
            assert_eq!(at(class, 99_000), Fate::Serve);
        }
        assert!(Triage::coalesces(MessageClass::Repeat) && !Triage::coalesces(MessageClass::Timer));
    }
}
