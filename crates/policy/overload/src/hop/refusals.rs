//! Pauses of a client after a server has refused requests that its window allowed.

use base::Instant;
use core::time::Duration;

/// Pauses after refusals: decides when a server that refuses requests within its window gets the next one.
///
/// In a window, each confirmation lets one more request pass. This limits the load, since a confirmation means finished
/// work (RFC 6357 §9.3). A refusal means no finished work, and comes at once. If a refusal let one more request pass,
/// even a window of one would send as fast as the server can refuse. Refusals would then take all of the server's time,
/// its queue would never become empty, and it would refuse still more. So a refusal closes the window for a while, each
/// time twice as long until a request is accepted.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    in_a_row: u32,
    open_at: Instant,
}

/// First pause: T1/32 = 16 ms. This is less than the time to empty a queue of target length, so a single refusal by
/// chance has no effect.
const PAUSE_FIRST: Duration = Duration::from_micros(15_625);
/// Most doublings of the pause: up to 1 s, half of the smallest validity. With longer pauses, the limit would expire in
/// the pause, and all requests would be sent.
const PAUSE_DOUBLINGS: u32 = 6;

impl Refusals {
    pub(super) fn on_refused(&mut self, now: Instant) {
        // Refusals of requests sent before the pause do not count.
        if self.is_open(now) {
            self.open_at = now + PAUSE_FIRST * 2_u32.pow(self.in_a_row);
            self.in_a_row = (self.in_a_row + 1).min(PAUSE_DOUBLINGS);
        }
    }

    pub(super) fn on_answered(&mut self) {
        self.in_a_row = 0;
    }

    pub(super) fn is_open(&self, now: Instant) -> bool {
        now >= self.open_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times at which a server that refuses everything gets requests, 10 at a time.
    fn asked(refusals: &mut Refusals, from: u64, to: u64) -> Vec<u64> {
        (from..to)
            .filter(|ms| {
                let now = Instant::from_millis(*ms);
                let open = refusals.is_open(now);
                if open {
                    (0..10).for_each(|_| refusals.on_refused(now));
                }
                open
            })
            .collect()
    }

    #[test]
    fn a_server_that_refuses_everything_gets_requests_ever_less_often_until_it_accepts_one() {
        let mut refusals = Refusals::default();
        assert_eq!(asked(&mut refusals, 0, 4_000), [0, 16, 48, 111, 236, 486, 986, 1_986, 2_986, 3_986]);
        assert!(!refusals.is_open(Instant::from_millis(4_985)));
        refusals.on_answered();
        assert_eq!(asked(&mut refusals, 4_986, 5_010), [4_986, 5_002]);
    }
}
