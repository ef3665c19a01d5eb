//! Last accepted update of each server, over all connections.

use super::UpdateRefusal;
use crate::estimate::Announced;
use base::Instant;
use std::collections::BTreeMap;

/// Last accepted update of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Announcement {
    /// Capacity.
    pub last: Announced,
    /// Time of arrival.
    pub at: Instant,
    /// Number of its connection.
    connection: u64,
}

/// Last accepted update of each server. Connections are numbered in the order in which they started.
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
    /// Takes over the capacity of a server from an update on this connection. The receiver of the connection has
    /// verified its code and order.
    ///
    /// # Errors
    /// If a newer connection has brought an update: updates of the older connection are late.
    pub fn take(
        &mut self,
        now: Instant,
        connection: u64,
        server: S,
        capacity: f64,
    ) -> Result<(), UpdateRefusal> {
        let newer = self.servers.get(&server).is_some_and(|known| known.connection > connection);
        if newer {
            return Err(UpdateRefusal::Superseded);
        }
        self.servers
            .insert(server, Announcement { last: Announced::new(now, capacity), at: now, connection });
        Ok(())
    }

    /// Last accepted update of this server.
    pub fn get(&self, server: &S) -> Option<&Announcement> {
        self.servers.get(server)
    }

    /// Keeps only the servers for which `is_kept` holds.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&S) -> bool) {
        self.servers.retain(|server, _| is_kept(server));
    }

    /// All servers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&S, &Announcement)> {
        self.servers.iter()
    }
}
