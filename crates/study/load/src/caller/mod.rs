//! The calling side (UAC) of many concurrent calls.
mod call;
mod texts;
mod token;

use crate::alarms::Alarms;
use crate::arrivals::Arrivals;
use crate::timers::NEVER;
use crate::{AgentEvent, AgentInput, ArrivalPlan, CallResults, RandomTime, Timers, WORK_MAX, way_back};
use base::{Flow, Instant, Outbox, Rng, Slab, Transport};
use call::{Call, Step};
use core::time::Duration;
use rand_distr::{Distribution, StandardUniform};
use std::net::SocketAddr;
use texts::{Texts, read_branch};
use token::Token;
use wire::{Message, Method};

/// Maximum number of Server names that are distinguished. Calls of further servers are not checked.
const SERVERS_MAX: usize = 1_000;

/// Configuration of a [`Caller`].
#[derive(Clone, PartialEq, Debug)]
pub struct CallerConfig {
    /// Transport of all messages.
    pub transport: Transport,
    /// Index of the first local port; there are as many ports as connections.
    pub listener: u16,
    /// Connections to the target, or 1 over UDP. Each call uses one of them, chosen by its local port.
    pub connections: u16,
    /// Address of the port, used in Via, Contact and From.
    pub local: SocketAddr,
    /// Destination of INVITEs: a proxy, a balancer or an answerer.
    pub target: SocketAddr,
    /// Whether ACK and BYE also go to the target when an answer has no Record-Route, as with an outbound proxy (RFC
    /// 3261 §12.2.1.1). Otherwise they go to the Contact. Some answerers omit the Record-Route.
    pub outbound: bool,
    /// Request-URI and To of the calls, such as `sip:service@192.0.2.1`.
    pub uri: String,
    /// When calls start.
    pub arrivals: ArrivalPlan,
    /// Duration of answered calls until the caller hangs up.
    pub holding: RandomTime,
    /// Time from the start of a call to its CANCEL. Proxies wait over three minutes (RFC 3261 §16.6 step 11).
    pub answer_wait: Duration,
    /// Retransmission timers.
    pub timers: Timers,
}

impl CallerConfig {
    /// Flow of the requests of the call in this slot.
    fn flow(&self, slot: u32, peer: SocketAddr) -> Flow {
        let connection = (slot % u32::from(self.connections.max(1))) as u16;
        Flow { transport: self.transport, listener: self.listener + connection, peer, connection: None }
    }
}

/// An agent that makes calls: INVITE with an offer, ACK, and BYE after the holding time; or CANCEL when no answer comes
/// in time.
///
/// - Create: [`new`](Self::new).
/// - Run: [`handle`](Self::handle) every message and [`deadline`](Self::deadline), until [`finished`](Self::finished).
/// - End early: [`stop`](Self::stop), then run until it has finished.
/// - Read: [`results`](Self::results).
///
/// Works with any UAS of RFC 3261. If responses have a Server header, all responses of one call must have the same
/// value, like those of an [`Answerer`](crate::Answerer). Another value counts as a wrong server. A 100 (Trying) may
/// have any value, because the next hop sends it.
///
/// A call that is over keeps half a kilobyte until 64*T1 after its first 2xx: another party may answer until then.
#[derive(Debug)]
pub struct Caller {
    config: CallerConfig,
    texts: Texts,
    arrivals: Arrivals,
    /// Draws the holding time of each call at its start, so that it does not depend on the network.
    holding_rng: Rng,
    /// Makes the ids of calls differ from the ids of other agents.
    agent: u64,
    calls: Slab<Call>,
    alarms: Alarms,
    servers: Vec<Box<str>>,
    results: CallResults,
}

impl Caller {
    /// Returns a caller whose schedule starts at `now`. The same configuration and seed give the same calls.
    pub fn new(config: CallerConfig, now: Instant, rng: Rng) -> Self {
        Self {
            texts: Texts::new(&config),
            arrivals: Arrivals::new(config.arrivals.clone(), now, rng.fork("arrivals")),
            agent: StandardUniform.sample(&mut rng.fork("ids")),
            holding_rng: rng,
            calls: Slab::default(),
            alarms: Alarms::default(),
            servers: Vec::new(),
            results: CallResults::default(),
            config,
        }
    }

    /// Handles a message, or the alarms that are due. Then [`deadline`](Self::deadline) may be due at once.
    pub fn handle(&mut self, now: Instant, input: AgentInput<'_>, out: &mut Outbox<AgentEvent>) {
        match input {
            AgentInput::Message { from, bytes } => {
                if self.receive(now, from, bytes, out).is_none() {
                    self.results.stray_datagrams += 1;
                }
            }
            AgentInput::Tick => self.tick(now, out),
        }
    }

    /// Latest time of the next [`Tick`](AgentInput::Tick). There may be nothing to do then.
    pub fn deadline(&self) -> Option<Instant> {
        [self.arrivals.peek(), self.alarms.deadline()].into_iter().flatten().min()
    }

    /// Whether all calls have started and ended. Repeated refusals may still need an ACK.
    pub fn finished(&self) -> bool {
        self.arrivals.peek().is_none() && self.results.calls_in_progress == 0
    }

