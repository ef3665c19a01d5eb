//! Datagrams in flight, and their delivery.

use super::host::Role;
use super::{Event, HANDING_OVER_MICROS, SiteProcess, World, Wrapper};
use crate::Refuses;
use crate::RunRule;
use crate::credentials::ResponseEffect;
use crate::plan::{answerer_address, caller_address, probe_address, site_address};
use crate::{ProcessInput, Sent};
use base::{Flow, Instant, Transport};
use core::time::Duration;
use load::AgentInput;
use node::StoreAnswer;
use rand::Rng as _;
use sim::engine::{HostIndex, Trace};
use std::net::SocketAddr;

/// Bytes of a datagram that ICMP quotes: RFC 1812 §4.3.2.3 asks for as much as fits 576 bytes.
const QUOTED: usize = 548;

/// Status codes with which answerers refuse calls.
const REFUSALS: [u16; 8] = [302, 404, 480, 486, 486, 500, 503, 603];

/// An item in flight.
pub(super) enum LinkMessage {
    Datagram {
        from_host: HostIndex,
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// The datagram of `host` that starts with `quoted`, sent from `from` to `to`, did not arrive.
    Refusal {
        host: HostIndex,
        from: SocketAddr,
        to: Flow,
        quoted: Vec<u8>,
        /// True for port unreachable.
        says_of_peer: bool,
    },
    /// Bytes arrive at this end of a connection.
    Piece {
        connection: u32,
        end: usize,
    },
    /// A connection breaks for this end.
    Cut {
        connection: u32,
        end: usize,
    },
    /// Answer of a store.
    Answered {
        host: HostIndex,
        /// The life of the host that asked.
        life: u64,
        number: u64,
        answer: Box<StoreAnswer>,
    },
    /// A message handed from one shard of a process to another.
    Handed {
        host: HostIndex,
        /// The life of the host.
        life: u64,
        shard: usize,
        flow: Flow,
        bytes: Vec<u8>,
    },
}

/// A message that has arrived.
pub(super) struct Arrived<'a> {
    pub(super) from_host: HostIndex,
    /// Ingress flow.
    pub(super) flow: Flow,
    pub(super) to: SocketAddr,
    pub(super) bytes: &'a [u8],
}

impl<W: Wrapper> World<W> {
    pub(super) fn due(&mut self, now: Instant, host: HostIndex) -> Result<(), String> {
        let it = &mut self.hosts[host as usize];
        if it.wake != Some(now) {
            return Ok(());
        }
        it.wake = None;
        if now < it.stalled_until {
            it.wake = Some(it.stalled_until);
            self.queue.at(it.stalled_until, Event::Due(host));
            return Ok(());
        }
        match &mut it.role {
            Role::Caller { agent, .. } => agent.handle(now, AgentInput::Tick, &mut self.outbox),
            Role::Answerer { agent: Some(agent), phone, .. } => {
                agent.handle(now, AgentInput::Tick, &mut self.outbox);
                let registers = phone.as_mut().and_then(|phone| Some((phone.registrar(), phone.tick(now)?)));
                if let Some((to, bytes)) = registers {
                    self.outbox.send(Flow::udp(0, to), |buffer| buffer.extend_from_slice(&bytes));
                }
            }
            Role::Process(Some(process)) => {
                let (mut sent, mut probes) = process.tick(now);
                // A balancer forwards a probe to a member and keeps a session of it. Probes to balancers therefore end
                // with the callers, so that no session is left.
                if now >= self.plan.end {
                    probes.retain(|probe| self.addresses.contains_key(&probe.to));
                }
                let number = self.plan.process_at(host).expect("a process is on this host");
                let place = self.place(number);
                self.wrapper.says(place, ProcessInput::Timer, &mut sent);
                self.written(host, place);
                self.unasked(now, host, ProcessInput::Timer, &sent)?;
                self.send_all(host, site_address(self.plan.site_of(number)), sent)?;
                self.send_all(host, probe_address(number), probes)?;
                self.consult(now, host);
            }
            Role::Answerer { agent: None, .. } | Role::Process(None) => {}
        }
        self.flush(host)?;
        self.arm(host);
        Ok(())
    }

    /// Sends the messages in an agent's outbox.
    fn flush(&mut self, host: HostIndex) -> Result<(), String> {
        let mut outbox = core::mem::take(&mut self.outbox);
        let answerers = self.plan.answerer_host(0);
        let from = match host.checked_sub(answerers) {
            Some(answerer) => answerer_address(answerer as u16),
            None => caller_address(host as usize),
        };
        for transmit in outbox.transmits() {
            let bytes = outbox.message(transmit).to_vec();
            let mut one = Sent::by(transmit.flow, bytes);
            if let Role::Caller { chaperon: Some(chaperon), .. } = &mut self.hosts[host as usize].role {
                one.bytes = chaperon.says(&one.bytes);
            }
            if host >= answerers {
                self.wrapper.answers(&mut one);
                if let Ok(message) = wire::scan(&one.bytes) {
                    self.checkers.response_sent(from, &message)?;
                }
            }
            self.send(host, from, Flow { peer: one.to, ..one.flow }, &one.bytes)?;
        }
        outbox.clear();
        outbox.drain_events().for_each(drop);
        self.outbox = outbox;
        Ok(())
    }

