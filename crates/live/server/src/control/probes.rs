//! Sending of health check probes, over UDP sockets and connections.

use super::stream_probes::{ProbeNews, StreamProbes, TlsPeer};
use ::control::{ControlEffect, ControlInput};
use base::{Outbox, Peer, Transport};
use node::Ports;
use sockets::{BATCH, ReceiveBatch, SendBatch, UdpSocket, read_errors};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Sockets for probes only. Answers to probes never pass through the shards, so a busy shard never makes a healthy
/// member look dead.
pub(super) struct ProbeSockets {
    /// IPv4 and IPv6; `None` without a listener of the family.
    sockets: [Option<AsyncFd<UdpSocket>>; 2],
    local: [Option<SocketAddr>; 2],
    receive: ReceiveBatch,
    /// Whether a socket may have more datagrams than the last reads took.
    is_unread: bool,
    send: SendBatch,
    ports: Ports,
    streams: StreamProbes,
}

/// Batches that are read at once. A flood of datagrams must not keep signals and operators waiting.
const BATCHES_MOST: usize = 4;

/// Receive buffer in bytes: answers to some thousand probes.
const RECEIVE_BUFFER: usize = 1 << 20;

impl ProbeSockets {
    pub(super) fn open(ports: &Ports) -> io::Result<Self> {
        let open = |v6: bool| -> io::Result<Option<(SocketAddr, AsyncFd<UdpSocket>)>> {
            // Binds to an address that the members know, at a port of its own.
            let of_family = |ip: &IpAddr| ip.is_ipv6() == v6;
            let over_udp = || ports.iter().filter(|port| port.transport == Transport::Udp);
            let mut addresses = over_udp().map(|port| port.local.ip()).filter(of_family);
            let best = addresses.clone().find(|ip| !ip.is_loopback()).or_else(|| addresses.next());
            let Some(ip) = best else { return Ok(None) };
            let all_loopback =
                over_udp().map(|port| port.local.ip()).filter(of_family).all(|ip| ip.is_loopback());
            // With several addresses the kernel chooses the source address for each member.
            let several = !all_loopback && over_udp().filter(|port| of_family(&port.local.ip())).count() > 1;
            let unspecified: IpAddr = if v6 { [0_u16; 8].into() } else { [0_u8; 4].into() };
            let bind = if several { unspecified } else { ip };
            let socket = UdpSocket::bind(SocketAddr::new(bind, 0), false, RECEIVE_BUFFER)?;
            let local = SocketAddr::new(ip, socket.local_addr()?.port());
            Ok(Some((local, socket.watch()?)))
        };
        let (v4, v6) = (open(false)?, open(true)?);
        let local = [&v4, &v6].map(|open| open.as_ref().map(|(local, _)| *local));
        Ok(Self {
            sockets: [v4, v6].map(|open| open.map(|(_, socket)| socket)),
            local,
            receive: ReceiveBatch::new(),
            is_unread: false,
            send: SendBatch::new(),
            ports: ports.clone(),
            streams: StreamProbes::new(),
        })
    }

    /// Returns the source addresses of probes, IPv4 and IPv6.
    pub(super) fn local(&self) -> [Option<SocketAddr>; 2] {
        self.local
    }

    /// Sends probes. `tls` returns the settings by which a server's certificate is verified.
    pub(super) fn send(&mut self, out: &Outbox<ControlEffect>, tls: impl Fn(Peer) -> Option<TlsPeer>) {
        if out.transmits().is_empty() {
            return;
        }
        for (family, socket) in self.sockets.iter().enumerate() {
            let Some(socket) = socket else { continue };
            let transmits = out
                .transmits()
                .iter()
                .filter(|t| t.flow.transport == Transport::Udp && usize::from(t.flow.listener) == family);
            let messages = transmits.map(|t| (t.range.clone(), t.flow.peer));
            self.send.send(socket.get_ref(), out.bytes(), messages);
        }
        for t in out.transmits().iter().filter(|t| t.flow.transport != Transport::Udp) {
            let Some(port) = self.ports.get(t.flow.listener) else { continue };
            let to = t.flow.remote();
            self.streams.send(to, port.local.ip(), out.message(t), tls(to));
        }
    }

    /// Waits for answers and network errors. [`Self::read`] reads the answers over UDP. An answer over a connection is
    /// returned.
    pub(super) async fn readable(&mut self) -> Option<ProbeNews> {
        let Self { sockets: [v4, v6], streams, is_unread, .. } = self;
        tokio::select! {
            () = tokio::task::yield_now(), if *is_unread => None,
            () = readable(v4.as_ref()) => None,
            () = readable(v6.as_ref()) => None,
            news = streams.heard() => Some(news),
        }
    }

    pub(super) fn read(&mut self, mut heard: impl FnMut(ControlInput<'_>)) {
        self.is_unread = false;
        // Reads both sockets, so that a flood on one does not silence the members of the other family.
        for socket in self.sockets.iter().flatten() {
            // Other errors (an unstable route, a firewall) are left to the time-out of the probe.
            let mut fail = |address, error: io::Error, quoted: &[u8]| {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    heard(ControlInput::ProbeRefused { by: Peer::new(Transport::Udp, address), quoted });
                }
            };
            while read_errors(socket.get_ref(), &mut fail).is_ok_and(|count| count == BATCH) {}
            for batch in 1..=BATCHES_MOST {
                let Ok(count @ 1..) = self.receive.receive(socket.get_ref()) else { break };
                for (bytes, from) in self.receive.iter() {
                    heard(ControlInput::ProbeMessage { from: Peer::new(Transport::Udp, from), bytes });
                }
                if count < BATCH {
                    break;
                }
                // An edge-triggered socket reports datagrams that are left over only when another one arrives.
                self.is_unread |= batch == BATCHES_MOST;
            }
        }
    }
}

/// Waits until the socket has a datagram or an error; forever without a socket.
async fn readable(socket: Option<&AsyncFd<UdpSocket>>) {
    let Some(socket) = socket else { return std::future::pending().await };
    if let Ok(mut ready) = socket.ready(Interest::READABLE | Interest::ERROR).await {
        // All datagrams are read after this. Later ones make the socket ready again.
        ready.clear_ready();
    }
}
