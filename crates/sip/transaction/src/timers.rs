//! Timer values of transactions (RFC 3261 table 4).

use crate::machine::Timer;
use core::time::Duration;

/// Timer values. They are an argument of the layer, never global.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timers {
    /// Estimate of the round-trip time; also the interval before the first retransmission.
    pub t1: Duration,
    /// Longest interval between retransmissions of a non-INVITE request or of a response to INVITE.
    pub t2: Duration,
    /// Longest time that a message stays in the network.
    pub t4: Duration,
    /// Minimum of timer D. Over an unreliable transport, a client keeps the ACK to a failure for at least this time, to
    /// send it again.
    pub d_min: Duration,
    /// Time without any response after which an INVITE gets a 100.
    pub trying: Duration,
}

impl Default for Timers {
    /// RFC 3261 table 4: T1 500 ms, T2 4 s, T4 5 s, timer D 32 s; §17.2.1: 200 ms.
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            d_min: Duration::from_secs(32),
            trying: Duration::from_millis(200),
        }
    }
}

impl Timers {
    /// Duration of a timer when it is first started.
    ///
    /// Timers that are zero over a reliable transport (D, I, J, K) are not started there.
    pub fn value(&self, timer: Timer) -> Duration {
        match timer {
            // [17.1.1.2-3] [17.1.2.2-3]
            Timer::A | Timer::E | Timer::G => self.t1,
            // [17.1.1.2-5] [17.1.2.2-1] [17.2.1-10] [17.2.2-8] [17.2.1-17] [17.1.1.2-21] [9.1-7]
            Timer::B
            | Timer::F
            | Timer::H
            | Timer::J
            | Timer::L
            | Timer::M
            | Timer::Cancel
            | Timer::Expire => self.t1 * 64,
            // [17.1.1.2-19] The peer's T1 is unknown, so there is an absolute minimum. 64 times our own T1 applies if
            // it is longer.
            Timer::D => self.d_min.max(self.t1 * 64),
            // [17.1.2.2-13]
            Timer::I | Timer::K => self.t4,
            Timer::TryingInvite => self.trying,
            Timer::TryingNonInvite => self.e_reaches_t2(),
        }
    }

    /// Time until a client's timer E is reset to T2, computed with our own T1 and T2: 3.5 s by default.
    fn e_reaches_t2(&self) -> Duration {
        let (mut interval, mut passed) = (self.t1, Duration::ZERO);
        while interval < self.t2 && !interval.is_zero() {
            passed += interval;
            interval *= 2;
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_100_to_a_non_invite_is_due_when_timer_e_has_come_to_t2() {
        // 0.5 + 1 + 2 s.
        assert_eq!(Timers::default().value(Timer::TryingNonInvite), Duration::from_millis(3_500));
        let still = Timers { t1: Duration::ZERO, ..Timers::default() };
        assert_eq!(still.value(Timer::TryingNonInvite), Duration::ZERO);
    }

    #[test]
    fn timer_d_is_at_least_32_seconds() {
        // [17.1.1.2-19]
        let quick = Timers { t1: Duration::from_millis(10), ..Timers::default() };
        assert_eq!(quick.value(Timer::D), Duration::from_secs(32));
        let slow = Timers { t1: Duration::from_secs(1), ..Timers::default() };
        assert_eq!(slow.value(Timer::D), Duration::from_secs(64));
    }
}
