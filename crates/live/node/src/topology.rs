//! Which addresses are ours, and where the nodes are.

use balance::{NodeId, Slot};
use base::{Flow, Transport};
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use wire::{Host, SipUri, Via};

/// A local socket as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// What it listens for.
    pub transport: Transport,
    /// What we write into Via and Record-Route.
    pub advertised: SocketAddr,
    /// The same as text.
    pub(crate) sent_by: String,
    /// What our Via begins with, up to the branch.
    pub(crate) via: String,
}

impl Listener {
    /// A listener for UDP that is reached at `advertised`.
    pub fn udp(advertised: SocketAddr) -> Self {
        Self::new(Transport::Udp, advertised)
    }

    /// A listener that is reached at `advertised`.
    pub fn new(transport: Transport, advertised: SocketAddr) -> Self {
        let sent_by = advertised.to_string();
        let via = format!("SIP/2.0/{} {sent_by};branch=", transport.name());
        Self { transport, advertised, sent_by, via }
    }
}

/// Identity of the node that is reached over this transport at this address: the same in every process that talks to it.
pub fn node_id(transport: Transport, address: SocketAddr) -> NodeId {
    let mut hasher = SipHasher13::new();
    hasher.write(address.to_string().as_bytes());
    if transport != Transport::Udp {
        hasher.write(transport.name().as_bytes());
    }
    NodeId(hasher.finish() as u32)
}

/// The addresses of a process: its own, and its nodes' by slot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    /// Our listeners, by index; at most 256.
    pub listeners: Vec<Listener>,
    /// Host names (in lower case) that mean us, with a port or for any port.
    pub names: Vec<(String, Option<u16>)>,
    /// How each is reached.
    nodes: Vec<Flow>,
    by_address: BTreeMap<SocketAddr, Slot>,
    by_id: BTreeMap<NodeId, Slot>,
}

impl Topology {
    /// Listeners and names, no node yet.
    pub fn new(listeners: Vec<Listener>, names: Vec<(String, Option<u16>)>) -> Self {
        Self { listeners, names, ..Self::default() }
    }

    /// Adds the node of the next slot.
    pub fn push_node(&mut self, node: Flow) {
        self.nodes.push(node);
        self.find_again(Slot(self.nodes.len() as u16 - 1));
    }

    /// Gives a slot to another node.
    pub fn replace_node(&mut self, slot: Slot, node: Flow) {
        self.forget(slot);
        self.nodes[slot.index()] = node;
        self.find_again(slot);
    }

    /// No token and no source address leads to this slot any more. Sessions that are there stay.
    pub fn forget(&mut self, slot: Slot) {
        self.by_address.retain(|_, at| *at != slot);
        self.by_id.retain(|_, at| *at != slot);
    }

    /// Tokens and its source address lead to this slot.
    pub fn find_again(&mut self, slot: Slot) {
        let Flow { transport, peer, .. } = self.nodes[slot.index()];
        self.by_address.insert(peer, slot);
        self.by_id.insert(node_id(transport, peer), slot);
    }

    /// The way to a node.
    pub fn node(&self, slot: Slot) -> Flow {
        self.nodes[slot.index()]
    }

    /// All nodes by slot, those that are no longer members included.
    pub fn nodes(&self) -> &[Flow] {
        &self.nodes
    }

    /// The node that a token names.
    pub(crate) fn slot(&self, id: NodeId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    /// The node at an address.
    pub fn slot_at(&self, address: SocketAddr) -> Option<Slot> {
        self.by_address.get(&address).copied()
    }

    /// Whether a Request-URI or Route URI means this balancer (RFC 3261 §16.4).
    pub(crate) fn is_ours(&self, uri: &SipUri<'_>) -> bool {
        let port = uri.port.unwrap_or(5060);
        match uri.host {
            Host::Name(name) => self.names.iter().any(|(ours, for_port)| {
                name.eq_ignore_ascii_case(ours.as_bytes()) && for_port.is_none_or(|ours| ours == port)
            }),
            Host::V4(_) | Host::V6(_) => self.listener_named(uri).is_some(),
        }
    }

    /// Whether a host means this balancer, whatever the port.
    pub(crate) fn is_our_host(&self, host: Host<'_>) -> bool {
        match (host, host.ip().map(|ip| ip.to_canonical())) {
            (Host::Name(name), _) => {
                self.names.iter().any(|(ours, _)| name.eq_ignore_ascii_case(ours.as_bytes()))
            }
            (_, ip) => {
                self.listeners.iter().any(|listener| Some(listener.advertised.ip().to_canonical()) == ip)
            }
        }
    }

    /// The listener whose address a URI of ours names.
    pub(crate) fn listener_named(&self, uri: &SipUri<'_>) -> Option<u16> {
        let address = SocketAddr::new(uri.host.ip()?, uri.port.unwrap_or(5060));
        self.listeners.iter().position(|listener| listener.advertised == address).map(|index| index as u16)
    }

    /// Whether one of our listeners wrote this Via, by its sent-by (RFC 3261 §16.3 step 4).
    pub(crate) fn is_our_via(&self, via: &Via<'_>) -> bool {
        let port = via.sent_by_port();
        let address = via.host.ip().map(|ip| SocketAddr::new(ip, port));
        self.listeners.iter().any(|listener| Some(listener.advertised) == address)
    }

    /// The way to an address: from the preferred listener, which was asked, or, should it be gone after a restart, from one
    /// of the family.
    pub(crate) fn way_to(&self, preferred: u16, to: SocketAddr) -> Option<Flow> {
        let fits = |listener: &Listener| listener.advertised.is_ipv4() == to.is_ipv4();
        let is_there = self.listeners.get(usize::from(preferred)).is_some_and(fits);
        let index = if is_there { usize::from(preferred) } else { self.listeners.iter().position(fits)? };
        let transport = self.listeners[index].transport;
        Some(Flow { transport, listener: index as u16, peer: to, connection: None })
    }
}
