//! Observers of the servers that a balancer starts and stops: the calls that its process has seen, and the orders of
//! its scaler.

use crate::RunRule;
use crate::ScalePlan;
use crate::process::BalancerState;
use balance::SessionSettings;
use base::Instant;
use control::scale::{News, Order};
use core::time::Duration;
use elastic::scale::ScalingDecision;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use wire::{Message, Method};

/// Tolerance for the end of a call: balancer and observer look at the clock once a second.
const SLACK: Duration = Duration::from_secs(2);

/// A call accepted by a server.
#[derive(Clone, Copy)]
struct Open {
    /// When the process last saw a message of it.
    heard: Instant,
    /// When the first BYE passed.
    bye: Option<Instant>,
}

/// The servers of one balancer.
pub(super) struct Scaled {
    /// Time without messages after which a call is over.
    call_lifetime: Duration,
    /// Time after which an unanswered BYE ends the call: its sender takes it to be over (RFC 3261 §15.1.1).
    transaction_timeout: Duration,
    /// Shortest time between the start and the stop of a server that came up.
    stays: Duration,
    /// INVITEs that this life of the process sent, by server.
    given: BTreeSet<(SocketAddr, Vec<u8>)>,
    /// Calls that servers accepted, whether their 2xx arrived or not.
    accepted: BTreeSet<(SocketAddr, Vec<u8>)>,
    /// Calls whose 2xx the process received, and that have not ended.
    open: BTreeMap<SocketAddr, BTreeMap<Vec<u8>, Open>>,
    /// When a scaling of this generation last ordered this server to start. Servers that the scaling gave up are
    /// removed.
    started: BTreeMap<(u64, u32), Instant>,
    /// Members that an operator has drained.
    drained: BTreeSet<SocketAddr>,
    /// Whether no more orders are allowed.
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

    /// The process ended. The next one knows of earlier calls only by later messages, and knows no drains. Silent calls
    /// may be lost.
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

    /// The traffic ended long ago.
    pub(super) fn rest(&mut self) {
        self.rests = true;
    }

    /// The process received this message.
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

    /// A BYE passed between a server and the process.
    fn hung_up(&mut self, now: Instant, server: SocketAddr, call: &[u8]) {
        if let Some(open) = self.open.get_mut(&server).and_then(|calls| calls.get_mut(call)) {
            open.bye.get_or_insert(now);
        }
    }

    /// The process sent this message. A response to BYE, even one that reports a timeout, ends the call.
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
    pub(super) fn server_sent(&mut self, from: SocketAddr, message: &Message<'_>) {
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

    /// A server died.
    pub(super) fn died(&mut self, server: SocketAddr) {
        self.open.remove(&server);
        self.accepted.retain(|(of, _)| *of != server);
    }

    /// Returns the calls of a server.
    fn calls(&self, now: Instant, server: SocketAddr) -> Vec<String> {
        let calls = self.open.get(&server).into_iter().flatten();
        let is_over = |open: &Open| {
            now + SLACK >= open.heard + self.call_lifetime
                || open.bye.is_some_and(|bye| now + SLACK >= bye + self.transaction_timeout)
        };
        let going_on = calls.filter(|(_, open)| !is_over(open));
        going_on.map(|(call, _)| call.escape_ascii().to_string()).collect()
    }

    /// The scaler ran, and takes these servers to be ready. Checks the drains of scaler and operator.
    pub(super) fn looked(&self, ready: &[SocketAddr], state: &BalancerState) -> Result<(), String> {
        for (member, drains) in &state.drains {
            if drains.scaler && ready.contains(member) {
                return Err(RunRule::DrainNotEnded.broken(format_args!("{member}")));
            }
            if drains.operator != self.drained.contains(member) {
                return Err(RunRule::OperatorDrain.broken(format_args!("{member}: {drains:?}")));
            }
        }
        Ok(())
    }

    /// The scaling of this generation gave an order.
    pub(super) fn ordered(&mut self, (now, number): (Instant, u64), order: &Order) -> Result<(), String> {
        if self.rests && matches!(order, Order::Start(_) | Order::Stop(_) | Order::Tell(News::Decided(..))) {
            return Err(RunRule::OrdersAfterEnd.broken(format_args!("{order:?}")));
        }
        match order {
            Order::Start(server) => drop(self.started.insert((number, server.index), now)),
            Order::Tell(News::Decided(_, ScalingDecision::GiveUp(id))) => {
                self.started.remove(&(number, id.0));
            }
            Order::Stop(server) => {
                let started = self.started.get(&(number, server.index));
                if let Some(started) = started.filter(|started| now - **started < self.stays) {
                    return Err(
                        RunRule::StoppedEarly.broken(format_args!("{}, started at {started}", server.name))
                    );
                }
            }
            Order::Drain(..) | Order::Doubt(_) | Order::List | Order::Tell(_) => {}
        }
        let Order::Stop(server) = order else { return Ok(()) };
        let Some(address) = server.address else { return Ok(()) };
        match self.calls(now, address) {
            calls if calls.is_empty() => Ok(()),
            calls => Err(RunRule::BusyServerStopped.broken(format_args!("{address} has {calls:?}"))),
        }
    }

    /// Checks a stopped server. `goes_on`: the process that ordered it still runs.
    pub(super) fn stopped(&mut self, now: Instant, server: SocketAddr, goes_on: bool) -> Result<(), String> {
        let calls = self.calls(now, server);
        self.died(server);
        if goes_on && !calls.is_empty() {
            return Err(RunRule::LostByScaling.broken(format_args!("{server} had {calls:?}")));
        }
        Ok(())
    }
}
