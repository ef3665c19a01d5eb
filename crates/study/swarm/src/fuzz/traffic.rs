//! Messages of the parties around an element, and answers of the DNS.

use super::messages;
use crate::Sent;
use core::time::Duration;
use node::{HopName, Resolved};
use std::net::SocketAddr;

pub(super) const CLIENTS: [&str; 3] = ["192.0.2.66:5060", "192.0.2.67:6000", "[2001:db8::66]:6000"];

/// Number of messages kept to be answered, followed, repeated or altered.
const KEPT: usize = 32;

/// A received datagram.
#[derive(Clone)]
pub(super) struct Received {
    pub(super) listener: u16,
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

/// The remaining operations, and the earlier messages that they refer to.
pub(super) struct Traffic<'a> {
    data: core::slice::Iter<'a, u8>,
    listeners: [SocketAddr; 3],
    received: Vec<Received>,
    sent: Vec<Sent>,
}

pub(super) fn addr(text: &str) -> SocketAddr {
    text.parse().expect("the constants are addresses")
}

/// Returns the DNS answer for a name: names with a port exist.
pub(super) fn resolved(name: &HopName) -> Resolved {
    let found = name.port.map(|port| (SocketAddr::new(addr(CLIENTS[0]).ip(), port), 1.0));
    let (addresses, fresh_for) = (found.into_iter().collect(), Duration::from_secs(30));
    Resolved { transport: name.transport, addresses, partial: false, fresh_for }
}

impl<'a> Traffic<'a> {
    pub(super) fn new(data: &'a [u8], listeners: [SocketAddr; 3]) -> Self {
        Self { data: data.iter(), listeners, received: Vec::new(), sent: Vec::new() }
    }

    /// Returns the next operation; `None` at the end of the input.
    pub(super) fn operation(&mut self) -> Option<u8> {
        self.data.next().copied()
    }

    /// Returns the next number, or 0 at the end of the input.
    pub(super) fn choose(&mut self) -> u8 {
        self.operation().unwrap_or_default()
    }

    /// Makes a client's request to one of the listeners.
    pub(super) fn client_request(&mut self, from: SocketAddr, listener: u16) -> Received {
        let listeners = self.listeners;
        Received { listener, from, bytes: messages::request(from, &listeners, &mut || self.choose()) }
    }

    /// Makes a node's request to a client.
    pub(super) fn node_request(&mut self, nodes: &[(&str, u16)]) -> Received {
        let (from, listener) = nodes[usize::from(self.choose()) % nodes.len()];
        let from = addr(from);
        Received { listener, from, bytes: messages::request(from, &CLIENTS.map(addr), &mut || self.choose()) }
    }

    pub(super) fn answer_to_sent(&mut self) -> Option<Received> {
        let sent = self.pick_sent()?;
        let source = self.listeners[usize::from(sent.listener)];
        let bytes = messages::answer(&sent, source, &mut || self.choose())?;
        Some(Received { listener: sent.listener, from: sent.to, bytes })
    }

    pub(super) fn follow_up(&mut self) -> Option<Received> {
        let sent = self.pick_sent()?;
        let bytes = messages::follow(&sent, &mut || self.choose())?;
        Some(Received { listener: sent.listener, from: sent.to, bytes })
    }

    pub(super) fn forwarded_by_recipient(&mut self) -> Option<Received> {
        let sent = self.pick_sent()?;
        let bytes = messages::pass_on(&sent, &mut || self.choose())?;
        Some(Received { listener: sent.listener, from: sent.to, bytes })
    }

    /// Repeats a received datagram.
    pub(super) fn repeated(&mut self) -> Option<Received> {
        let at = usize::from(self.choose());
        self.received.get(at % self.received.len().max(1)).cloned()
    }

    /// Repeats a received datagram with some bytes changed, or from another address.
    pub(super) fn altered(&mut self) -> Option<Received> {
        let mut received = self.repeated()?;
        for _ in 0..self.choose() % 4 {
            let at = usize::from(self.choose()) << 8 | usize::from(self.choose());
            let at = at % received.bytes.len();
            received.bytes[at] = self.choose();
        }
        if self.choose() & 1 == 1 {
            let ipv6 = self.listeners[usize::from(received.listener)].is_ipv6();
            received.from = addr(CLIENTS[usize::from(ipv6) * 2]);
        }
        Some(received)
    }

    pub(super) fn noise(&mut self) -> Received {
        let length = usize::from(self.choose());
        let bytes = self.data.by_ref().take(length).copied().collect();
        Received { listener: 0, from: addr(CLIENTS[0]), bytes }
    }

    pub(super) fn pick_sent(&mut self) -> Option<Sent> {
        let at = usize::from(self.choose());
        self.sent.get(at % self.sent.len().max(1)).cloned()
    }

    /// Keeps a sent message to be answered. `at` chooses the message that it replaces.
    pub(super) fn keep_sent(&mut self, sent: Sent, at: u8) {
        keep(&mut self.sent, sent, at);
    }

    /// Keeps a received datagram to be repeated. It must not be empty, since an empty one cannot be altered.
    pub(super) fn keep_received(&mut self, received: Received, at: u8) {
        keep(&mut self.received, received, at);
    }
}

fn keep<M>(list: &mut Vec<M>, message: M, at: u8) {
    if list.len() < KEPT {
        list.push(message);
    } else {
        list[usize::from(at) % KEPT] = message;
    }
}
