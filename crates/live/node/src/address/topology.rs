//! Addresses of this process and of its nodes.

use crate::address::ports::Ports;
use balance::{NodeId, Slot};
use base::{Flow, Peer, SipHash, Transport};
use core::hash::Hasher;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wire::{Host, SipUri};

/// Returns the identity of the node at this peer address. It is the same in every process that uses this node.
pub fn node_id(peer: Peer) -> NodeId {
    let mut hasher = SipHash::new([0; 2]);
    hasher.write(peer.address.to_string().as_bytes());
    if peer.transport != Transport::Udp {
        hasher.write(peer.transport.name().as_bytes());
    }
    NodeId(hasher.finish() as u32)
}

/// The addresses of a process, and of its nodes by slot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AddressTable {
    /// Ports of this process.
    pub ports: Ports,
    /// Host names of this process in lower case, each with its port; `None`: the name is valid for any port.
    pub names: Vec<(String, Option<u16>)>,
    /// Flows to the nodes, by slot.
    nodes: Vec<Flow>,
    by_peer: BTreeMap<Peer, Slot>,
    by_id: BTreeMap<NodeId, Slot>,
}

impl AddressTable {
    /// Creates a table without nodes.
    pub fn new(ports: Ports, names: Vec<(String, Option<u16>)>) -> Self {
        Self { ports, names, ..Self::default() }
    }

    /// Adds the node of the next slot.
    pub fn push_node(&mut self, node: Flow) {
        self.nodes.push(node);
        self.find_again(Slot(self.nodes.len() as u16 - 1));
    }

    /// Removes a slot from the search by token and by source address. The sessions of the slot stay.
    pub fn forget(&mut self, slot: Slot) {
        self.by_peer.retain(|_, at| *at != slot);
        self.by_id.retain(|_, at| *at != slot);
    }

    /// Adds a slot again to the search by token and by source address.
    pub fn find_again(&mut self, slot: Slot) {
        let peer = self.nodes[slot.index()].remote();
        self.by_peer.insert(peer, slot);
        self.by_id.insert(node_id(peer), slot);
    }

    /// Returns the flow to a node.
    pub fn node(&self, slot: Slot) -> Flow {
        self.nodes[slot.index()]
    }

    /// Returns all nodes by slot, including former members.
    pub fn nodes(&self) -> &[Flow] {
        &self.nodes
    }

    /// Returns the IP addresses of members and next hops.
    pub fn hosts(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.by_peer.keys().map(|peer| peer.address.ip().to_canonical())
    }

    /// Returns the node that a token names.
    pub(crate) fn slot(&self, id: NodeId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    /// Returns the node with this peer address.
    pub fn slot_at(&self, peer: Peer) -> Option<Slot> {
        self.by_peer.get(&peer).copied()
    }

    /// Returns the node that messages to this peer reach. This includes a node reached over UDP whose long requests go
    /// by TCP (RFC 3261 §18.1.1).
    pub(crate) fn slot_toward(&self, peer: Peer) -> Option<Slot> {
        let known = self.slot_at(peer);
        if known.is_some() || peer.transport != Transport::Tcp {
            return known;
        }
        self.slot_at(Peer::new(Transport::Udp, peer.address))
    }

    /// Returns the configured UDP flow of a node if `flow` leads to that node over TCP in its place; otherwise `flow`
    /// itself.
    pub(crate) fn known_as(&self, flow: Flow) -> Flow {
        if flow.transport != Transport::Tcp {
            return flow;
        }
        self.slot_toward(flow.remote()).map_or(flow, |slot| self.node(slot))
    }

    /// Returns the node that sent the messages of this flow. A node that has opened the connection may use any port.
    /// Then it is recognised by its IP address, if no other node has the same IP address and transport.
    pub fn slot_of(&self, flow: Flow) -> Option<Slot> {
        let at = flow.remote();
        let known = self.slot_toward(at);
        if known.is_some() || flow.connection.is_none() {
            return known;
        }
        let with_port = |port| Peer::new(at.transport, SocketAddr::new(at.address.ip(), port));
        let mut there = self.by_peer.range(with_port(0)..=with_port(u16::MAX));
        let (_, only) = there.next()?;
        there.next().is_none().then_some(*only)
    }

    /// Returns whether a Request-URI or Route URI names this proxy (RFC 3261 §16.4).
    pub(crate) fn is_ours(&self, uri: &SipUri<'_>) -> bool {
        match uri.host {
            Host::Name(name) => self.is_our_name(name, self.ports.port_of(uri)),
            Host::V4(_) | Host::V6(_) => self.ports.named(uri).is_some(),
        }
    }

    /// Returns whether a host name with this port names this proxy.
    pub(crate) fn is_our_name(&self, name: &[u8], port: u16) -> bool {
        let name = name.strip_suffix(b".").unwrap_or(name);
        self.names.iter().any(|(ours, for_port)| {
            name.eq_ignore_ascii_case(ours.as_bytes()) && for_port.is_none_or(|ours| ours == port)
        })
    }

    /// Returns whether a host names this proxy, whatever the port.
    pub(crate) fn is_our_host(&self, host: Host<'_>) -> bool {
        match host {
            Host::Name(name) => self.names.iter().any(|(ours, _)| name.eq_ignore_ascii_case(ours.as_bytes())),
            Host::V4(_) | Host::V6(_) => self.ports.has_host(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Connection;
    use core::num::NonZeroU32;

    fn way(transport: Transport, address: &str) -> Flow {
        Flow { transport, listener: 0, peer: address.parse().unwrap(), connection: None }
    }

    #[test]
    fn two_transports_at_one_address_are_two_nodes() {
        let mut topology = AddressTable::default();
        let (udp, tcp) = (way(Transport::Udp, "192.0.2.1:5060"), way(Transport::Tcp, "192.0.2.1:5060"));
        topology.push_node(udp);
        topology.push_node(tcp);
        assert_eq!([udp, tcp].map(|node| topology.slot_at(node.remote())), [Some(Slot(0)), Some(Slot(1))]);
        assert_ne!(node_id(udp.remote()), node_id(tcp.remote()));
        topology.forget(Slot(0));
        assert_eq!([udp, tcp].map(|node| topology.slot_of(node)), [None, Some(Slot(1))]);
    }

    #[test]
    fn a_node_that_opened_the_connection_is_recognised_by_its_address() {
        let mut topology = AddressTable::default();
        let nodes = [
            way(Transport::Tcp, "192.0.2.1:5060"),
            way(Transport::Tcp, "192.0.2.2:5060"),
            way(Transport::Tcp, "192.0.2.2:5080"),
        ];
        for node in nodes {
            topology.push_node(node);
        }
        let connection = NonZeroU32::new(1).map(Connection);
        let from =
            |transport, address, connection| topology.slot_of(Flow { connection, ..way(transport, address) });
        assert_eq!(from(Transport::Tcp, "192.0.2.1:40001", connection), Some(Slot(0)));
        assert_eq!(
            from(Transport::Tcp, "192.0.2.2:5080", connection),
            Some(Slot(2)),
            "this process opened the connection"
        );
        assert_eq!(
            from(Transport::Tcp, "192.0.2.2:40001", connection),
            None,
            "either of two nodes may have opened it"
        );
        assert_eq!(from(Transport::Tls, "192.0.2.1:40001", connection), None);
        assert_eq!(from(Transport::Udp, "192.0.2.1:40001", None), None);
    }
}
