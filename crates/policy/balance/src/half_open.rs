//! Half-open state of a circuit breaker: decides when a node that takes no new calls gets one new call as a trial
//! request. The trial shows whether the node works again.

use base::Instant;
use core::time::Duration;

/// Time from the first trial, which may come at once, to the second. The caller of an unanswered trial has to
/// retransmit its request (after T1 of RFC 3261 §17.1.1.2, half a second), which then goes to another node. So trials
/// are rare, and each wait is twice as long as the wait before.
const FIRST: Duration = Duration::from_secs(5);
/// The longest time between two trials.
const LONGEST: Duration = Duration::from_mins(1);

/// Trial requests of a shard to one half-open node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HalfOpen {
    /// Start of the node's absence to which the last trial belongs.
    of: Instant,
    /// Time from the last trial to the next.
    wait: Duration,
    next: Instant,
}

impl HalfOpen {
    /// Whether a node that has been away since `since` may get a trial request now.
    pub(crate) fn is_due(&self, now: Instant, since: Instant) -> bool {
        !self.belongs_to(since) || now >= self.next
    }

    /// Records a trial request. Each of `shards` shards sends its own trials.
    pub(crate) fn begin(&mut self, now: Instant, since: Instant, shards: u32) {
        self.wait = if self.belongs_to(since) { (self.wait * 2).min(LONGEST) } else { FIRST };
        (self.of, self.next) = (since, now + self.wait * shards);
    }

    fn belongs_to(&self, since: Instant) -> bool {
        self.of == since && self.next > Instant::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_come_at_once_after_5_s_and_at_doubling_intervals_up_to_a_minute() {
        let mut half_open = HalfOpen::default();
        let since = Instant::from_millis(1_000);
        let mut begun = Vec::new();
        for second in 0..200 {
            let now = since + Duration::from_secs(second);
            if half_open.is_due(now, since) {
                begun.push(second);
                half_open.begin(now, since, 1);
            }
        }
        assert_eq!(begun, [0, 5, 15, 35, 75, 135, 195]);
        let later = since + Duration::from_secs(500);
        assert!(half_open.is_due(later, later), "the node came back and went away again");
    }
}
