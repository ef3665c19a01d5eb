//! The transport of an agent: a UDP socket, or connections.

use super::snapshot::Snapshot;
use base::{Flow, Instant, Outbox, Transport};
use core::time::Duration;
use load::AgentEvent;
use rustix::event::{PollFd, PollFlags};
use sockets::{ReceiveBatch, SendBatch, UdpSocket, cannot_listen, read_errors};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use streams::tls::TlsSetup;
use streams::{ConnectionLimits, StreamBatch, StreamListener, StreamSettings, StreamSetup, Streams, listen};

/// Receive buffer of an agent, in bytes. It holds the messages of some thousand calls, so that none is lost while the
/// thread does not run.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Most bytes that wait for the peer of a connection: those of some thousand calls.
const SEND_BUFFER: usize = 4 << 20;

/// Most connections of an agent: only descriptors limit them.
const MOST: usize = 1 << 20;

/// The transport of an agent.
pub struct AgentLink(Medium);

enum Medium {
    Udp(Box<UdpLink>),
    Streams(Box<StreamLink>),
}

struct UdpLink {
    socket: UdpSocket,
    receive: ReceiveBatch,
    send: SendBatch,
}

struct StreamLink {
    streams: Streams,
    batch: StreamBatch,
    address: SocketAddr,
}

/// Binds a socket for an agent. With port 0 the kernel chooses one, which `local_addr` returns.
///
/// # Errors
/// As `bind(2)`.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::bind(address, false, RECEIVE_BUFFER)
        .map_err(|error| cannot_listen(address, &error, "`ss -lunp` shows the process that has it"))
}

impl From<UdpSocket> for AgentLink {
    fn from(socket: UdpSocket) -> Self {
        Self(Medium::Udp(Box::new(UdpLink { socket, receive: ReceiveBatch::new(), send: SendBatch::new() })))
    }
}

impl AgentLink {
    /// Listens for connections over `transport`, and opens up to `connections` to one address, each from another source
    /// port.
    ///
    /// # Errors
    /// As `bind(2)` and `listen(2)`.
    pub fn streams(
        transport: Transport,
        address: SocketAddr,
        connections: u16,
        tls: Option<Arc<TlsSetup>>,
    ) -> io::Result<Self> {
        let socket = listen(address, false)
            .map_err(|error| cannot_listen(address, &error, "`ss -ltnp` shows the process that has it"))?;
        let address = socket.local_addr()?;
        // Only the peer, or the end of the agent, closes a connection.
        let (idle, handshake) = (Duration::from_hours(24), Duration::from_secs(30));
        let streams = Streams::new(StreamSetup {
            index: 0,
            threads: 1,
            locals: vec![address; connections.into()],
            listeners: vec![StreamListener::new(0, transport, socket, Vec::new())],
            limits: ConnectionLimits::new(MOST, MOST, 0),
            settings: StreamSettings {
                idle,
                handshake,
                send_buffer: SEND_BUFFER,
                opens_websocket: true,
                memory: usize::MAX,
                origins: Arc::default(),
                admission: Arc::default(),
                tls,
            },
        })?;
        Ok(Self(Medium::Streams(Box::new(StreamLink { streams, batch: StreamBatch::default(), address }))))
    }

    /// Returns its local address.
    ///
    /// # Errors
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Medium::Udp(udp) => udp.socket.local_addr(),
            Medium::Streams(streams) => Ok(streams.address),
        }
    }

    /// Returns the descriptor to wait on.
    pub(super) fn watched(&self) -> PollFd<'_> {
        match &self.0 {
            Medium::Udp(udp) => PollFd::new(&udp.socket, PollFlags::IN),
            Medium::Streams(streams) => streams.streams.watched(),
        }
    }

    /// Whether there is input that [`watched`](Self::watched) does not report.
    pub(super) fn has_unread(&self) -> bool {
        matches!(&self.0, Medium::Streams(streams) if streams.streams.has_unread())
    }

    /// Reads one batch. Timers that are due come before the next batch.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        ready: PollFlags,
        figures: &mut Snapshot<()>,
        message: impl FnMut(Flow, &[u8]),
    ) -> io::Result<()> {
        match &mut self.0 {
            Medium::Udp(udp) => udp.receive(ready, figures, message),
            Medium::Streams(streams) => {
                streams.receive(now, figures, message);
                Ok(())
            }
        }
    }

    /// Sends the messages of a step.
    pub(super) fn send(&mut self, now: Instant, out: &Outbox<AgentEvent>, figures: &mut Snapshot<()>) {
        match &mut self.0 {
            Medium::Udp(udp) => udp.send(out, figures),
            Medium::Streams(streams) => streams.send(now, out, figures),
        }
    }

    /// Closes connections as their protocols require.
    pub(super) fn close(&mut self, now: Instant) {
        if let Medium::Streams(streams) = &mut self.0 {
            streams.streams.stop(now);
        }
    }

    /// Updates the figures that are not counted for each message.
    pub(super) fn count(&self, figures: &mut Snapshot<()>) {
        match &self.0 {
            Medium::Udp(udp) => {
                figures.receive_lost = udp.socket.lost_datagrams().unwrap_or_default().into();
            }
            Medium::Streams(streams) => figures.connections = streams.streams.counts,
        }
    }
}

impl UdpLink {
    fn receive(
        &mut self,
        ready: PollFlags,
        figures: &mut Snapshot<()>,
        mut message: impl FnMut(Flow, &[u8]),
    ) -> io::Result<()> {
        if ready.contains(PollFlags::ERR) {
            figures.unreachable += read_errors(&self.socket, |_, _, _| {})? as u64;
        }
        if ready.contains(PollFlags::IN) {
            figures.received += self.receive.receive(&self.socket)? as u64;
            self.receive.iter().for_each(|(bytes, from)| message(Flow::udp(0, from), bytes));
        }
        Ok(())
    }

    fn send(&mut self, out: &Outbox<AgentEvent>, figures: &mut Snapshot<()>) {
        let transmits = out.transmits().iter().map(|transmit| (transmit.range.clone(), transmit.flow.peer));
        let report = self.send.send(&self.socket, out.bytes(), transmits);
        figures.sent += report.sent as u64;
        figures.send_failed += report.dropped as u64;
    }
}

impl StreamLink {
    fn receive(&mut self, now: Instant, figures: &mut Snapshot<()>, mut message: impl FnMut(Flow, &[u8])) {
        self.streams.turn(now, &mut self.batch);
        self.streams.on_time(now);
        while let Some((from, bytes)) = self.batch.first() {
            figures.received += 1;
            message(from, bytes);
            self.batch.take();
        }
    }

    fn send(&mut self, now: Instant, out: &Outbox<AgentEvent>, figures: &mut Snapshot<()>) {
        for transmit in out.transmits() {
            self.streams.send(now, transmit.flow, out.message(transmit));
        }
        self.streams.flush(now);
        figures.sent += out.transmits().len() as u64;
        figures.unreachable += self.streams.take_undelivered().len() as u64;
    }
}
