//! Pauses of a client after refusals of a server within its window.

use base::Instant;
use core::time::Duration;

/// Pauses after refusals: decides when a server that refuses requests within its window gets the next one.
///
/// A window is clocked by confirmations, and bounds the load because each confirms finished work (RFC 6357 §9.3). A
/// refusal confirms none, and comes at once. If a refusal freed its place, a window of one would send as fast as the
/// server can refuse. Refusing would then take all of the server's time, its queue would never empty, and it would
/// refuse more. So a refusal closes the window for a while, twice as long each time until a request is accepted.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    in_a_row: u32,
    open_at: Instant,
}

/// T1/32 = 16 ms: less than the time to empty a queue of target length, so a single refusal by chance costs nothing.
const PAUSE_FIRST: Duration = Duration::from_micros(15_625);
/// Up to 1 s: half of the smallest validity. Otherwise the limit would expire in the pause, and all requests be sent.
const PAUSE_DOUBLINGS: u32 = 6;

impl Refusals {
    pub(super) fn on_refused(&mut self, now: Instant) {
        // Refusals of requests sent before the pause say nothing new.
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
    fn a_server_that_refuses_everything_is_asked_ever_less_often_until_it_takes_something() {
        let mut refusals = Refusals::default();
        assert_eq!(asked(&mut refusals, 0, 4_000), [0, 16, 48, 111, 236, 486, 986, 1_986, 2_986, 3_986]);
        assert!(!refusals.is_open(Instant::from_millis(4_985)));
        refusals.on_answered();
        assert_eq!(asked(&mut refusals, 4_986, 5_010), [4_986, 5_002]);
    }
}
