//! Requests that are too long for UDP (RFC 3261 §18.1.1): the transport of each of them, and the addresses at which TCP
//! has failed.

use base::{Instant, Recent};
use core::time::Duration;
use std::net::SocketAddr;

/// The longest request over UDP, in bytes, since the MTU of the path is unknown.
pub(crate) const LONGEST_OVER_UDP: usize = 1_300;
/// Number of long requests in one generation: as many as begin in 32 s (64*T1) at 500 calls a second.
const REQUESTS: usize = 16_384;
/// Number of addresses in one generation that did not accept a connection.
const REFUSALS: usize = 4_096;
/// Pause without connection attempts to an address after one attempt has failed. It doubles with each further failure
/// without a success in between.
const FIRST_PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// Transport of a request of more than 1,300 bytes to a hop that is reached over UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LargeRequests {
    /// TCP (RFC 3261 §18.1.1), and UDP if the connection is not accepted.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

#[derive(Debug)]
pub(crate) struct LargeRequestTable {
    pub(crate) by: LargeRequests,
    /// Recent long requests, by a hash of their branch. `Some`: the request left by TCP in place of this UDP port.
    /// `None`: it left by UDP.
    pub(crate) sent: Recent<u64, Option<u16>>,
    /// Addresses that did not accept a connection, each with the time when the next attempt is allowed, and with the
    /// length of the pause.
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

    /// Records that an address did not accept a connection. Of several requests that waited for one connection, only
    /// the first counts.
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
    fn pauses_double_with_refusals_in_a_row() {
        let (mut table, at) = (LargeRequestTable::default(), SocketAddr::from(([192, 0, 2, 1], 5060)));
        let mut now = Instant::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(table.may_try(now, at));
            table.refused(now, at);
            // Failures of the other requests that waited for the same connection.
            table.refused(now, at);
            let start = now;
            while !table.may_try(now, at) {
                now += Duration::from_secs(30);
            }
            pauses.push(now.saturating_since(start).as_secs() / 60);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        now += LONGEST_PAUSE;
        table.refused(now, at);
        assert!(table.may_try(now + FIRST_PAUSE, at), "after a success the pause is short again");
    }
}