    pub(super) fn host_at(&self, address: SocketAddr) -> Option<HostIndex> {
        let site = (0..self.active.len()).find(|&site| site_address(site as u16) == address);
        match site {
            Some(site) => Some(self.plan.process_host(self.active[site])),
            None => self.addresses.get(&address).copied(),
        }
    }

    fn send_all(&mut self, host: HostIndex, from: SocketAddr, sent: Vec<Sent>) -> Result<(), String> {
        sent.into_iter().try_for_each(|Sent { flow, to, bytes, .. }| {
            self.send(host, from, Flow { peer: to, ..flow }, &bytes)
        })
    }

    fn send(&mut self, host: HostIndex, from: SocketAddr, flow: Flow, bytes: &[u8]) -> Result<(), String> {
        let (now, to) = (self.queue.now(), flow.peer);
        self.note(|plan| format!("{} to {to}: {}", plan.host_name(host), gist(bytes)));
        let name = |host| self.plan.host_name(host);
        let unknown = || RunRule::UnknownAddress.broken(format_args!("{} to {to}", name(host)));
        let to_host = self.host_at(to).ok_or_else(unknown)?;
        if flow.transport != Transport::Udp {
            self.put(now, (host, from), (to_host, flow), bytes);
            return Ok(());
        }
        for at in self.network.send(now, host, to_host) {
            let carried = LinkMessage::Datagram { from_host: host, from, to, bytes: bytes.to_vec() };
            let key = self.on_the_way.insert(carried);
            self.queue.at(at, Event::Arrives(key));
        }
        Ok(())
    }

    pub(super) fn arrives(&mut self, now: Instant, key: u32) -> Result<(), String> {
        let carried = self.on_the_way.get(key).expect("each event has a message in flight");
        let host = match carried {
            LinkMessage::Datagram { to, .. } => {
                self.host_at(*to).expect("the host was known when the message was sent")
            }
            LinkMessage::Piece { connection, end } | LinkMessage::Cut { connection, end } => {
                let Some(host) = self.connections.host(*connection, *end) else {
                    self.on_the_way.remove(key);
                    return Ok(());
                };
                host
            }
            LinkMessage::Refusal { host, .. }
            | LinkMessage::Handed { host, .. }
            | LinkMessage::Answered { host, .. } => *host,
        };
        let stalled_until = self.hosts[host as usize].stalled_until;
        if now < stalled_until {
            // It waits in the socket's buffer.
            self.queue.at(stalled_until, Event::Arrives(key));
            return Ok(());
        }
        match self.on_the_way.remove(key).expect("the message was found above") {
            LinkMessage::Datagram { from_host, from, to, bytes } => {
                self.counts.datagrams += 1;
                self.trace.event(now, 0, host);
                mix(&mut self.trace, &bytes);
                let flow = Flow::udp(0, from);
                self.received(now, host, &Arrived { from_host, flow, to, bytes: &bytes })?;
            }
            LinkMessage::Refusal { host, from, to, quoted, says_of_peer } => {
                self.trace.event(now, 1, host);
                self.refused(now, host, (from, to, says_of_peer), &quoted)?;
            }
            LinkMessage::Piece { connection, end } => {
                self.trace.event(now, 5, host);
                self.comes_out(now, connection, end)?;
            }
            LinkMessage::Cut { connection, end } => {
                self.trace.event(now, 6, host);
                self.is_cut(now, connection, end)?;
            }
            LinkMessage::Handed { life, .. } | LinkMessage::Answered { life, .. }
                if self.hosts[host as usize].lives != life => {}
            LinkMessage::Answered { number, answer, .. } => {
                self.trace.event(now, 4, host);
                self.answered(now, host, number, *answer)?;
            }
            LinkMessage::Handed { shard, flow, bytes, .. } => {
                self.trace.event(now, 3, host);
                self.handled(now, host, shard, (flow, &bytes))?;
            }
        }
        self.arm(host);
        Ok(())
    }

