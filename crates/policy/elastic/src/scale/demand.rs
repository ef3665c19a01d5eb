//! Rate of arrivals: smoothed, extrapolated, and its recent maximum.

use base::Instant;
use core::time::Duration;
use std::collections::VecDeque;

/// Time constant of the slow average as a multiple of the fast one's. Their difference is the recent rise of the rate.
const SLOWER: f64 = 6.0;

/// Standard deviations by which a rise must exceed chance.
const CHANCE: f64 = 2.0;

#[derive(Debug, Clone)]
pub(super) struct Demand {
    started: Option<Instant>,
    at: Instant,
    fast: f64,
    slow: f64,
    /// Largest recent rates by time: each entry is larger than all later ones.
    peaks: VecDeque<(Instant, f64)>,
}

impl Demand {
    pub(super) fn new() -> Self {
        Self { started: None, at: Instant::ZERO, fast: 0.0, slow: 0.0, peaks: VecDeque::new() }
    }

    pub(super) fn on_rate(&mut self, now: Instant, rate: f64, smoothing: Duration, window: Duration) {
        if self.started.is_none() {
            (self.started, self.fast, self.slow) = (Some(now), rate, rate);
        }
        let (since, over) = ((now - self.at).as_secs_f64(), smoothing.as_secs_f64().max(f64::MIN_POSITIVE));
        self.at = now;
        self.fast += (rate - self.fast) * (1.0 - (-since / over).exp());
        self.slow += (rate - self.slow) * (1.0 - (-since / (over * SLOWER)).exp());
        while self.peaks.back().is_some_and(|(_, peak)| *peak <= self.fast) {
            self.peaks.pop_back();
        }
        self.peaks.push_back((now, self.fast));
        while self.peaks.front().is_some_and(|(at, _)| now - *at > window) {
            self.peaks.pop_front();
        }
    }

    /// Smoothed rate.
    pub(super) fn rate(&self) -> f64 {
        self.fast
    }

    /// Rate after the time `ahead` if it keeps rising at the present speed; not below the present rate, nor above
    /// `most` times the present rate.
    pub(super) fn ahead(&self, ahead: Duration, smoothing: Duration, most: f64) -> f64 {
        let over = smoothing.as_secs_f64().max(f64::MIN_POSITIVE);
        // Standard deviation of an average over `over` of a Poisson stream.
        let chance = CHANCE * (self.slow.max(0.0) / (2.0 * over)).sqrt();
        let risen = (self.fast - self.slow - chance).max(0.0);
        let slope = risen / (over * (SLOWER - 1.0));
        (self.fast + slope * ahead.as_secs_f64()).min(self.fast * most.max(1.0))
    }

    /// Largest smoothed rate of the window; `None` until the rate was observed for that long.
    pub(super) fn peak(&self, window: Duration) -> Option<f64> {
        let watched = self.started.is_some_and(|started| self.at - started >= window);
        self.peaks.front().filter(|_| watched).map(|(_, peak)| *peak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMOOTHING: Duration = Duration::from_secs(10);
    const WINDOW: Duration = Duration::from_mins(1);

    #[test]
    fn a_ramp_is_followed_ahead_and_noise_is_not() {
        let mut demand = Demand::new();
        let mut now = Instant::ZERO;
        for second in 0..600 {
            now += Duration::from_secs(1);
            demand.on_rate(now, 200.0 + f64::from(second), SMOOTHING, WINDOW);
        }
        // 799 less the lag of 10 s, plus 100 calls/s in 100 s, less the deviation of chance.
        let ahead = demand.ahead(Duration::from_secs(100), SMOOTHING, 1.5);
        assert!((865.0..890.0).contains(&ahead), "{ahead}");
        assert!(
            (demand.ahead(Duration::from_secs(1_000), SMOOTHING, 1.1) - demand.rate() * 1.1).abs() < 1e-9
        );
        let mut demand = Demand::new();
        for second in 0..600 {
            now += Duration::from_secs(1);
            demand.on_rate(now, if second % 2 == 0 { 190.0 } else { 210.0 }, SMOOTHING, WINDOW);
        }
        assert!((demand.ahead(Duration::from_secs(100), SMOOTHING, 1.5) - demand.rate()).abs() < 1e-9);
    }

    #[test]
    fn the_peak_is_that_of_the_window() {
        let mut demand = Demand::new();
        let mut peaks = Vec::new();
        for second in 0..200_u64 {
            let rate = if second < 30 { 100.0 } else { 50.0 };
            demand.on_rate(Instant::from_millis(second * 1_000), rate, Duration::from_millis(1), WINDOW);
            peaks.push(demand.peak(WINDOW));
        }
        assert_eq!(
            (peaks[59], peaks[60], peaks[89], peaks[90]),
            (None, Some(100.0), Some(100.0), Some(50.0))
        );
    }
}
