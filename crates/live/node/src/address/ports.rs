//! The ports that this process listens on, and the flows from them to other elements.

use crate::address::target::transport_of;
use base::{Connection, Flow, Peer, Transport};
use core::ops::Index;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::{Host, SipUri, Via, request_source_target};

/// A local address with its transport.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Transport of the port.
    pub transport: Transport,
    /// Address that the socket is bound to.
    pub local: SocketAddr,
    /// Address that others use, written into Via and Record-Route.
    pub advertised: SocketAddr,
    /// `advertised` as text.
    pub(crate) sent_by: String,
    /// Beginning of a Via value, up to the branch.
    pub(crate) via: String,
    /// Parameters of this port's URI that state the transport (RFC 3261 §19.1.1).
    pub(crate) uri_params: &'static str,
}

impl Port {
    /// Creates a port that is bound at `local`, and that others reach at `advertised`.
    pub fn new(transport: Transport, local: SocketAddr, advertised: SocketAddr) -> Self {
        let sent_by = advertised.to_string();
        // RFC 5923 §8.1: the server may send requests over the connection that this process has opened.
        let alias = if transport == Transport::Tls { ";alias" } else { "" };
        let via = format!("SIP/2.0/{} {sent_by}{alias};branch=", transport.name());
        // These parameters are short, since every request of a dialog contains them.
        let uri_params = transport.uri_param();
        Self { transport, local, advertised, sent_by, via, uri_params }
    }

    /// Returns whether this is the advertised or the bound address of the port.
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.advertised || address == self.local
    }

    /// Creates a UDP port that others reach at the address it is bound to.
    pub fn udp(address: SocketAddr) -> Self {
        Self::new(Transport::Udp, address, address)
    }
}

/// Port and connection by which a request came in, as this proxy's branch names them. Responses leave by the same port
/// and connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ingress {
    pub(crate) port: u8,
    pub(crate) connection: Option<Connection>,
}

impl Ingress {
    /// Returns the ingress of a flow's messages.
    pub(crate) fn by(flow: Flow) -> Self {
        Self { port: flow.listener as u8, connection: flow.connection }
    }
}

/// All ports by their index, [`Flow::listener`]. There are at most 256, since a branch names the port by one byte.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ports {
    all: Arc<[Port]>,
    /// Whether some ports are not UDP. Only then does the transport of a URI distinguish ports.
    is_mixed: bool,
}

impl From<Vec<Port>> for Ports {
    fn from(ports: Vec<Port>) -> Self {
        let is_mixed = ports.iter().any(|port| port.transport != Transport::Udp);
        Self { all: ports.into(), is_mixed }
    }
}

impl Index<u16> for Ports {
    type Output = Port;

    fn index(&self, port: u16) -> &Port {
        &self.all[usize::from(port)]
    }
}

