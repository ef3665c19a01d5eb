//! Capacities that monitors announce: who listens for them, and what becomes of each.

use super::Control;
use crate::capacity::{AnnouncedCapacity, CapacityReport, Intake, Listening, Offer, bind};
use ::control::{Address, ControlInput};
use config::Config;
use elastic::estimate::SilenceSettings;
use elastic::update::{Announcements, Refusal, Server};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// What the control task has of capacities.
#[derive(Default)]
pub(super) struct Capacities {
    pub(super) intake: Intake,
    listening: Option<Listening>,
    /// By the addresses of members.
    announced: Announcements<SocketAddr>,
}

impl Control {
    /// Listens from now on, if the configuration says so; without a listener as soon as the address is free.
    pub(crate) fn open_capacity(&mut self, listener: Option<TcpListener>) {
        let Capacities { intake, listening, .. } = &mut self.capacity;
        *listening = self.config.capacity.clone().map(|config| Listening::start(config, listener, intake));
    }

    /// Another process listens.
    pub(super) fn close_capacity(&mut self) {
        self.capacity.listening = None;
    }

    /// A listener for another address of `[capacity]` than before. One at the same port has to wait until the one that is there is
    /// closed.
    pub(super) fn renewed_capacity(&self, config: &Config) -> Result<Option<TcpListener>, String> {
        let Some(new) = config.capacity.as_ref().filter(|_| !self.succeeded) else { return Ok(None) };
        let is_held = |running: &Listening| running.address().port() == new.listen.port();
        if self.capacity.listening.as_ref().is_some_and(is_held) {
            return Ok(None);
        }
        bind(new.listen).map(Some).map_err(|error| format!("[capacity] {error}"))
    }

    /// Takes over `[capacity]`, with what was opened for it: another key and other networks hold at once.
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

    /// An update has come; whoever brought it waits for the answer.
    pub(super) fn offered(&mut self, Offer { connection, update, reply }: Offer) {
        // A connection that is gone needs no answer.
        let _ = reply.send(self.announced(connection, &update.server, update.capacity));
    }

    /// A monitor says what a server can take, in calls a second: each capacity that was accepted passes here, once.
    fn announced(&mut self, connection: u64, server: &Server, capacity: f64) -> Result<(), Refusal> {
        let address = match server {
            Server::Address(address) => Some(Address::Socket(*address)),
            Server::Name(name) => config::member_address(name).ok(),
        };
        let meant =
            self.core.meant(&server.to_string(), address.as_ref()).map_err(|_| Refusal::UnknownServer)?;
        let now = self.clock.now();
        // The addresses of a name may be of one server.
        let capacity = match server {
            Server::Address(_) => capacity,
            Server::Name(_) => capacity / meant.len().max(1) as f64,
        };
        for (_, member) in meant {
            self.capacity.announced.take(now, connection, member, capacity)?;
            self.take(ControlInput::Capacity { member, capacity });
        }
        Ok(())
    }

    /// Forgets the capacities of members that are no more.
    pub(super) fn forget_capacities(&mut self) {
        let members = self.core.listed();
        self.capacity.announced.retain(|address| members.iter().any(|member| member.address == *address));
    }

    pub(super) fn capacity_report(&self) -> Option<CapacityReport> {
        self.config.capacity.as_ref()?;
        let now = self.clock.now();
        let announced = self.capacity.announced.iter().map(|(member, announcement)| AnnouncedCapacity {
            member: *member,
            capacity: announcement.last.capacity(announcement.at, &SilenceSettings::default()),
            now: announcement.last.capacity(now, &SilenceSettings::default()),
            age: now.saturating_since(announcement.at),
        });
        Some(CapacityReport { counts: self.capacity.intake.counts(), announced: announced.collect() })
    }
}
