//! The bound on what all connections of a thread hold together.

use super::Streams;
use crate::counts::CloseReason;
use base::Instant;
use std::cmp::Reverse;

/// At the bound an eighth of it is freed: looking for those that hold the most is then paid for by as many bytes that
/// somebody had to send.
const FREED: u64 = 8;

impl Streams {
    /// Notes what a connection holds now.
    pub(super) fn count_held(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let held = connection.held();
        self.counts.held += held as u64;
        self.counts.held -= std::mem::replace(&mut connection.counted, held) as u64;
    }

    /// Where all together hold more than they may, cuts off those that hold the most: whoever fills the memory with many
    /// connections loses them before anybody who holds less in his.
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
