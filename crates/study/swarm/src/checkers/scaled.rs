//! Observers of the servers that a balancer starts and stops: what its process has seen of their calls, and what it
//! wants.

use crate::RunRule;
use crate::ScalePlan;
use crate::process::BalancerState;
use balance::SessionSettings;
use base::Instant;
use control::scale::{News, Order};
use core::time::Duration;
use elastic::scale::Decision;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// How much sooner a balancer may take a call to be over: it and the observer look at the clock once a second.
const SLACK: Duration = Duration::from_secs(2);

/// A call that a server has accepted.
#[derive(Clone, Copy)]
struct Open {
    /// When the process last heard of it.
    heard: Instant,
    /// When a BYE of one of its parties first came by.
    bye: Option<Instant>,
}

/// The servers of one balancer.
pub(super) struct Scaled {
    /// A call that is silent for so long is over.
    call_lifetime: Duration,
    /// A call whose BYE nobody answers for so long is over: its sender takes it to be (RFC 3261 §15.1.1).
    transaction_timeout: Duration,
    /// A server that has come up is stopped so long after it was started at the earliest.
    stays: Duration,
    /// What this life of the process has given to each server: INVITEs.
    given: BTreeSet<(SocketAddr, Vec<u8>)>,
    /// The calls that servers have accepted, whether anybody has heard of it or not.
    accepted: BTreeSet<(SocketAddr, Vec<u8>)>,
    /// What was given to a server and accepted, as the process has heard, and goes on.
    open: BTreeMap<SocketAddr, BTreeMap<Vec<u8>, Open>>,
    /// When the scaler of a number last wanted a server of a number started that it has not given up since.
    started: BTreeMap<(u64, u32), Instant>,
    /// Members that an operator has drained.
    drained: BTreeSet<SocketAddr>,
    /// Nothing is to be wanted any more.
    rests: bool,
}

impl Scaled {
    pub(super) fn new(sessions: &SessionSettings, plan: &ScalePlan) -> Self {
        Self {
            call_lifetime: sessions.call_lifetime,
            transaction_timeout: sessions.transaction_timeout,
            stays: plan.settings.calm + plan.settings.idle,
            given: BTreeSet::new(),
            accepted: BTreeSet::new(),
            open: BTreeMap::new(),
            started: BTreeMap::new(),
            drained: BTreeSet::new(),
            rests: false,
        }
    }

    /// The next process knows of calls what it hears of them: those from before, of which nobody says anything, may
    /// be lost. It knows nothing of drains.
    pub(super) fn ended(&mut self) {
        self.given.clear();
        self.open.clear();
        self.started.clear();
        self.drained.clear();
    }

    pub(super) fn operator_drains(&mut self, member: SocketAddr, draining: bool) {
        if draining {
            self.drained.insert(member);
        } else {
            self.drained.remove(&member);
        }
    }

    /// The traffic is long over.
    pub(super) fn rest(&mut self) {
        self.rests = true;
    }

    /// The process got this message from there.
    pub(super) fn heard(&mut self, now: Instant, from: SocketAddr, message: &Message<'_>) {
        let call = message.call_id().to_vec();
        for calls in self.open.values_mut() {
            calls.entry(call.clone()).and_modify(|open| open.heard = now);
        }
        match (message.cseq().method, message.status()) {
            (Method::Invite, Some(200..300)) => {
                let name = (from, call);
                if self.given.contains(&name) && self.accepted.contains(&name) {
                    let open = Open { heard: now, bye: None };
                    self.open.entry(from).or_default().entry(name.1).or_insert(open);
                }
            }
            (Method::Bye, None) => self.hung_up(now, from, &call),
            (Method::Bye, Some(200..)) => self.over(from, &call),
            _ => {}
        }
    }

    /// A BYE went between a server and the process.
    fn hung_up(&mut self, now: Instant, server: SocketAddr, call: &[u8]) {
        if let Some(open) = self.open.get_mut(&server).and_then(|calls| calls.get_mut(call)) {
            open.bye.get_or_insert(now);
        }
    }

    /// The process sent this message there. Who hung up has an answer: that of the server, or one that it will not
    /// come.
    pub(super) fn sent(&mut self, now: Instant, to: SocketAddr, message: &Message<'_>) {
        match (message.cseq().method, message.status()) {
            (Method::Invite, None) => {
                self.given.insert((to, message.call_id().to_vec()));
            }
            (Method::Bye, None) => self.hung_up(now, to, message.call_id()),
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
        match (message.cseq().method, message.status()) {
            (Method::Invite, Some(200..300)) => {
                self.accepted.insert((from, message.call_id().to_vec()));
            }
            (Method::Bye, Some(200..)) => self.over(from, message.call_id()),
            _ => {}
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
        self.accepted.retain(|(of, _)| *of != server);
    }

    /// The calls that a server has.
    fn calls(&self, now: Instant, server: SocketAddr) -> Vec<String> {
        let calls = self.open.get(&server).into_iter().flatten();
        let is_over = |open: &Open| {
            now + SLACK >= open.heard + self.call_lifetime
                || open.bye.is_some_and(|bye| now + SLACK >= bye + self.transaction_timeout)
        };
        let going_on = calls.filter(|(_, open)| !is_over(open));
        going_on.map(|(call, _)| call.escape_ascii().to_string()).collect()
    }

    /// The scaler has looked, and takes these servers to be ready. What it drains, and what an operator does, is as
    /// it has to be.
    pub(super) fn looked(&self, ready: &[SocketAddr], state: &BalancerState) -> Result<(), String> {
        for (member, drains) in &state.drains {
            if drains.scaler && ready.contains(member) {
                return Err(RunRule::DrainStays.broken(format_args!("{member}")));
            }
            if drains.operator != self.drained.contains(member) {
                return Err(RunRule::OperatorDrain.broken(format_args!("{member}: {drains:?}")));
            }
        }
        Ok(())
    }

    /// The scaler of this number wants this done.
    pub(super) fn ordered(&mut self, (now, number): (Instant, u64), order: &Order) -> Result<(), String> {
        if self.rests && matches!(order, Order::Start(_) | Order::Stop(_) | Order::Tell(News::Decided(..))) {
            return Err(RunRule::Restless.broken(format_args!("{order:?}")));
        }
        match order {
            Order::Start(server) => drop(self.started.insert((number, server.index), now)),
            Order::Tell(News::Decided(_, Decision::GiveUp(id))) => drop(self.started.remove(&(number, id.0))),
            Order::Stop(server) => {
                let started = self.started.get(&(number, server.index));
                if let Some(started) = started.filter(|started| now - **started < self.stays) {
                    return Err(RunRule::Flaps.broken(format_args!("{}, started at {started}", server.name)));
                }
            }
            Order::Drain(..) | Order::Doubt(_) | Order::List | Order::Tell(_) => {}
        }
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
        self.died(server);
        if goes_on && !calls.is_empty() {
            return Err(RunRule::LostByScaling.broken(format_args!("{server} had {calls:?}")));
        }
        Ok(())
    }
}
