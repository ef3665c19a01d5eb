//! Peers that could not be connected to, and when they are tried again.

use base::{Instant, Peer};
use core::time::Duration;
use std::collections::BTreeMap;

/// The first pause; each failure doubles it.
const FIRST: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(16);
/// Peers that are remembered; anybody may cause an entry, by a URI that leads nowhere.
const MOST: usize = 4_096;

/// Peers and their pauses.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pauses: BTreeMap<Peer, (Instant, Duration)>,
}

impl Backoff {
    /// Whether a connection may be tried now.
    pub(super) fn may_try(&self, now: Instant, peer: Peer) -> bool {
        self.pauses.get(&peer).is_none_or(|(until, _)| *until <= now)
    }

    /// One was tried in vain.
    pub(super) fn failed(&mut self, now: Instant, peer: Peer) {
        if self.pauses.len() >= MOST {
            self.pauses.retain(|_, (until, _)| *until > now);
        }
        if self.pauses.len() >= MOST && !self.pauses.contains_key(&peer) {
            return;
        }
        let last = self.pauses.get(&peer).map(|(_, pause)| *pause);
        let pause = last.map_or(FIRST, |pause| (pause * 2).min(LONGEST));
        self.pauses.insert(peer, (now + pause, pause));
    }

    /// It is there.
    pub(super) fn succeeded(&mut self, peer: Peer) {
        self.pauses.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Transport;

    #[test]
    fn pauses_grow_to_a_limit_and_end_with_success() {
        let peer = Peer::new(Transport::Tcp, "127.0.0.1:5060".parse().unwrap());
        let (mut backoff, mut now) = (Backoff::default(), Instant::ZERO);
        assert!(backoff.may_try(now, peer));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            backoff.failed(now, peer);
            let begun = now;
            while !backoff.may_try(now, peer) {
                now += FIRST;
            }
            pauses.push(now.saturating_since(begun).as_millis());
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000]);
        backoff.failed(now, peer);
        backoff.succeeded(peer);
        assert!(backoff.may_try(now, peer));
    }
}
