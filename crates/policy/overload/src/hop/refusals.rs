//! When a client asks a server again that refuses what its window allows.

use base::Instant;
use core::time::Duration;

/// When a server that refuses what its window would let in is asked again.
///
/// A window is clocked by confirmations, and bounds the load because each tells of work that is done (RFC 6357 §9.3).
/// A refusal tells of none, and comes at once: were it to free its place, a window of one would send as fast as the
/// server can refuse. Refusing then takes all of its time, its queue never empties, and it refuses the more. So a
/// refusal closes the window for a while, twice as long each time until something is taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    in_a_row: u32,
    open_at: Instant,
}

/// T1/32 = 16 ms: less than a queue at its target takes to empty, so a refusal by chance costs nothing.
const PAUSE_FIRST: Duration = Duration::from_micros(15_625);
/// 1 s: half of the least validity, or the limit would end in the pause and everything be sent.
const PAUSE_DOUBLINGS: u32 = 6;

impl Refusals {
    pub(super) fn on_refused(&mut self, now: Instant) {
        // What was sent before the pause and comes back in it says nothing new.
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

    /// When one is asked who refuses everything, with 10 requests under way at a time.
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