    pub(super) fn received(
        &mut self,
        now: Instant,
        host: HostIndex,
        arrived: &Arrived<'_>,
    ) -> Result<(), String> {
        let &Arrived { from_host, flow, to, bytes } = arrived;
        let from = flow.peer;
        let answerer = host.checked_sub(self.plan.answerer_host(0));
        let is_deaf = answerer.is_some_and(|number| !self.plan.answerers[number as usize].options);
        let refuses = answerer.and_then(|number| self.plan.answerers[number as usize].refuses);
        let refusal = refuses.filter(|refuses| now < refuses.until).and_then(|it| refused(it, host, bytes));
        match &mut self.hosts[host as usize].role {
            Role::Caller { agent, chaperon } => match chaperon.as_mut().map(|it| it.hears(bytes)) {
                None => agent.handle(now, AgentInput::Message { from: flow, bytes }, &mut self.outbox),
                Some(ResponseEffect::ToCaller(bytes)) => {
                    agent.handle(now, AgentInput::Message { from: flow, bytes: &bytes }, &mut self.outbox);
                }
                Some(ResponseEffect::Send(all)) => {
                    let own = caller_address(host as usize);
                    return all.iter().try_for_each(|bytes| self.send(host, own, flow, bytes));
                }
            },
            Role::Answerer { agent: Some(_), .. } if is_deaf && bytes.starts_with(b"OPTIONS ") => {}
            Role::Answerer { agent: Some(_), .. } if let Some(status) = refusal => {
                let request = wire::scan(bytes).expect("its status was chosen from the parsed INVITE");
                let mut answer = Vec::new();
                wire::write_response(&request, from, status, "Refused", "refuses", &[], &mut answer);
                return self.send(host, to, flow, &answer);
            }
            Role::Answerer { agent: Some(_), phone: Some(phone), .. } if is_of_register(bytes) => {
                if let Some(bytes) = phone.receive(now, bytes) {
                    let to = phone.registrar();
                    self.outbox.send(Flow::udp(0, to), |buffer| buffer.extend_from_slice(&bytes));
                }
            }
            Role::Answerer { agent: Some(agent), .. } => {
                agent.handle(now, AgentInput::Message { from: flow, bytes }, &mut self.outbox);
            }
            Role::Answerer { agent: None, refuses: true, .. } => {
                let quoted = bytes[..bytes.len().min(QUOTED)].to_vec();
                let to = Flow::udp(0, to);
                let refusal = LinkMessage::Refusal { host: from_host, from, to, quoted, says_of_peer: true };
                let key = self.on_the_way.insert(refusal);
                self.queue.after(self.plan.delay, Event::Arrives(key));
            }
            Role::Process(Some(process)) if self.addresses.contains_key(&to) => {
                process.probe_answer(now, from, bytes);
            }
            Role::Process(Some(_)) => return self.site_message(now, host, flow, bytes),
            Role::Answerer { agent: None, refuses: false, .. } | Role::Process(None) => {}
        }
        self.flush(host)
    }

    /// Handles a message to the address of a site.
    fn site_message(
        &mut self,
        now: Instant,
        host: HostIndex,
        flow: Flow,
        bytes: &[u8],
    ) -> Result<(), String> {
        let mut bytes = bytes.to_vec();
        if !self.wrapper.hears(&mut bytes) {
            return Ok(());
        }
        let it = &self.hosts[host as usize];
        let Role::Process(Some(process)) = &it.role else { return Ok(()) };
        let (gets, owns) = process.shards(flow.peer, &bytes);
        if gets == owns || !self.wrapper.hands_over() {
            return self.handled(now, host, gets, (flow, &bytes));
        }
        let way = Duration::from_micros(self.ring_rng.random_range(0..HANDING_OVER_MICROS));
        // A ring keeps the order.
        let last = self.rings.entry((host, gets, owns)).or_insert(now);
        *last = (*last).max(now + way);
        let carried = LinkMessage::Handed { host, life: it.lives, shard: owns, flow, bytes };
        let key = self.on_the_way.insert(carried);
        self.queue.at(*last, Event::Arrives(key));
        Ok(())
    }

    /// Handles a message on its shard.
    fn handled(
        &mut self,
        now: Instant,
        host: HostIndex,
        shard: usize,
        (flow, bytes): (Flow, &[u8]),
    ) -> Result<(), String> {
        let from = flow.peer;
        let number = self.plan.process_at(host).expect("a process is on this host");
        let place = self.place(number);
        let Role::Process(Some(process)) = &mut self.hosts[host as usize].role else { return Ok(()) };
        let mut sent = process.datagram(now, shard, flow, bytes);
        self.wrapper.says(place, ProcessInput::Datagram { from, bytes }, &mut sent);
        self.written(host, place);
        let Role::Process(Some(process)) = &self.hosts[host as usize].role else { return Ok(()) };
        self.checkers.datagram(now, place, process, (from, bytes), &sent)?;
        self.send_all(host, site_address(place.site), sent)?;
        self.consult(now, host);
        Ok(())
    }

