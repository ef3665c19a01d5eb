//! Requests that are too long for UDP (RFC 3261 §18.1.1): which transport each was sent by, and where TCP has failed.

use base::{Instant, Recent};
use core::time::Duration;
use std::net::SocketAddr;

/// The longest request over UDP, in bytes: nobody here knows the MTU of a path.
pub(crate) const LONGEST_OVER_UDP: usize = 1_300;
/// Long requests a generation: as many as 500 calls a second begin in 32 s (64*T1).
const REQUESTS: usize = 16_384;
/// Addresses a generation that took no connection.
const REFUSALS: usize = 4_096;
/// How long no further connection is tried to an address that took none. Each time in a row doubles it.
const FIRST_PAUSE: Duration = Duration::from_mins(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// What carries a request of more than 1,300 bytes to a hop that is reached over UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LargeRequests {
    /// TCP, as RFC 3261 §18.1.1 has it; UDP where nobody takes the connection.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// What is known of long requests.
#[derive(Debug)]
pub(crate) struct LargeRequestTable {
    /// The setting.
    pub(crate) by: LargeRequests,
    /// Recent ones, by a hash of their branch: the UDP port that they would have left by, had they not left by TCP;
    /// `None` where they have left by UDP.
    pub(crate) sent: Recent<u64, Option<u16>>,
    /// The addresses that took no connection: until when none is tried, and the length of that pause.
    refused: Recent<SocketAddr, (Instant, Duration)>,
}

impl Default for LargeRequestTable {
    fn default() -> Self {
        let (sent, refused) = (Recent::new(REQUESTS), Recent::new(REFUSALS));
        Self { by: LargeRequests::default(), sent, refused }
    }
}

impl LargeRequestTable {
    pub(crate) fn may_try(&self, now: Instant, address: SocketAddr) -> bool {
        self.refused.get(&address).is_none_or(|(until, _)| *until <= now)
    }

    /// An address took no connection. Of many requests that wait for one connection the first counts.
    pub(crate) fn refused(&mut self, now: Instant, address: SocketAddr) {
        let pause = match self.refused.get(&address) {
            Some((until, _)) if now < *until => return,
            Some((until, last)) if now < *until + *last => (*last * 2).min(LONGEST_PAUSE),
            Some(_) | None => FIRST_PAUSE,
        };
        self.refused.insert(address, (now + pause, pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_refusals_follow_each_other() {
        let (mut table, at) = (LargeRequestTable::default(), SocketAddr::from(([192, 0, 2, 1], 5060)));
        let mut now = Instant::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(table.may_try(now, at));
            table.refused(now, at);
            // The others that waited for the same connection.
            table.refused(now, at);
            let begun = now;
            while !table.may_try(now, at) {
                now += Duration::from_secs(30);
            }
            pauses.push(now.saturating_since(begun).as_secs() / 60);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        now += LONGEST_PAUSE;
        table.refused(now, at);
        assert!(table.may_try(now + FIRST_PAUSE, at), "it took connections meanwhile");
    }
}
