//! Order in which an overloaded host serves its queue, and rejection of messages that waited too long.

use crate::{MessageClass, T1};
use core::time::Duration;

/// Rules of a triage queue; the host owns the queue. The queue has the lanes of [`MessageClass::lane`], each in order
/// of arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Triage {
    /// Wait after which the INVITE of a new call is rejected and not served. At T1 its sender retransmits it, so
    /// accepting it only lengthens the queue.
    pub reject_after: Duration,
    /// Wait after which a new request is dropped: its sender has given up (Timer B or F, 64*T1, RFC 3261 §17.1.1.2) and
    /// ignores any response.
    pub drop_after: Duration,
}

impl Default for Triage {
    /// T1 and 64*T1.
    fn default() -> Self {
        Self { reject_after: T1, drop_after: T1 * 64 }
    }
}

/// Decision about a message that leaves the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TriageDecision {
    /// Serve it.
    Serve,
    /// Answer it with a 503.
    Reject,
    /// Drop it without a response.
    Drop,
}

impl Triage {
    /// Decision about a message that waited for `age`.
    pub fn decision(&self, class: MessageClass, age: Duration) -> TriageDecision {
        match class {
            _ if !class.is_new() => TriageDecision::Serve,
            _ if age >= self.drop_after => TriageDecision::Drop,
            MessageClass::NewInvite | MessageClass::Probe if age >= self.reject_after => {
                TriageDecision::Reject
            }
            // A late emergency call is better than a refused one, and so is a late registration.
            _ => TriageDecision::Serve,
        }
    }

    /// Whether a copy of a queued message (same transaction, same method or status) may be dropped: the response to the
    /// first message answers both. Two firings of a timer are two events, not copies.
    pub const fn coalesces(class: MessageClass) -> bool {
        !matches!(class, MessageClass::Timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_requests_are_rejected_or_dropped_for_their_age() {
        let triage = Triage::default();
        let at = |class, millis| triage.decision(class, Duration::from_millis(millis));
        assert_eq!(at(MessageClass::NewInvite, 499), TriageDecision::Serve);
        assert_eq!(at(MessageClass::NewInvite, 500), TriageDecision::Reject);
        for class in [MessageClass::Priority, MessageClass::NewOther] {
            assert_eq!(at(class, 31_999), TriageDecision::Serve);
        }
        for class in [MessageClass::NewInvite, MessageClass::NewOther, MessageClass::Priority] {
            assert_eq!(at(class, 32_000), TriageDecision::Drop);
        }
        for class in [
            MessageClass::Timer,
            MessageClass::Response,
            MessageClass::Closing,
            MessageClass::InDialog,
            MessageClass::Repeat,
        ] {
            assert_eq!(at(class, 99_000), TriageDecision::Serve);
        }
        assert!(Triage::coalesces(MessageClass::Repeat) && !Triage::coalesces(MessageClass::Timer));
    }
}