impl<'a> IntoIterator for &'a Ports {
    type Item = &'a Port;
    type IntoIter = core::slice::Iter<'a, Port>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Ports {
    /// Returns the ports in their order.
    pub fn iter(&self) -> core::slice::Iter<'_, Port> {
        self.all.iter()
    }

    /// Returns the number of ports.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether there is no port.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the port with this index.
    pub fn get(&self, port: u16) -> Option<&Port> {
        self.all.get(usize::from(port))
    }

    pub(crate) fn has(&self, transport: Transport) -> bool {
        self.all.iter().any(|port| port.transport == transport)
    }

    /// Returns the port that others reach over this transport at this address.
    pub fn advertised_at(&self, at: Peer) -> Option<u16> {
        let is_it = |port: &Port| (port.transport, port.advertised) == (at.transport, at.address);
        self.all.iter().position(is_it).map(|index| index as u16)
    }

    /// Returns whether this is the advertised or bound address of a port.
    pub(crate) fn is_own(&self, at: Peer) -> bool {
        let is_it = |port: &Port| port.transport == at.transport && port.is_at(at.address);
        self.all.iter().any(is_it)
    }

    /// Returns the flow to a peer, by a port with the peer's transport and address family, if possible by the
    /// `preferred` port. `None` if there is no such port.
    pub fn toward(&self, preferred: u16, to: Peer) -> Option<Flow> {
        let fits =
            |port: &Port| port.transport == to.transport && port.advertised.is_ipv4() == to.address.is_ipv4();
        let is_there = self.get(preferred).is_some_and(fits);
        let listener = if is_there { preferred } else { self.all.iter().position(fits)? as u16 };
        Some(Flow { transport: to.transport, listener, peer: to.address, connection: None })
    }

    /// Returns the flow for the responses to a request that came by `flow` with this Via on top (RFC 3261 §18.2.2).
    /// `None` if no port fits.
    ///
    /// Over a connection, responses go back by the connection. If the connection is closed, they go by a new one to the
    /// source's IP address and the port of the Via. Over UDP, `maddr`, `rport` or the source determines the address. A
    /// Via without a usable address is ignored.
    pub(crate) fn way_back(&self, via: &Via<'_>, flow: Flow) -> Option<Flow> {
        let to = if flow.transport.is_reliable() {
            SocketAddr::new(flow.peer.ip(), via.sent_by_port())
        } else {
            request_source_target(via, flow.peer).unwrap_or(flow.peer)
        };
        self.back(Ingress::by(flow), flow.transport, to)
    }

    /// Returns the flow for a response whose request is not known here. `asked` is the ingress in this proxy's branch.
    /// `via` is the client's Via in the response, which over UDP leads to `to` ([`wire::response_target`]).
    pub(crate) fn way_back_by(&self, asked: Ingress, via: &Via<'_>, to: SocketAddr) -> Option<Flow> {
        let transport = self.get(asked.port.into()).map(|port| port.transport);
        let transport = transport.or(via.transport).unwrap_or_default();
        let to = if transport.is_reliable() {
            SocketAddr::new(via.received.or(via.host.ip())?, via.sent_by_port())
        } else {
            to
        };
        self.back(asked, transport, to)
    }

    /// Returns the flow from the ingress port. Another port is used if that port is gone after a restart, or `maddr`
    /// names an address of another family.
    fn back(&self, asked: Ingress, transport: Transport, to: SocketAddr) -> Option<Flow> {
        let listener = u16::from(asked.port);
        if asked.connection.is_some() && self.get(listener).is_some_and(|port| port.transport == transport) {
            return Some(Flow { transport, listener, peer: to, connection: asked.connection });
        }
        self.toward(listener, Peer::new(transport, to))
    }

    /// Returns the port whose address a URI of this proxy names. Ports at the same address differ in their transport.
    pub(crate) fn named(&self, uri: &SipUri<'_>) -> Option<u16> {
        let address = SocketAddr::new(uri.host.ip()?, self.port_of(uri));
        let first = self.all.iter().position(|port| port.is_at(address))? as u16;
        if !self.is_mixed {
            return Some(first);
        }
        let transport = transport_of(uri).unwrap_or_default();
        self.advertised_at(Peer::new(transport, address)).or(Some(first))
    }

    /// Returns the port number of a URI, with its default (RFC 3261 §19.1.2).
    pub(crate) fn port_of(&self, uri: &SipUri<'_>) -> u16 {
        let usual = || {
            let transport = Some(uri).filter(|_| self.is_mixed).and_then(transport_of);
            transport.unwrap_or_default().default_port()
        };
        uri.port.unwrap_or_else(usual)
    }

    /// Returns whether a port has this host as its address.
    pub(crate) fn has_host(&self, host: Host<'_>) -> bool {
        let ip = host.ip().map(|ip| ip.to_canonical());
        ip.is_some_and(|ip| self.all.iter().any(|port| port.advertised.ip().to_canonical() == ip))
    }

    /// Returns whether a port of this process wrote this Via, by its sent-by (RFC 3261 §16.3 step 4).
    pub(crate) fn wrote(&self, via: &Via<'_>) -> bool {
        let sent_by = via.sent_by_port();
        let address = via.host.ip().map(|ip| SocketAddr::new(ip, sent_by));
        self.all.iter().any(|port| Some(port.advertised) == address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU32;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// Behind an address translator, the bound address of a port is an address of this proxy, too.
    #[test]
    fn a_port_has_two_addresses() {
        let [local, advertised] = ["10.0.0.1:5060", "192.0.2.1:5062"].map(addr);
        let ports = Ports::from(vec![Port::new(Transport::Udp, local, advertised)]);
        for (at, is_own) in [(local, true), (advertised, true), (addr("10.0.0.1:5062"), false)] {
            assert_eq!(ports.is_own(Peer::new(Transport::Udp, at)), is_own);
            let uri = format!("sip:{at}");
            assert_eq!(ports.named(&SipUri::parse(uri.as_bytes()).unwrap()), is_own.then_some(0));
        }
    }

    /// UDP and TCP at one address, TLS at another.
    fn ports() -> Ports {
        let port = |transport, at| Port::new(transport, addr(at), addr(at));
        Ports::from(vec![
            port(Transport::Udp, "192.0.2.1:5060"),
            port(Transport::Tcp, "192.0.2.1:5060"),
            port(Transport::Tls, "192.0.2.1:5061"),
            port(Transport::Udp, "[2001:db8::1]:5060"),
        ])
    }

    fn request(via: &str) -> Vec<u8> {
        format!("OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/{via};branch=z9hG4bKa\r\n\r\n").into_bytes()
    }

    fn connection(number: u32) -> Option<Connection> {
        NonZeroU32::new(number).map(Connection)
    }

    #[test]
    fn the_transport_distinguishes_ports_at_one_address() {
        let ports = ports();
        let named = |uri: &'static str| ports.named(&SipUri::parse(uri.as_bytes()).unwrap());
        assert_eq!(named("sip:192.0.2.1"), Some(0));
        assert_eq!(named("sip:192.0.2.1:5060;transport=TCP"), Some(1));
        assert_eq!(named("sip:192.0.2.1;transport=tls"), Some(2), "the default port of TLS");
        assert_eq!(named("sip:192.0.2.1:5061;lr"), Some(2), "it is the only port at this address");
        assert_eq!(named("sip:192.0.2.2"), None);
        let to =
            |transport| ports.toward(0, Peer::new(transport, addr("192.0.2.9:5060"))).map(|way| way.listener);
        assert_eq!(
            [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws].map(to),
            [Some(0), Some(1), Some(2), None]
        );
        assert_eq!(ports.toward(0, Peer::new(Transport::Tcp, addr("[2001:db8::9]:5060"))), None);
        assert!(ports.iter().map(|port| port.uri_params).eq(["", ";transport=tcp", ";transport=tls", ""]));
    }

    /// RFC 5923 §8.1.
    #[test]
    fn a_via_over_tls_offers_its_connection() {
        let vias: Vec<_> = ports().iter().map(|port| port.via.clone()).collect();
        assert_eq!(vias[1], "SIP/2.0/TCP 192.0.2.1:5060;branch=");
        assert_eq!(vias[2], "SIP/2.0/TLS 192.0.2.1:5061;alias;branch=");
    }

    #[test]
    fn a_response_uses_the_connection_of_its_request() {
        let ports = ports();
        let source = addr("198.51.100.7:40123");
        // Over a connection, both `maddr` and `rport` are ignored.
        let bytes = request("TCP 10.0.0.1:5070;rport;maddr=203.0.113.1");
        let message = wire::scan(&bytes).unwrap();
        let flow = Flow { transport: Transport::Tcp, listener: 1, peer: source, connection: connection(9) };
        let back = Flow { peer: addr("198.51.100.7:5070"), ..flow };
        assert_eq!(
            ports.way_back(message.top_via(), flow),
            Some(back),
            "the peer's address if the connection is closed"
        );
        // The same flow results from the ingress in the branch and the Via of a response.
        let bytes = request("TCP 10.0.0.1:5070;rport=40123;received=198.51.100.7");
        let message = wire::scan(&bytes).unwrap();
        let via = message.top_via();
        let to = wire::response_target(via).unwrap();
        assert_eq!(to, source, "rport and received give the address");
        assert_eq!(ports.way_back_by(Ingress::by(flow), via, to), Some(back));
        // After a restart without that port, only the Via determines the flow.
        let fewer = Ports::from(
            ports.iter().filter(|port| port.transport != Transport::Udp).cloned().collect::<Vec<_>>(),
        );
        let asked = Ingress { port: 7, connection: connection(9) };
        let anew = Flow { listener: 0, connection: None, ..back };
        assert_eq!(fewer.way_back_by(asked, via, to), Some(anew));
    }

    #[test]
    fn a_response_over_udp_follows_the_via() {
        let ports = ports();
        let flow = Flow::udp(0, addr("198.51.100.7:40123"));
        let back = |via: &str| {
            let bytes = request(via);
            ports.way_back(wire::scan(&bytes).unwrap().top_via(), flow)
        };
        assert_eq!(back("UDP 10.0.0.1:5070;rport"), Some(flow));
        assert_eq!(back("UDP 10.0.0.1:5070"), Some(Flow { peer: addr("198.51.100.7:5070"), ..flow }));
        let other = back("UDP 10.0.0.1;maddr=[2001:db8::7]");
        assert_eq!(
            other,
            Some(Flow::udp(3, addr("[2001:db8::7]:5060"))),
            "by the port of this address family"
        );
        assert_eq!(back("UDP 10.0.0.1;maddr=224.0.0.1"), Some(flow), "a multicast address is ignored");
    }
}