    /// Starts no more calls and ends the calls in progress: answered calls by BYE, ringing calls by CANCEL. Calls
    /// without a response end as soon as a response allows BYE or CANCEL (RFC 3261 §9.1). The requests leave at the
    /// next [`Tick`](AgentInput::Tick)s, which are due at once.
    pub fn stop(&mut self, now: Instant) {
        self.arrivals.end();
        let slots: Vec<_> = self.calls.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let call = &mut self.calls[slot];
            if call.end_at(now) {
                call.alarm = now;
                self.alarms.set(now, slot);
            }
        }
    }

    /// Counts and times so far.
    pub fn results(&self) -> &CallResults {
        &self.results
    }

    fn tick(&mut self, now: Instant, out: &mut Outbox<AgentEvent>) {
        for _ in 0..WORK_MAX {
            if let Some((at, slot)) = self.alarms.pop(now) {
                if self.calls.get(slot).is_some_and(|call| call.alarm == at) {
                    self.calls[slot].alarm = NEVER;
                    self.step(now, slot, out, Call::expire);
                }
            } else if let Some(scheduled) = self.arrivals.pop(now) {
                self.start(now, scheduled, out);
            } else {
                break;
            }
        }
    }

    fn start(&mut self, now: Instant, scheduled: Instant, out: &mut Outbox<AgentEvent>) {
        let number = self.results.calls_started;
        let holding = self.config.holding.sample(&mut self.holding_rng);
        let call = Call::new(Token::id(self.agent, number), number, scheduled, holding);
        let slot = self.calls.insert(call);
        self.step(now, slot, out, Call::start);
    }

    /// Runs one step of a call and updates its alarm.
    fn step<R>(
        &mut self,
        now: Instant,
        slot: u32,
        out: &mut Outbox<AgentEvent>,
        act: impl FnOnce(&mut Call, &mut Step<'_>) -> R,
    ) -> R {
        let Self { config, texts, servers, results, .. } = self;
        let call = &mut self.calls[slot];
        let token = Token { id: call.id, slot };
        let done = act(call, &mut Step { now, token, config, texts, servers, results, out });
        match call.deadline() {
            None => drop(self.calls.remove(slot)),
            Some(deadline) if deadline < call.alarm => {
                call.alarm = deadline;
                self.alarms.set(deadline, slot);
            }
            // The alarm is too early; it is set again when it fires.
            Some(_) => {}
        }
        done
    }

    /// Handles a received message; `None` if it belongs to no call.
    fn receive(
        &mut self,
        now: Instant,
        from: Flow,
        bytes: &[u8],
        out: &mut Outbox<AgentEvent>,
    ) -> Option<()> {
        let message = wire::scan(bytes).ok()?;
        let Some(status) = message.status() else {
            self.receive_request(now, from, &message, out);
            return Some(());
        };
        // RFC 3261 §17.1.3: the branch of the top Via and the method in CSeq decide. A response with more Vias was
        // meant for another element (§8.1.3.3).
        let (token, leg) = read_branch(message.top_via().branch?)?;
        if message.second_via().is_some() || self.calls.get(token.slot)?.id != token.id {
            return None;
        }
        if status > 100 {
            self.check_server(token.slot, &message, status, out);
        }
        self.step(now, token.slot, out, |call, step| call.receive(step, leg, &message, status));
        Some(())
    }

    /// Compares the response's Server name with the call's.
    fn check_server(&mut self, slot: u32, response: &Message<'_>, status: u16, out: &mut Outbox<AgentEvent>) {
        let name = response.header("Server").and_then(|name| core::str::from_utf8(name).ok());
        let Some(name) = name else { return };
        let call = &mut self.calls[slot];
        let known = call.server.map(|server| &*self.servers[server as usize]);
        if known.is_some_and(|known| known != name) {
            self.results.wrong_server += 1;
            let call_id = String::from_utf8_lossy(response.call_id()).into();
            out.event(AgentEvent::WrongServer { call_id });
        } else if known.is_none() && status < 300 {
            call.server = self.servers.iter().position(|server| **server == *name).map(|index| index as u32);
            if call.server.is_none() && self.servers.len() < SERVERS_MAX {
                call.server = Some(self.servers.len() as u32);
                self.servers.push(name.into());
            }
        }
    }

    /// Handles a request of the other side: a BYE, or a method that a caller does not support.
    fn receive_request(
        &mut self,
        now: Instant,
        from: Flow,
        request: &Message<'_>,
        out: &mut Outbox<AgentEvent>,
    ) {
        let refusal = request.fault().map(|fault| (fault.status, fault.reason));
        let (status, reason) = match (refusal, request.method()) {
            (Some(refusal), _) => refusal,
            // An ACK is never answered.
            (None, Some(Method::Ack)) => return,
            (None, Some(Method::Bye)) if self.hung_up(now, request, out) => (200, "OK"),
            // RFC 3261 §15.1.2.
            (None, Some(Method::Bye)) => (481, "Call/Transaction Does Not Exist"),
            // RFC 3261 §8.2.1: the response lists the allowed methods.
            (None, _) => (405, "Method Not Allowed"),
        };
        let allow = [("Allow", "ACK, BYE")];
        let extra = if status == 405 { &allow[..] } else { &[] };
        if let Some(to) = way_back(request, from) {
            let tag = format!("{:x}", self.agent);
            out.send(to, |bytes| {
                wire::write_response(request, from.peer, status, reason, &tag, extra, bytes);
            });
        }
    }

    fn hung_up(&mut self, now: Instant, request: &Message<'_>, out: &mut Outbox<AgentEvent>) -> bool {
        let Some((token, b"")) = Token::split(request.call_id()) else { return false };
        self.calls.get(token.slot).is_some_and(|call| call.id == token.id)
            && self.step(now, token.slot, out, |call, step| call.receive_bye(step, request))
    }
}
