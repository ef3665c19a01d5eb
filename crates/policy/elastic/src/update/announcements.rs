//! The last accepted update of each server, over all connections.

use super::Refusal;
use crate::estimate::Announced;
use base::Instant;
use std::collections::BTreeMap;

/// The last accepted update of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Announcement {
    /// The capacity.
    pub last: Announced,
    /// When it came.
    pub at: Instant,
    /// The number of its connection.
    connection: u64,
}

/// The last accepted update of each server. Connections are numbered in the order in which they began.
#[derive(Debug, Clone)]
pub struct Announcements<S> {
    servers: BTreeMap<S, Announcement>,
}

impl<S> Default for Announcements<S> {
    fn default() -> Self {
        Self { servers: BTreeMap::new() }
    }
}

impl<S: Ord> Announcements<S> {
    /// Takes the capacity of a server from an update that came by this connection. The receiver of a connection has
    /// seen to it that it is genuine and in order there.
    ///
    /// # Errors
    /// A newer connection has brought an update: updates of the older connection are late.
    pub fn take(&mut self, now: Instant, connection: u64, server: S, capacity: f64) -> Result<(), Refusal> {
        let newer = self.servers.get(&server).is_some_and(|known| known.connection > connection);
        if newer {
            return Err(Refusal::Superseded);
        }
        self.servers
            .insert(server, Announcement { last: Announced::new(now, capacity), at: now, connection });
        Ok(())
    }

    /// The last accepted update of this server.
    pub fn get(&self, server: &S) -> Option<&Announcement> {
        self.servers.get(server)
    }

    /// Forgets all servers but these.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&S) -> bool) {
        self.servers.retain(|server, _| is_kept(server));
    }

    /// All servers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&S, &Announcement)> {
        self.servers.iter()
    }
}
