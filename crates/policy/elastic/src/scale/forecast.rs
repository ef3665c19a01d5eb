//! Arrivals at the same time of past periods, so that servers are ready for a regular peak.

use base::Instant;
use core::time::Duration;

/// Settings of a forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForecastSettings {
    /// Period after which arrivals repeat: a day.
    pub period: Duration,
    /// Number of periods in a longer one, which is preferred once it has been observed: 7, a week.
    pub longer: u32,
    /// Length of the bins of a period: 5 min.
    pub bin: Duration,
    /// Weight of the newest period in the forecast: 0.4.
    pub newest: f64,
    /// Bounds of the factor by which today's arrivals so far scale the forecast: 0.8 and 1.5.
    pub today: (f64, f64),
}

impl Default for ForecastSettings {
    fn default() -> Self {
        Self {
            period: Duration::from_hours(24),
            longer: 7,
            bin: Duration::from_mins(5),
            newest: 0.4,
            today: (0.8, 1.5),
        }
    }
}

/// A year of minutes; more would waste memory.
const BINS_MOST: u64 = 525_600;

/// Expected rates by bin. The present bin is not yet included.
#[derive(Debug, Clone)]
pub(super) struct Forecast {
    settings: ForecastSettings,
    short: Vec<Option<f64>>,
    long: Vec<Option<f64>>,
    /// Present bin since the origin, and its largest rate so far.
    current: Option<(u64, f64)>,
}

impl Forecast {
    pub(super) fn new(settings: ForecastSettings) -> Self {
        let bins = settings.period.as_nanos() / settings.bin.as_nanos().max(1);
        let bins = u64::try_from(bins).unwrap_or(BINS_MOST).clamp(1, BINS_MOST);
        let long = bins.saturating_mul(settings.longer.max(1).into()).min(BINS_MOST);
        Self { settings, short: vec![None; bins as usize], long: vec![None; long as usize], current: None }
    }

    fn bin(&self, at: Instant) -> u64 {
        let bin = u64::try_from(self.settings.bin.as_nanos()).unwrap_or(u64::MAX).max(1);
        at.as_nanos() / bin
    }

    pub(super) fn on_rate(&mut self, now: Instant, rate: f64) {
        let bin = self.bin(now);
        match &mut self.current {
            Some((current, peak)) if *current == bin => *peak = peak.max(rate),
            Some((current, peak)) => {
                let (ended, peak) = (*current, *peak);
                self.learn(ended, peak);
                self.current = Some((bin, rate));
            }
            None => self.current = Some((bin, rate)),
        }
    }

    fn learn(&mut self, bin: u64, rate: f64) {
        for bins in [&mut self.short, &mut self.long] {
            let place = (bin % bins.len() as u64) as usize;
            let known = bins[place].unwrap_or(rate);
            bins[place] = Some(known + self.settings.newest * (rate - known));
        }
    }

    fn of_bin(&self, bin: u64) -> Option<f64> {
        let of = |bins: &[Option<f64>]| bins[(bin % bins.len() as u64) as usize];
        of(&self.long).or_else(|| of(&self.short))
    }

    /// Largest rate expected from `now` until `ahead` later; `None` without history.
    pub(super) fn most(&self, now: Instant, ahead: Duration) -> Option<f64> {
        let (first, last) = (self.bin(now), self.bin(now + ahead));
        let last = last.min(first + self.short.len() as u64);
        let expected = (first..=last).filter_map(|bin| self.of_bin(bin)).reduce(f64::max)?;
        Some(expected * self.today(first))
    }

    /// Ratio of today's rate to its forecast, in the present bin.
    fn today(&self, bin: u64) -> f64 {
        let (least, most) = self.settings.today;
        let seen = self.current.map(|(_, peak)| peak);
        match (seen, self.of_bin(bin)) {
            (Some(seen), Some(expected)) if expected > 0.0 => (seen / expected).clamp(least, most.max(least)),
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: u64) -> Instant {
        Instant::ZERO + Duration::from_hours(hours)
    }

    #[test]
    fn a_forecast_prefers_the_same_hour_of_the_week_to_that_of_the_day() {
        let settings = ForecastSettings { bin: Duration::from_hours(1), ..ForecastSettings::default() };
        let mut forecast = Forecast::new(settings);
        let rate = |hour: u64| match (hour / 24 % 7, hour % 24) {
            (0..=4, 9) => 500.0,
            _ => 100.0,
        };
        let hour = Duration::from_hours(1);
        assert_eq!(forecast.most(at(8), hour), None);
        (0..32).for_each(|hour| forecast.on_rate(at(hour), rate(hour)));
        // Tuesday at 7: Monday had a peak at 9.
        assert_eq!(forecast.most(at(31), hour), Some(100.0));
        assert_eq!(forecast.most(at(31), hour * 2), Some(500.0));
        (32..200).for_each(|hour| forecast.on_rate(at(hour), rate(hour)));
        // Saturday of the second week: the days before predict 500, the previous Saturday does not.
        (200..296).for_each(|hour| forecast.on_rate(at(hour), rate(hour)));
        assert_eq!(forecast.most(at(295), hour * 3), Some(100.0));
    }

    #[test]
    fn a_busier_day_raises_the_forecast() {
        let mut forecast =
            Forecast::new(ForecastSettings { bin: Duration::from_hours(1), ..ForecastSettings::default() });
        (0..24).for_each(|hour| forecast.on_rate(at(hour), 100.0 + hour as f64));
        forecast.on_rate(at(24), 120.0);
        forecast.on_rate(at(25), 101.0 * 1.2);
        let most = forecast.most(at(25), Duration::from_hours(1)).expect("a day has passed");
        assert!((most - 102.0 * 1.2).abs() < 1e-9, "{most}");
    }
}
