//! 503 with Retry-After, on both sides: on/off control (Overload paper, V-C).

use crate::local::Controller;
use crate::local::bang_bang::{self, Hysteresis};
use crate::signal::HostLoad;
use crate::{AdmissionVerdict, MessageClass};
use base::{Instant, Rng};
use core::time::Duration;

/// Settings of a server that sends 503 with Retry-After.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryAfterSettings {
    /// Watermarks at which the server starts and stops to refuse.
    pub watermarks: bang_bang::BangBangSettings,
    /// Pause for which the server asks. The header field has whole seconds.
    pub pause: Duration,
}

impl Default for RetryAfterSettings {
    /// 800, 600 and 10 s (Overload paper, IV-A and V-C).
    fn default() -> Self {
        Self { watermarks: bang_bang::BangBangSettings::default(), pause: Duration::from_secs(10) }
    }
}

/// Server side: above the high watermark every new request gets a 503 with Retry-After, until the queue is below the
/// low watermark.
#[derive(Clone, Debug)]
pub struct RetryAfter {
    state: Hysteresis,
    pause: Duration,
}

impl RetryAfter {
    /// Creates a controller that accepts everything at first.
    pub const fn new(settings: RetryAfterSettings) -> Self {
        Self { state: Hysteresis::new(settings.watermarks), pause: settings.pause }
    }
}

impl Controller for RetryAfter {
    fn name(&self) -> &'static str {
        "retry-after"
    }

    fn judge(&mut self, _: Instant, class: MessageClass, _: &HostLoad, _: &mut Rng) -> AdmissionVerdict {
        if self.state.rejects(class) {
            AdmissionVerdict::Reject { retry_after: Some(self.pause) }
        } else {
            AdmissionVerdict::Accept
        }
    }

    fn on_queue(&mut self, queue: usize) {
        self.state.on_queue(queue);
    }

    fn acceptance(&self, _: &HostLoad) -> f64 {
        self.state.acceptance()
    }
}

/// Meaning of a 503 with Retry-After that comes during a pause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum During {
    /// The pause lasts until the later of the two ends: each 503 requests its own duration (RFC 3261 §21.5.4).
    #[default]
    Prolong,
    /// No change, since the 503 answers a request from before the pause (Overload paper, III-A: "for the specified
    /// amount of time and starts again after this time is over").
    Ignore,
}

/// Client side, one for each downstream neighbour: sends no requests for the requested time (RFC 3261 §21.5.4).
#[derive(Clone, Copy, Default, Debug)]
pub struct Backoff {
    until: Instant,
}

impl Backoff {
    /// Handles a 503 of the neighbour. Without Retry-After the 503 concerns only its request.
    pub fn on_503(&mut self, now: Instant, retry_after: Option<Duration>, during: During) {
        if let Some(pause) = retry_after
            && (during == During::Prolong || self.is_open(now))
        {
            self.until = self.until.max(now + pause);
        }
    }

    /// Whether a request may be sent to the neighbour.
    pub fn is_open(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// End of the pause; a time in the past if there is no pause.
    pub const fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_requested_between_the_watermarks() {
        let mut law = RetryAfter::new(RetryAfterSettings::default());
        let mut rng = Rng::from_seed(1);
        let mut at = |queue| {
            law.on_queue(queue);
            law.judge(Instant::ZERO, MessageClass::NewInvite, &HostLoad::default(), &mut rng)
        };
        let pause = AdmissionVerdict::Reject { retry_after: Some(Duration::from_secs(10)) };
        assert_eq!(
            [800, 801, 600, 599].map(&mut at),
            [AdmissionVerdict::Accept, pause, pause, AdmissionVerdict::Accept]
        );
    }

    #[test]
    fn a_neighbour_pauses_for_the_requested_time_only() {
        let mut backoff = Backoff::default();
        let prolong = During::Prolong;
        assert!(backoff.is_open(Instant::ZERO));
        backoff.on_503(Instant::from_millis(100), None, prolong);
        assert!(backoff.is_open(Instant::from_millis(100)));
        backoff.on_503(Instant::from_millis(100), Some(Duration::from_secs(10)), prolong);
        backoff.on_503(Instant::from_millis(200), Some(Duration::from_secs(1)), prolong);
        assert!(!backoff.is_open(Instant::from_millis(10_099)));
        assert!(backoff.is_open(Instant::from_millis(10_100)));
        assert_eq!(backoff.until(), Instant::from_millis(10_100));
    }

    #[test]
    fn a_second_503_prolongs_the_pause_or_is_ignored() {
        let pause = Some(Duration::from_secs(10));
        let ends = [During::Prolong, During::Ignore].map(|during| {
            let mut backoff = Backoff::default();
            backoff.on_503(Instant::from_millis(1_000), pause, during);
            backoff.on_503(Instant::from_millis(4_000), pause, during);
            let first = backoff.until();
            backoff.on_503(Instant::from_millis(20_000), pause, during);
            (first, backoff.until())
        });
        assert_eq!(ends.map(|end| end.0), [14_000, 11_000].map(Instant::from_millis));
        assert_eq!(ends.map(|end| end.1), [Instant::from_millis(30_000); 2]);
    }
}
