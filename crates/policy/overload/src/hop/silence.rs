//! Handling of a server that does not answer (RFC 7339 §5.9).

use crate::T1;
use base::Instant;
use core::time::Duration;

/// State of a client towards a server that no longer answers (RFC 7339 §5.9). The client stops sending, and probes with
/// one request at a time at growing intervals, until a response comes. A collapsed server cannot send feedback.
#[derive(Clone, Debug, Default)]
pub(super) struct Silence {
    timeouts: u32,
    probes: u32,
    probe_at: Instant,
}

/// Number of successive time-outs that count as "repeated".
const REPEATED: u32 = 3;
const PROBE_FIRST: Duration = Duration::from_secs(1);
/// Most doublings of the interval: up to 32 s = 64*T1, after which the last probe has timed out.
const PROBE_DOUBLINGS: u32 = 5;

impl Silence {
    /// Counts a request that timed out. Once the server counts as silent, further time-outs of earlier requests do not
    /// count.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.timeouts < REPEATED {
            self.timeouts += 1;
            self.probe_at = now + PROBE_FIRST;
        }
    }

    pub(super) fn on_response(&mut self) {
        (self.timeouts, self.probes) = (0, 0);
    }

    /// Whether the server no longer answers.
    pub(super) fn is_silent(&self) -> bool {
        self.timeouts >= REPEATED
    }

    /// Whether there is no state to keep: the server answers, or no request was sent for a time-out (64*T1) after a
    /// probe was due.
    pub(super) fn is_at_rest(&self, now: Instant) -> bool {
        self.timeouts == 0 || now >= self.probe_at + T1 * 64
    }

    /// Whether a request may be sent. If the server is silent, this request is the probe.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        if self.timeouts < REPEATED {
            return true;
        }
        let probe = now >= self.probe_at;
        if probe {
            self.probes = (self.probes + 1).min(PROBE_DOUBLINGS);
            self.probe_at = now + PROBE_FIRST * 2_u32.pow(self.probes);
        }
        probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_probed_ever_less_often_until_it_answers() {
        let mut silence = Silence::default();
        let at = Instant::from_millis;
        (0..2).for_each(|_| silence.on_timeout(at(0)));
        assert!(silence.admit(at(0)));
        silence.on_timeout(at(0));
        // Many requests were under way when the server became silent.
        (0..100).for_each(|_| silence.on_timeout(at(0)));
        let mut probes = Vec::new();
        for ms in (0..100_000).step_by(500) {
            if silence.admit(at(ms)) {
                probes.push(ms);
                silence.on_timeout(at(ms));
            }
        }
        assert_eq!(probes, [1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 95_000]);
        // The last probe was at 95 s, the next would be at 127 s.
        assert!(!silence.is_at_rest(at(158_999)) && silence.is_at_rest(at(159_000)));
        silence.on_response();
        assert!(silence.is_at_rest(at(100_000)));
        assert!(silence.admit(at(100_000)) && silence.admit(at(100_000)));
    }
}
