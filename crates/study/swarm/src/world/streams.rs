//! Connections between hosts. Bytes arrive in order, in pieces of any size, until the connection breaks.
//!
//! This module models the part of `streams` that maps flows to connections and reports broken connections. The framer
//! is the framer of the server.

use super::host::Role;
use super::traffic::{Arrived, LinkMessage};
use super::{Event, World, Wrapper};
use crate::RunRule;
use base::{Connection as Number, Flow, Instant, Rng, Transport};
use core::num::NonZeroU32;
use core::time::Duration;
use rand::Rng as _;
use sim::engine::HostIndex;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use wire::{Framed, Framer};

/// Time after which the kernel gives up unacknowledged bytes, as `server` configures it.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// First retransmission timeout of TCP. It doubles with each retransmission (RFC 6298 §5.5).
const FIRST_TIMEOUT: Duration = Duration::from_millis(200);
/// Longest time from a request to its response (RFC 3261 §17.1).
const ANSWERED_WITHIN: Duration = Duration::from_secs(32);
/// Fraction of messages cut into pieces, and of pieces that wait for the next one.
const CUT: f64 = 0.3;
const JOINED: f64 = 0.2;
const JOINED_WITHIN: Duration = Duration::from_millis(20);

/// How the peers of a host learn that it has closed its connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CutOff {
    /// At once.
    Announced,
    /// When they send data, or never if the host is gone.
    Unnoticed,
}

/// One end of a connection.
struct End {
    host: HostIndex,
    address: SocketAddr,
    is_open: bool,
    framer: Framer,
    /// Pieces on the way to this end, with their arrival times.
    pieces: VecDeque<(Instant, Vec<u8>)>,
    /// Messages sent to this end that have not been received.
    messages: VecDeque<Vec<u8>>,
    /// Bytes were lost, so later bytes are never delivered.
    is_stuck: bool,
    /// When this end sent its last request.
    requested: Option<Instant>,
}

impl End {
    fn new(host: HostIndex, address: SocketAddr) -> Self {
        let framer = Framer::new(Transport::Tcp.longest());
        let (pieces, messages) = (VecDeque::new(), VecDeque::new());
        Self { host, address, is_open: true, framer, pieces, messages, is_stuck: false, requested: None }
    }
}

/// The connections of a run. The first end of each is the one that opened it.
pub(super) struct Connections {
    all: BTreeMap<u32, [End; 2]>,
    /// Connections by host, its address and the peer's address.
    by_way: BTreeMap<(HostIndex, SocketAddr, SocketAddr), u32>,
    last: u32,
    rng: Rng,
}

impl Connections {
    pub(super) fn new(rng: &Rng) -> Self {
        let (all, by_way) = (BTreeMap::new(), BTreeMap::new());
        Self { all, by_way, last: 0, rng: rng.fork("connections") }
    }

    /// Returns the host at this end.
    pub(super) fn host(&self, connection: u32, end: usize) -> Option<HostIndex> {
        Some(self.all.get(&connection)?[end].host)
    }

    /// Returns the connection that a flow of this host names, and the host's end of it.
    fn named(&self, host: HostIndex, flow: Flow) -> Option<(u32, usize)> {
        let Number(number) = flow.connection?;
        let ends = self.all.get(&number.get())?;
        let own = ends.iter().position(|end| end.host == host && end.is_open)?;
        (ends[1 - own].address.ip() == flow.peer.ip()).then_some((number.get(), own))
    }

    /// Returns the connection that this host has opened to `to`, or a new one.
    fn opened(
        &mut self,
        (host, from): (HostIndex, SocketAddr),
        (to_host, to): (HostIndex, SocketAddr),
    ) -> u32 {
        let known = self.by_way.get(&(host, from, to)).copied();
        if let Some(known) = known.filter(|known| self.all.get(known).is_some_and(|ends| ends[0].is_open)) {
            return known;
        }
        self.last += 1;
        self.all.insert(self.last, [End::new(host, from), End::new(to_host, to)]);
        self.by_way.insert((host, from, to), self.last);
        self.last
    }

