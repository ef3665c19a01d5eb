//! Observers of the servers that a balancer starts and stops: what its process has seen of their calls, and what it wants.

use crate::RunRule;
use base::Instant;
use control::scale::Order;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// Less than what is silent for so long counts.
const SLACK: Duration = Duration::from_secs(2);

/// The servers of one balancer.
pub(super) struct Scaled {
    /// A call that is silent for so long is over.
    call_lifetime: Duration,
    /// What this life of the process has given to each server: INVITEs.
    given: BTreeSet<(SocketAddr, Vec<u8>)>,
    /// Of these the calls that the server has accepted, as the process has heard, with when it last heard of them.
    open: BTreeMap<SocketAddr, BTreeMap<Vec<u8>, Instant>>,
}

impl Scaled {
    pub(super) fn new(call_lifetime: Duration) -> Self {
        Self { call_lifetime, given: BTreeSet::new(), open: BTreeMap::new() }
    }

    /// The next process knows of calls what it hears of them: those from before, of which nobody says anything, may be lost.
    pub(super) fn ended(&mut self) {
        self.given.clear();
        self.open.clear();
    }

    /// The process got this message from there.
    pub(super) fn heard(&mut self, now: Instant, from: SocketAddr, message: &Message<'_>) {
        let call = message.call_id().to_vec();
        for calls in self.open.values_mut() {
            calls.entry(call.clone()).and_modify(|heard| *heard = now);
        }
        match (message.cseq().method, message.status()) {
            (Method::Invite, Some(200..300)) if self.given.contains(&(from, call.clone())) => {
                self.open.entry(from).or_default().insert(call, now);
            }
            (Method::Bye, Some(200..)) => self.over(from, &call),
            _ => {}
        }
    }

    /// The process sent this message there. Who hung up has an answer: that of the server, or one that it will not come.
    pub(super) fn sent(&mut self, to: SocketAddr, message: &Message<'_>) {
        match (message.cseq().method, message.status()) {
            (Method::Invite, None) => {
                self.given.insert((to, message.call_id().to_vec()));
            }
            (Method::Bye, Some(200..)) => {
                for calls in self.open.values_mut() {
                    calls.remove(message.call_id());
                }
            }
            _ => {}
        }
    }

    /// A server sent this message.
    pub(super) fn said(&mut self, from: SocketAddr, message: &Message<'_>) {
        if let (Method::Bye, Some(200..)) = (message.cseq().method, message.status()) {
            self.over(from, message.call_id());
        }
    }

    fn over(&mut self, server: SocketAddr, call: &[u8]) {
        self.given.remove(&(server, call.to_vec()));
        if let Some(calls) = self.open.get_mut(&server) {
            calls.remove(call);
        }
    }

    /// A server has died.
    pub(super) fn died(&mut self, server: SocketAddr) {
        self.open.remove(&server);
    }

    /// The calls that a server has.
    fn calls(&self, now: Instant, server: SocketAddr) -> Vec<String> {
        let calls = self.open.get(&server).into_iter().flatten();
        let going_on = calls.filter(|(_, heard)| now < **heard + self.call_lifetime.saturating_sub(SLACK));
        going_on.map(|(call, _)| call.escape_ascii().to_string()).collect()
    }

    /// The scaler wants this done.
    pub(super) fn ordered(&self, now: Instant, order: &Order) -> Result<(), String> {
        let Order::Stop(server) = order else { return Ok(()) };
        let Some(address) = server.address else { return Ok(()) };
        match self.calls(now, address) {
            calls if calls.is_empty() => Ok(()),
            calls => Err(RunRule::StoppedBusy.broken(format_args!("{address} has {calls:?}"))),
        }
    }

    /// A server has been stopped. `goes_on`: the process that wanted that still runs.
    pub(super) fn stopped(&mut self, now: Instant, server: SocketAddr, goes_on: bool) -> Result<(), String> {
        let calls = self.calls(now, server);
        self.open.remove(&server);
        if goes_on && !calls.is_empty() {
            return Err(RunRule::LostByScaling.broken(format_args!("{server} had {calls:?}")));
        }
        Ok(())
    }
}
