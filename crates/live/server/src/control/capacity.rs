//! Capacities that monitors announce: the listener, and the effect of each update.

use super::Control;
use super::capacities::Capacities;
use crate::capacity::{AnnouncedCapacity, CapacityReport, Listening, Offer, SilentMonitor, bind};
use ::control::ListedMember;
use ::control::{Address, ControlInput};
use balance::PoolId;
use base::{Peer, Transport};
use config::{Config, PoolConfig};
use elastic::estimate::VALIDITY;
use elastic::update::{ServerName, Update, UpdateRefusal};
use node::CapacitySource;
use std::net::SocketAddr;
use tokio::net::TcpListener;

impl Control {
    /// Starts to listen, if the configuration has `[capacity]`. Without `listener`, it listens as soon as the address
    /// is free.
    pub(crate) fn open_capacity(&mut self, listener: Option<TcpListener>) {
        let Capacities { intake, listening, .. } = &mut self.capacity;
        *listening = self.config.capacity.clone().map(|config| Listening::start(config, listener, intake));
    }

    /// Stops listening, because another process listens.
    pub(super) fn close_capacity(&mut self) {
        self.capacity.listening = None;
    }

    /// Opens a listener if `[capacity]` has a new address. A new address at the same port must wait until the present
    /// listener is closed.
    pub(super) fn renewed_capacity(&self, config: &Config) -> Result<Option<TcpListener>, String> {
        let Some(new) = config.capacity.as_ref().filter(|_| !self.succeeded) else { return Ok(None) };
        let is_held = |running: &Listening| running.address().port() == new.listen.port();
        if self.capacity.listening.as_ref().is_some_and(is_held) {
            return Ok(None);
        }
        bind(new.listen).map(Some).map_err(|error| format!("[capacity] {error}"))
    }

    /// Takes over `[capacity]` and the listener opened for it. A new key and new networks take effect at once.
    pub(super) fn renew_capacity(&mut self, config: &Config, listener: Option<TcpListener>) {
        if self.succeeded {
            return;
        }
        let Capacities { intake, listening, .. } = &mut self.capacity;
        match (&config.capacity, &*listening) {
            (Some(new), Some(running)) if running.address() == new.listen => running.change(new.clone()),
            (Some(new), _) => *listening = Some(Listening::start(new.clone(), listener, intake)),
            (None, _) => *listening = None,
        }
    }

    /// Processes an update. Its connection waits for the answer.
    pub(super) fn offered(&mut self, Offer { connection, peer, update, reply }: Offer) {
        // A closed connection needs no answer.
        let _ = reply.send(self.announced((connection, peer), &update));
    }

    /// Processes a monitor's announcement of a server's capacity in calls a second. Each accepted capacity goes through
    /// this function once. Returns the number of calls that were sent to the server from here so far.
    fn announced(
        &mut self,
        (connection, peer): (u64, SocketAddr),
        update: &Update,
    ) -> Result<u64, UpdateRefusal> {
        let Update { server, capacity, .. } = update;
        let address = match server {
            ServerName::Address(address) => Some(Address::Socket(Peer::new(Transport::Udp, *address))),
            ServerName::Name(name) => config::member_address(name).ok(),
        };
        let meant = self.core.meant(&server.to_string(), address.as_ref()).map_err(|why| {
            let reason = UpdateRefusal::UnknownServer.name();
            tracing::warn!(%peer, reason, "a capacity update was refused: {why}");
            UpdateRefusal::UnknownServer
        })?;
        for (_, Peer { address: member, .. }) in &meant {
            // A reload may have changed the keys since the code was checked. The present keys decide which key is
            // needed.
            let keys = self.config.capacity.as_ref().map(|capacity| &capacity.keys);
            let names = self.core.named_at(*member);
            if !keys.is_some_and(|keys| keys.permit(update, *member, &names)) {
                let (reason, names) = (UpdateRefusal::NotItsKey.name(), names.join(", "));
                tracing::warn!(
                    %peer, %server, %member, names, reason,
                    "a capacity update was refused: each name of the member needs this key, unless its address has a \
                     key"
                );
                return Err(UpdateRefusal::NotItsKey);
            }
        }
        let now = self.clock.now();
        // All addresses of a name may belong to one server.
        let capacity = match server {
            ServerName::Address(_) => *capacity,
            ServerName::Name(_) => capacity / meant.len().max(1) as f64,
        };
        let mut sent = 0;
        for (slot, Peer { address: member, .. }) in meant {
            self.capacity.announced.take(now, connection, member, capacity)?;
            self.take(ControlInput::Capacity { member, capacity });
            sent += u64::from(self.sent_calls.of(slot));
        }
        Ok(sent)
    }