    /// Cuts bytes into pieces.
    fn pieces(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut rest = bytes;
        let mut pieces = Vec::new();
        while rest.len() > 1 && self.rng.random_bool(CUT) {
            let (piece, other) = rest.split_at(self.rng.random_range(1..rest.len()));
            pieces.push(piece.to_vec());
            rest = other;
        }
        pieces.push(rest.to_vec());
        pieces
    }

    /// Closes an end. The connection is forgotten when both ends are closed.
    fn close(&mut self, connection: u32, end: usize) {
        let Some(ends) = self.all.get_mut(&connection) else { return };
        ends[end].is_open = false;
        if ends.iter().all(|end| !end.is_open) {
            let [own, other] = &self.all[&connection];
            let way = (own.host, own.address, other.address);
            if self.by_way.get(&way) == Some(&connection) {
                self.by_way.remove(&way);
            }
            self.all.remove(&connection);
        }
    }
}

impl<W: Wrapper> World<W> {
    fn later(&mut self, at: Instant, message: LinkMessage) {
        let key = self.on_the_way.insert(message);
        self.queue.at(at, Event::Arrives(key));
    }

    /// Sends a message of this host from this address. If the connection is gone, the failure of a request is reported,
    /// and a response uses another connection (RFC 3261 §18.2.2).
    pub(super) fn put(
        &mut self,
        now: Instant,
        (host, from): (HostIndex, SocketAddr),
        (to_host, flow): (HostIndex, Flow),
        bytes: &[u8],
    ) {
        let is_request = !bytes.starts_with(b"SIP/2.0 ");
        let (connection, own) = match self.connections.named(host, flow) {
            Some(named) => named,
            None if flow.connection.is_some() && is_request => {
                let (to, quoted) = (flow, bytes.to_vec());
                return self.later(now, LinkMessage::Refusal { host, from, to, quoted, says_of_peer: false });
            }
            None => (self.connections.opened((host, from), (to_host, flow.peer)), 0),
        };
        let pieces = self.connections.pieces(bytes);
        if let Some(ends) = self.connections.all.get_mut(&connection) {
            ends[1 - own].messages.push_back(bytes.to_vec());
            if is_request {
                ends[own].requested = Some(now);
            }
        }
        for mut piece in pieces {
            self.wrapper.carries(&mut piece);
            self.put_piece(now, (connection, own), piece);
        }
    }

    /// Puts bytes on their way, after those sent before.
    fn put_piece(&mut self, now: Instant, (connection, own): (u32, usize), piece: Vec<u8>) {
        let Some(ends) = self.connections.all.get(&connection) else { return };
        if ends[1 - own].is_stuck {
            return;
        }
        let (host, to_host) = (ends[own].host, ends[1 - own].host);
        let last = ends[1 - own].pieces.back().map_or(now, |(at, _)| *at);
        let (mut sent, mut timeout) = (now, FIRST_TIMEOUT);
        let arrives = loop {
            if let Some(at) = self.network.send(sent, host, to_host).next() {
                break Some(at);
            }
            (sent, timeout) = (sent + timeout, timeout * 2);
            if sent > now + GIVEN_UP {
                break None;
            }
        };
        let Some(at) = arrives else {
            if let Some(ends) = self.connections.all.get_mut(&connection) {
                ends[1 - own].is_stuck = true;
            }
            return self.later(now + GIVEN_UP, LinkMessage::Cut { connection, end: own });
        };
        let waits = if self.connections.rng.random_bool(JOINED) { JOINED_WITHIN } else { Duration::ZERO };
        let at = (at + waits).max(last);
        if let Some(ends) = self.connections.all.get_mut(&connection) {
            ends[1 - own].pieces.push_back((at, piece));
        }
        self.later(at, LinkMessage::Piece { connection, end: 1 - own });
    }

    /// Returns whether this host accepts connections; `None`: its machine is gone and cannot refuse.
    fn listens(&self, host: HostIndex) -> Option<bool> {
        match &self.hosts[host as usize].role {
            Role::Answerer { agent: None, refuses, .. } => refuses.then_some(false),
            Role::Process(None) => Some(false),
            Role::Caller { .. } | Role::Answerer { .. } | Role::Process(Some(_)) => Some(true),
        }
    }

