//! Settings of a scaler.

use super::ForecastSettings;
use core::time::Duration;

/// Settings of server starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartSettings {
    /// Assumed duration of a start, until one has been observed: 90 s, "1 to 2 minutes on average" (section IV-D).
    pub time: Duration,
    /// Time after which a start is given up: 5 min, or 10/3 of `time` if that is more.
    pub time_max: Duration,
    /// Pause after a failed start, before the next start: a ninth of `time`, at least 1 s; doubled after each further failure.
    pub back_off: Duration,
    /// Longest pause: 5 min.
    pub back_off_max: Duration,
}

impl Default for StartSettings {
    fn default() -> Self {
        Self::of(Duration::from_secs(90))
    }
}

impl StartSettings {
    /// Settings for this duration of a start. A server that usually starts fast may have to load its image first.
    pub fn of(time: Duration) -> Self {
        let long = Duration::from_mins(5);
        let back_off = (time / 9).max(Duration::from_secs(1));
        Self { time, time_max: (time * 10 / 3).max(long), back_off, back_off_max: long }
    }
}

/// Settings of a scaler. Rates are calls a second.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleSettings {
    /// Least number of servers: 1.
    pub least: usize,
    /// Largest number of servers that are starting, ready or draining: 10. Servers being stopped do not count.
    pub most: usize,
    /// Number of distinct servers to choose from. A server that did not start is tried again after the others. `None`,
    /// the default: any free number is as good as another.
    pub choices: Option<u32>,
    /// Ready servers beyond the needed ones: 1, the paper's n + 1.
    pub spare: usize,
    /// Capacity of a server without an announcement.
    pub capacity: f64,
    /// Servers are added when arrivals divided by total capacity exceed this: 0.8 (section IV-D).
    pub high: f64,
    /// A server is removed when the others would stay below this: 0.7. An addition to the paper, so that noise does not
    /// add the server again.
    pub low: f64,
    /// Time constant of smoothing: 10 s.
    pub smoothing: Duration,
    /// A rise is extrapolated over the duration of a start, up to this multiple of the rate: 1.3; 1 for no
    /// extrapolation.
    pub trend_most: f64,
    /// Time for which the other servers must have been enough before one is drained: 5 min.
    pub calm: Duration,
    /// Time between two servers being drained: 1 min.
    pub drain_gap: Duration,
    /// Time without calls after which a drained server is stopped: 3 min; "a timeout of few minutes when all
    /// transaction states within the server expires".
    pub idle: Duration,
    /// Time after which an unconfirmed stop is repeated: 1 min.
    pub stop_again: Duration,
    /// Largest number of servers that are started or resumed in one step: 4.
    pub changes_most: usize,
    /// Settings of starts.
    pub start: StartSettings,
    /// Forecast from past days: off.
    pub forecast: Option<ForecastSettings>,
}

impl Default for ScaleSettings {
    fn default() -> Self {
        Self {
            least: 1,
            most: 10,
            choices: None,
            spare: 1,
            capacity: 500.0,
            high: 0.8,
            low: 0.7,
            smoothing: Duration::from_secs(10),
            trend_most: 1.3,
            calm: Duration::from_mins(5),
            drain_gap: Duration::from_mins(1),
            idle: Duration::from_mins(3),
            stop_again: Duration::from_mins(1),
            changes_most: 4,
            start: StartSettings::default(),
            forecast: None,
        }
    }
}

impl ScaleSettings {
    /// Same settings with another [`calm`](Self::calm) and the values that depend on it. Arrivals are smoothed over 10
    /// s at most; with more, a rise would be seen late.
    #[must_use]
    pub fn with_calm(self, calm: Duration) -> Self {
        let smoothing = (calm / 30).clamp(Duration::from_secs(1), Duration::from_secs(10));
        Self { smoothing, calm, drain_gap: (calm / 5).min(Duration::from_mins(1)), ..self }
    }
}
