//! Pauses before further connections to unreachable peers.

use super::way::Way;
use base::Instant;
use core::time::Duration;
use std::collections::BTreeMap;

/// First pause; each failure doubles it.
const FIRST: Duration = Duration::from_millis(250);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(16);
/// Destinations that are remembered; outsiders can cause entries by URIs that lead nowhere.
const MOST: usize = 4_096;

/// Destinations and their pauses.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pauses: BTreeMap<Way, (Instant, Duration)>,
}

impl Backoff {
    /// Whether a connection may be tried now.
    pub(super) fn may_try(&self, now: Instant, way: &Way) -> bool {
        self.pauses.get(way).is_none_or(|(until, _)| *until <= now)
    }

    /// Notes a failed connection.
    pub(super) fn failed(&mut self, now: Instant, way: Way) {
        if self.pauses.len() >= MOST {
            self.pauses.retain(|_, (until, _)| *until > now);
        }
        if self.pauses.len() >= MOST && !self.pauses.contains_key(&way) {
            return;
        }
        let last = self.pauses.get(&way).map(|(_, pause)| *pause);
        let pause = last.map_or(FIRST, |pause| (pause * 2).min(LONGEST));
        self.pauses.insert(way, (now + pause, pause));
    }

    /// Notes a successful connection.
    pub(super) fn succeeded(&mut self, way: &Way) {
        self.pauses.remove(way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Flow, Transport};

    #[test]
    fn pauses_grow_to_a_limit_and_end_with_success() {
        let peer = "127.0.0.1:5060".parse().unwrap();
        let way = &Way::of(Flow { transport: Transport::Tcp, ..Flow::udp(0, peer) }, b"", None);
        let (mut backoff, mut now) = (Backoff::default(), Instant::ZERO);
        assert!(backoff.may_try(now, way));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            backoff.failed(now, way.clone());
            let start = now;
            while !backoff.may_try(now, way) {
                now += FIRST;
            }
            pauses.push(now.saturating_since(start).as_millis());
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000]);
        backoff.failed(now, way.clone());
        backoff.succeeded(way);
        assert!(backoff.may_try(now, way));
    }
}