    /// Delivers bytes at an end, and handles the messages that are complete.
    pub(super) fn comes_out(&mut self, now: Instant, connection: u32, end: usize) -> Result<(), String> {
        let Some(ends) = self.connections.all.get_mut(&connection) else { return Ok(()) };
        let (it, other) = if end == 0 {
            let [it, other] = ends;
            (it, other)
        } else {
            let [other, it] = ends;
            (it, other)
        };
        let mut taken = Vec::new();
        while let Some((_, piece)) = it.pieces.pop_front_if(|(at, _)| *at <= now) {
            taken.extend(piece);
        }
        let (host, to, from_host, from) = (it.host, it.address, other.host, other.address);
        let is_open = it.is_open;
        if !is_open || self.listens(host) != Some(true) {
            self.reject_piece(now, connection, end);
            return Ok(());
        }
        let Some(ends) = self.connections.all.get_mut(&connection) else { return Ok(()) };
        let it = &mut ends[end];
        it.framer.take(&taken);
        let mut messages = Vec::new();
        loop {
            match it.framer.next() {
                Ok(Some(Framed::Message(message))) => {
                    let message = message.to_vec();
                    if it.messages.pop_front().as_ref() != Some(&message) {
                        let text = message.escape_ascii();
                        return Err(RunRule::OtherMessage.broken(format_args!("{text}")));
                    }
                    messages.push(message);
                }
                Ok(Some(Framed::Ping | Framed::Pong)) => {}
                Ok(None) => break,
                Err(fault) => return Err(RunRule::OtherMessage.broken(format_args!("{fault}"))),
            }
        }
        let flow = Flow {
            transport: Transport::Tcp,
            listener: 0,
            peer: from,
            connection: NonZeroU32::new(connection).map(Number),
        };
        for bytes in &messages {
            self.counts.datagrams += 1;
            super::traffic::mix(&mut self.trace, bytes);
            self.received(now, host, &Arrived { from_host, flow, to, bytes })?;
        }
        Ok(())
    }

    /// Handles bytes for a closed end: the other end gets a reset, or times out if there is no machine to send one.
    fn reject_piece(&mut self, now: Instant, connection: u32, end: usize) {
        let Some(host) = self.connections.host(connection, end) else { return };
        let after = if self.listens(host).is_none() { GIVEN_UP } else { self.plan.delay };
        self.connections.close(connection, end);
        self.later(now + after, LinkMessage::Cut { connection, end: 1 - end });
    }

    /// Closes an end whose connection broke. Its pending requests get no response.
    pub(super) fn is_cut(&mut self, now: Instant, connection: u32, end: usize) -> Result<(), String> {
        let Some(ends) = self.connections.all.get(&connection) else { return Ok(()) };
        let (it, other) = (&ends[end], &ends[1 - end]);
        if !it.is_open {
            return Ok(());
        }
        let (host, from, is_ours) = (it.host, it.address, end == 0);
        let waits = it.requested.is_some_and(|requested| now < requested + ANSWERED_WITHIN);
        let number = NonZeroU32::new(connection).map(Number).filter(|_| !is_ours);
        let to = Flow { transport: Transport::Tcp, listener: 0, peer: other.address, connection: number };
        let says_of_peer = is_ours && self.listens(other.host) != Some(true);
        self.connections.close(connection, end);
        if waits { self.refused(now, host, (from, to, says_of_peer), &[]) } else { Ok(()) }
    }

    /// Closes all connections of a host.
    pub(super) fn close_all(&mut self, host: HostIndex, how: CutOff) {
        let now = self.queue.now();
        let of_host = |(number, ends): (&u32, &[End; 2])| {
            let end = ends.iter().position(|end| end.host == host && end.is_open)?;
            Some((*number, end))
        };
        let closed: Vec<_> = self.connections.all.iter().filter_map(of_host).collect();
        for (connection, end) in closed {
            // The agent on the host learns of it at once, from its own kernel.
            self.later(now, LinkMessage::Cut { connection, end });
            if how == CutOff::Announced {
                self.later(now + self.plan.delay, LinkMessage::Cut { connection, end: 1 - end });
            }
        }
    }
}
