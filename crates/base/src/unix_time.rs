//! Time that is valid beyond the process and on several hosts: for nonces and for stored data.

use core::fmt;
use core::ops::Add;
use core::time::Duration;

/// Point in time: milliseconds since 1970-01-01 00:00 UTC, an argument like [`Instant`](crate::Instant).
///
/// `Instant` counts from an origin of this process and never goes back, so it serves timers. `UnixTime` serves data
/// that is written to a file, kept by a server for several proxies, or sent to a client and taken back. It may be set
/// back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct UnixTime(u64);

impl UnixTime {
    /// From milliseconds since the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// From seconds since the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Time from `earlier` until this time; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for UnixTime {
    type Output = Self;

    /// Saturates at the end of the range.
    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl UnixTime {
    /// Formats in UTC with milliseconds, as RFC 3339 does: `2010-11-13T23:29:00.000Z`.
    pub fn rfc3339(self) -> String {
        let (year, month, day) = self.date();
        let secs = self.0 / 1000;
        let (hours, minutes, secs, millis) = (secs / 3600 % 24, secs / 60 % 60, secs % 60, self.0 % 1000);
        format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{secs:02}.{millis:03}Z")
    }

    /// Year, month and day of the month, in UTC.
    fn date(self) -> (u64, u64, u64) {
        // Years start in March here, so that the leap day is the last day of a year; 400 years have 146,097 days. Day 0
        // is 0000-03-01, 719,468 days before the epoch.
        let since_march = self.0 / 86_400_000 + 719_468;
        let (era, day) = (since_march / 146_097, since_march % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        // From March on, each five months in a row have 153 days.
        let month = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
        (year + era * 400 + u64::from(month >= 10), (month + 2) % 12 + 1, day_of_month)
    }
}

/// In the format of the Date header field (RFC 3261 §20.17, RFC 1123): `Sat, 13 Nov 2010 23:29:00 GMT`.
impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let secs = self.0 / 1000;
        let days = secs / 86_400;
        let (year, month, day_of_month) = self.date();
        let name = MONTHS[(month - 1) as usize];
        let (hours, minutes) = (secs / 3600 % 24, secs / 60 % 60);
        let weekday = DAYS[(days % 7) as usize];
        write!(
            f,
            "{weekday}, {day_of_month:02} {name} {year:04} {hours:02}:{minutes:02}:{:02} GMT",
            secs % 60
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts are from `date -u -d @SECONDS -R`.
    #[test]
    fn dates() {
        let cases = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_289_690_940, "Sat, 13 Nov 2010 23:29:00 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ];
        for (secs, text) in cases {
            assert_eq!(UnixTime::from_secs(secs).to_string(), text);
        }
    }

    #[test]
    fn nothing_overflows() {
        let last = UnixTime::from_secs(u64::MAX);
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(UnixTime::default().saturating_since(last), Duration::ZERO);
        assert!(last.to_string().ends_with("GMT"));
    }
}
