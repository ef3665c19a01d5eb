use crate::clock::Clock;
use crate::key;
use crate::shards::listen::Bind;
use crate::socket::{BATCH, ReceiveBatch, SendBatch, UdpSocket, read_errors};
use balance::{Effect, Slot};
use base::{Instant, Outbox};
use config::Config;
use node::{Outcome, ProbeSettings, Prober};
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The prober with its own two sockets: answers to probes never pass through the shards, and a busy shard
/// never makes a healthy member look dead.
pub(super) struct Probes {
    prober: Prober,
    /// IPv4 and IPv6, where there is a listener of the family.
    sockets: [Option<AsyncFd<UdpSocket>>; 2],
    receive: ReceiveBatch,
    /// Whether a socket may have more than was read at once.
    is_unread: bool,
    send: SendBatch,
    out: Outbox<Outcome>,
}

/// Batches that are read at once: whoever sends more than that must not keep signals and operators waiting.
const BATCHES_MOST: usize = 4;

/// Answers to some thousand probes at a time.
const RECEIVE_BUFFER: usize = 1 << 20;

impl Probes {
    pub(super) fn new(config: &Config, binds: &[Bind]) -> io::Result<Self> {
        let open = |v6: bool| -> io::Result<Option<(SocketAddr, AsyncFd<UdpSocket>)>> {
            // From an address that the members know, on a port of its own.
            let of_family = |ip: &IpAddr| ip.is_ipv6() == v6;
            let mut addresses = binds.iter().map(|bind| bind.address.ip()).filter(of_family);
            let best = addresses.clone().find(|ip| !ip.is_loopback()).or_else(|| addresses.next());
            let Some(ip) = best else { return Ok(None) };
            let all_loopback =
                binds.iter().map(|bind| bind.address.ip()).filter(of_family).all(|ip| ip.is_loopback());
            // Several addresses: the kernel picks the source for each member.
            let several =
                !all_loopback && binds.iter().filter(|bind| of_family(&bind.address.ip())).count() > 1;
            let unspecified: IpAddr = if v6 { [0_u16; 8].into() } else { [0_u8; 4].into() };
            let bind = if several { unspecified } else { ip };
            let socket = UdpSocket::bind(SocketAddr::new(bind, 0), false, RECEIVE_BUFFER)?;
            let local = SocketAddr::new(ip, socket.local_addr()?.port());
            Ok(Some((local, socket.watch()?)))
        };
        let (v4, v6) = (open(false)?, open(true)?);
        let local = [&v4, &v6].map(|open| open.as_ref().map(|(local, _)| *local));
        Ok(Self {
            prober: Prober::new(settings(config), key::random()?, local),
            sockets: [v4, v6].map(|open| open.map(|(_, socket)| socket)),
            receive: ReceiveBatch::new(),
            is_unread: false,
            send: SendBatch::new(),
            out: Outbox::default(),
        })
    }

    pub(super) fn set_config(&mut self, config: &Config) {
        self.prober.set_settings(settings(config));
    }

    pub(super) fn set_targets(&mut self, now: Instant, targets: &[(Slot, SocketAddr)]) {
        self.prober.set_targets(now, targets);
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        self.prober.carry_out(effect);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.prober.deadline()
    }

    /// Sends what is due.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Outcome> {
        self.prober.tick(now, &mut self.out);
        for (family, socket) in self.sockets.iter().enumerate() {
            let Some(socket) = socket else { continue };
            let transmits = self.out.transmits().iter().filter(|t| t.flow.listener as usize == family);
            let messages = transmits.map(|t| (t.range.clone(), t.flow.peer));
            self.send.send(socket.get_ref(), self.out.bytes(), messages);
        }
        self.outcomes()
    }

    /// Waits for answers and network errors. May be dropped at any await without losing one.
    pub(super) async fn receive(&mut self, clock: Clock) -> Vec<Outcome> {
        if self.is_unread {
            tokio::task::yield_now().await;
        } else {
            let [v4, v6] = &self.sockets;
            tokio::select! {
                () = readable(v4.as_ref()) => {}
                () = readable(v6.as_ref()) => {}
            }
        }
        self.is_unread = false;
        let now = clock.now();
        // Both: where one is flooded, the members of the other family are heard all the same.
        for socket in self.sockets.iter().flatten() {
            let (prober, out) = (&mut self.prober, &mut self.out);
            // Other errors pass (a route that flaps, a firewall) or do not; the time-out will tell.
            let mut fail = |address, error: io::Error, quoted: &[u8]| {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    prober.unreachable(now, address, quoted, out);
                }
            };
            while read_errors(socket.get_ref(), &mut fail).is_ok_and(|count| count == BATCH) {}
            for batch in 1..=BATCHES_MOST {
                let Ok(count @ 1..) = self.receive.receive(socket.get_ref()) else { break };
                for (bytes, from) in self.receive.iter() {
                    if let Some(member) = self.prober.receive(from, bytes, &mut self.out) {
                        tracing::warn!(%member, %from, "an answer to a probe came from another host: it does not count");
                    }
                }
                if count < BATCH {
                    break;
                }
                // What stays behind would make the socket ready only when another one comes.
                self.is_unread |= batch == BATCHES_MOST;
            }
        }
        self.outcomes()
    }

    fn outcomes(&mut self) -> Vec<Outcome> {
        let outcomes = self.out.drain_events().collect();
        self.out.clear();
        outcomes
    }
}

fn settings(config: &Config) -> ProbeSettings {
    let t1 = config.timers.t1;
    match config.pool().map(|pool| &pool.probe) {
        Some(probe) => {
            let (interval, timeout) = (probe.interval, probe.timeout);
            ProbeSettings { periodic: probe.enabled, interval, timeout, t1 }
        }
        // A proxy has nobody to ask.
        None => ProbeSettings { periodic: false, interval: t1, timeout: t1, t1 },
    }
}

/// Until the socket has a datagram or an error; for ever without a socket.
async fn readable(socket: Option<&AsyncFd<UdpSocket>>) {
    let Some(socket) = socket else { return std::future::pending().await };
    if let Ok(mut ready) = socket.ready(Interest::READABLE | Interest::ERROR).await {
        // Everything is read after this; what comes later makes it ready again.
        ready.clear_ready();
    }
}
