//! Limit of the memory that all connections of a thread hold together.

use super::Streams;
use crate::counts::CloseReason;
use base::Instant;
use std::cmp::Reverse;

/// Divisor of the memory that is freed at the limit. The search for the largest connections then happens only once for
/// that many received bytes.
const FREED: u64 = 8;

impl Streams {
    /// Updates the memory count of a connection.
    pub(super) fn count_held(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let held = connection.held();
        self.counts.held += held as u64;
        self.counts.held -= std::mem::replace(&mut connection.counted, held) as u64;
    }

    /// Closes the connections that hold the most memory, if all together exceed the limit. A peer that fills the memory
    /// by many connections loses them before a peer whose connections hold less.
    pub(super) fn free_memory(&mut self, now: Instant) {
        let most = self.settings.memory as u64;
        if self.counts.held <= most {
            return;
        }
        let holders = self.connections.iter().filter(|(_, connection)| connection.counted > 0);
        let mut holders: Vec<_> = holders.map(|(number, connection)| (connection.counted, *number)).collect();
        holders.sort_unstable_by_key(|holder| Reverse(*holder));
        for (_, number) in holders {
            if self.counts.held <= most - most / FREED {
                return;
            }
            self.close(now, number, CloseReason::Memory);
        }
    }
}