    /// Shows the checkers messages that a process sends without an incoming message.
    fn unasked(
        &mut self,
        now: Instant,
        host: HostIndex,
        cause: ProcessInput<'_>,
        sent: &[Sent],
    ) -> Result<(), String> {
        let place = self.place(self.plan.process_at(host).expect("a process is on this host"));
        let Role::Process(Some(process)) = &self.hosts[host as usize].role else { return Ok(()) };
        self.checkers.sent_without_datagram(now, place, process, cause, sent)
    }

    /// Passes the records of a process's last step to the checkers.
    fn written(&mut self, host: HostIndex, place: SiteProcess) {
        let Role::Process(Some(process)) = &mut self.hosts[host as usize].role else { return };
        let mut records = process.written();
        self.wrapper.writes(&mut records);
        self.checkers.written(place, &records);
    }

    /// Handles a store's answer to a process.
    fn answered(
        &mut self,
        now: Instant,
        host: HostIndex,
        number: u64,
        answer: StoreAnswer,
    ) -> Result<(), String> {
        let process = self.plan.process_at(host).expect("a process is on this host");
        let place = self.place(process);
        let Role::Process(Some(process)) = &mut self.hosts[host as usize].role else { return Ok(()) };
        let mut sent = process.answered(now, number, answer);
        self.wrapper.says(place, ProcessInput::Answer, &mut sent);
        self.written(host, place);
        self.unasked(now, host, ProcessInput::Answer, &sent)?;
        self.send_all(host, site_address(place.site), sent)?;
        self.consult(now, host);
        Ok(())
    }

    /// Passes a process's questions to its stores.
    fn consult(&mut self, now: Instant, host: HostIndex) {
        let it = &mut self.hosts[host as usize];
        let (Role::Process(Some(process)), Some(stores)) = (&mut it.role, &mut it.stores) else { return };
        for question in process.questions() {
            let Some((time, answer)) = stores.ask(now, question.about) else { continue };
            let (life, number, answer) = (it.lives, question.number, Box::new(answer));
            let key = self.on_the_way.insert(LinkMessage::Answered { host, life, number, answer });
            self.queue.at(now + time, Event::Arrives(key));
        }
    }

    /// Handles an ICMP error about a datagram of this host.
    pub(super) fn refused(
        &mut self,
        now: Instant,
        host: HostIndex,
        (from, to, says_of_peer): (SocketAddr, Flow, bool),
        quoted: &[u8],
    ) -> Result<(), String> {
        let Some(number) = self.plan.process_at(host) else { return Ok(()) };
        let place = self.place(number);
        let own = site_address(place.site);
        let Role::Process(Some(process)) = &mut self.hosts[host as usize].role else { return Ok(()) };
        let mut sent = process.unreachable(now, (to, says_of_peer), from != own, quoted);
        self.wrapper.says(place, ProcessInput::Unreachable, &mut sent);
        self.written(host, place);
        self.unasked(now, host, ProcessInput::Unreachable, &sent)?;
        self.send_all(host, own, sent)
    }
}

/// Returns the status with which an answerer refuses a call; `None`: it accepts. Copies of an INVITE get the same.
fn refused(refuses: Refuses, host: HostIndex, bytes: &[u8]) -> Option<u16> {
    let invite = wire::scan(bytes).ok().filter(|message| message.method() == Some(wire::Method::Invite))?;
    let mut hasher = Trace::default();
    hasher.word(host.into());
    mix(&mut hasher, invite.call_id());
    let hash = hasher.digest();
    let refuses = invite.to_tag().is_none() && hash.is_multiple_of(refuses.one_of);
    refuses.then(|| REFUSALS[(hash >> 32) as usize % REFUSALS.len()])
}

/// Returns true for a response to a REGISTER.
fn is_of_register(bytes: &[u8]) -> bool {
    wire::scan(bytes)
        .is_ok_and(|message| message.status().is_some() && message.cseq().method == wire::Method::Register)
}

/// Returns first line, CSeq and Call-ID of a message.
fn gist(bytes: &[u8]) -> String {
    let Ok(message) = wire::scan(bytes) else { return "unreadable".to_owned() };
    let start = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let cseq = message.cseq();
    let (start, call) = (start.escape_ascii(), message.call_id().escape_ascii());
    format!("{start} ({} {}, {call})", cseq.number, cseq.method.name())
}

/// Adds every byte of a datagram to the digest.
pub(super) fn mix(trace: &mut Trace, bytes: &[u8]) {
    for word in bytes.chunks(8) {
        let mut all = [0; 8];
        all[..word.len()].copy_from_slice(word);
        trace.word(u64::from_le_bytes(all));
    }
}