    pub(super) fn forget_capacities(&mut self) {
        let members = self.core.listed();
        self.capacity
            .announced
            .retain(|address| members.iter().any(|member| member.peer.address == *address));
    }

    /// Returns whether any pool uses the capacities of monitors.
    pub(super) fn has_monitors(&self) -> bool {
        self.config.pools.iter().any(is_monitored)
    }

    /// Logs which monitors have fallen silent, and which are heard again. Members that take no calls are ignored, since
    /// servers that do not run have no monitors either.
    pub(super) fn look_at_monitors(&mut self) {
        let config_of = |pool: &PoolId| {
            let name = &self.core.pool(*pool)?.name;
            self.config.pools.iter().find(|pool| pool.settings.name == *name)
        };
        let is_awaited = |member: &&ListedMember| {
            let mut its_pools = member.pools.iter().filter_map(config_of);
            let node = &member.node;
            node.member && node.is_up() && !node.draining && its_pools.any(is_monitored)
        };
        let listed = self.core.listed();
        let members: Vec<_> = listed.iter().filter(is_awaited).map(|member| member.peer.address).collect();
        let now = self.clock.now();
        let Capacities { announced, monitors, .. } = &mut self.capacity;
        let changes = monitors.look(now, &members, VALIDITY, |member| Some(announced.get(member)?.at));
        let named = |was_heard: bool| {
            let silent = changes.silent.iter().filter(|silent| silent.was_heard == was_heard);
            addresses(silent.map(|SilentMonitor { member, .. }| *member))
        };
        if let Some(members) = named(true) {
            tracing::warn!(%members, "monitors have fallen silent: the capacity of these members is measured by \
                response times");
        }
        if let Some(members) = named(false) {
            tracing::warn!(
                %members,
                "no capacity update was ever received: the capacity of these members is measured by response times; \
                 does `sarabande monitor --report` run there?"
            );
        }
        if let Some(members) = addresses(changes.heard.iter().copied()) {
            tracing::info!(%members, "monitors announce the capacity of these members again");
        }
    }

    pub(super) fn capacity_report(&self) -> Option<CapacityReport> {
        self.config.capacity.as_ref()?;
        let now = self.clock.now();
        let announced = self.capacity.announced.iter().map(|(member, announcement)| AnnouncedCapacity {
            member: *member,
            capacity: announcement.last.capacity(announcement.at, VALIDITY),
            now: announcement.last.capacity(now, VALIDITY),
            age: now.saturating_since(announcement.at),
        });
        Some(CapacityReport {
            counts: self.capacity.intake.counts(),
            announced: announced.collect(),
            silent: self.capacity.monitors.silent().collect(),
        })
    }
}

/// Returns whether the members of a pool have their capacity from monitors.
fn is_monitored(pool: &PoolConfig) -> bool {
    pool.settings.queue.as_ref().is_some_and(|queue| queue.source == CapacitySource::Announced)
}

/// Lists addresses; `None` if there are none.
fn addresses(all: impl Iterator<Item = SocketAddr>) -> Option<String> {
    let all: Vec<_> = all.map(|address| address.to_string()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}
