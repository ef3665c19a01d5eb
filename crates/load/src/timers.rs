use base::Instant;
use core::time::Duration;

/// The timer values of RFC 3261 §17.1.1.1 that everything else derives from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timers {
    /// Estimate of the round-trip time: the first retransmission comes after it.
    pub t1: Duration,
    /// Longest interval between retransmissions of anything but an INVITE.
    pub t2: Duration,
}

impl Default for Timers {
    /// 500 ms and 4 s.
    fn default() -> Self {
        Self { t1: Duration::from_millis(500), t2: Duration::from_secs(4) }
    }
}

impl Timers {
    /// 64*T1: timers B, F, H, J and L, and the least that D may be.
    pub(crate) fn life(self) -> Duration {
        self.t1 * 64
    }
}

/// The retransmission schedule of one message: at T1, then at doubling intervals, given up after 64*T1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resend {
    at: Instant,
    interval: Duration,
    give_up: Instant,
}

impl Resend {
    /// The schedule of a message sent at `now`.
    pub(crate) fn new(now: Instant, timers: Timers) -> Self {
        Self { at: now + timers.t1, interval: timers.t1, give_up: now + timers.life() }
    }

    /// When [`due`](Self::due) has something to say.
    pub(crate) fn deadline(&self) -> Instant {
        self.at.min(self.give_up)
    }

    /// Whether to give up (`Some(false)`), to send again (`Some(true)`, the next interval doubled up to
    /// `interval_max`), or to wait (`None`).
    pub(crate) fn due(&mut self, now: Instant, interval_max: Duration) -> Option<bool> {
        if now >= self.give_up {
            return Some(false);
        }
        if now < self.at {
            return None;
        }
        self.interval = (self.interval * 2).min(interval_max);
        self.at = now + self.interval;
        Some(true)
    }

    /// Sends no more, and still gives up in the end.
    pub(crate) fn pause(&mut self) {
        self.at = self.give_up;
    }

    /// Goes on at this interval.
    pub(crate) fn slow_down(&mut self, now: Instant, interval: Duration) {
        self.interval = interval;
        self.at = now + interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which a message is sent again, and given up.
    fn schedule(interval_max: Duration) -> Vec<f64> {
        let mut resend = Resend::new(Instant::ZERO, Timers::default());
        let mut seconds = Vec::new();
        loop {
            let now = resend.deadline();
            seconds.push(now.as_secs_f64());
            match resend.due(now, interval_max) {
                Some(true) => {}
                Some(false) => return seconds,
                None => unreachable!("the deadline is when something is due"),
            }
        }
    }

    #[test]
    fn intervals_double_as_timers_a_and_e_do() {
        // RFC 3261 §17.1.1.2 and §17.1.2.2, with the default values.
        assert_eq!(schedule(Duration::MAX), [0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 32.0]);
        let capped = [0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5, 32.0];
        assert_eq!(schedule(Timers::default().t2), capped);
    }
}
