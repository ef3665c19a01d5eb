//! Settings of a scaler.

use super::ForecastSettings;
use core::time::Duration;

/// Starting servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartSettings {
    /// How long a start takes before one was seen: 90 s, "1 to 2 minutes on average" (section IV-D).
    pub time: Duration,
    /// A server that is not up after so long is given up: 5 min, or 10/3 of `time` if that is more.
    pub time_max: Duration,
    /// No start for so long after one that failed: a ninth of `time`, at least 1 s; twice as long after each further
    /// one.
    pub back_off: Duration,
    /// At most: 5 min.
    pub back_off_max: Duration,
}

impl Default for StartSettings {
    fn default() -> Self {
        Self::of(Duration::from_secs(90))
    }
}

impl StartSettings {
    /// Those where a start takes so long. A server that usually starts fast may once have to load its image first.
    pub fn of(time: Duration) -> Self {
        let long = Duration::from_mins(5);
        let back_off = (time / 9).max(Duration::from_secs(1));
        Self { time, time_max: (time * 10 / 3).max(long), back_off, back_off_max: long }
    }
}

/// Settings of a scaler. Rates are calls a second.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleSettings {
    /// Never fewer servers: 1.
    pub least: usize,
    /// Never more that start, are ready or drain: 10. One that is being stopped does not count any more.
    pub most: usize,
    /// So many servers there are to choose from, and they are not the same: one that did not come up is tried again
    /// when the others were. `None`, the default: the first free number is always as good as any.
    pub choices: Option<u32>,
    /// Servers ready beyond those that are needed: 1, the paper's n + 1.
    pub spare: usize,
    /// Capacity of a server that has not announced any.
    pub capacity: f64,
    /// Servers are added when arrivals by total capacity pass this: 0.8 (section IV-D).
    pub high: f64,
    /// One is removed when the others would stay below this: 0.7. Ours, so that noise does not add it again.
    pub low: f64,
    /// Arrivals are smoothed over this: 10 s.
    pub smoothing: Duration,
    /// A rise is followed as far ahead as a server takes to start, up to so many times the rate: 1.3; 1 for not at
    /// all.
    pub trend_most: f64,
    /// The others must have been enough for so long: 5 min.
    pub calm: Duration,
    /// Time between two servers that are drained: 1 min.
    pub drain_gap: Duration,
    /// A drained server is stopped when it had no calls for so long: 3 min; "a timeout of few minutes when all
    /// transaction states within the server expires".
    pub idle: Duration,
    /// A stop that is not confirmed is asked for again after so long: 1 min.
    pub stop_again: Duration,
    /// At most so many servers are started, resumed and drained in a step: 4.
    pub changes_most: usize,
    /// Starts.
    pub start: StartSettings,
    /// Arrivals of past days: off.
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
    /// The same with another [`calm`](Self::calm), and what follows from it. Arrivals are smoothed over 10 s at most:
    /// longer, and a rise would be seen late.
    #[must_use]
    pub fn with_calm(self, calm: Duration) -> Self {
        let smoothing = (calm / 30).clamp(Duration::from_secs(1), Duration::from_secs(10));
        Self { smoothing, calm, drain_gap: (calm / 5).min(Duration::from_mins(1)), ..self }
    }
}
