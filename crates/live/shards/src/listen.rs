//! Expansion of configured addresses into sockets: a wildcard becomes one listener for each address of the machine.

use base::{Flow, Peer, Transport};
use config::Listener;
use node::{Port, Ports};
use sockets::{UdpSocket, cannot_listen, local_addresses, source_address_for};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Limit of ports. The token in our Via has one byte for the port.
pub(super) const MOST: usize = 256;
/// Requested receive buffer of each UDP socket in bytes. The kernel grants at most `net.core.rmem_max`.
pub const RECEIVE_BUFFER: usize = 4 << 20;

/// Expands the configured listeners. Via and Record-Route cannot contain a wildcard, and a response must leave from the
/// address of the request. With one socket for each address, both hold by construction.
pub fn expand(configured: &[Listener]) -> io::Result<Ports> {
    let ports = addresses(configured)?;
    if ports.len() > MOST {
        let fault = format!(
            "[listen] matches {} addresses of this machine, but at most {MOST} can be served: list the addresses to \
             serve instead of a wildcard",
            ports.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, fault));
    }
    Ok(ports.into())
}

fn addresses(configured: &[Listener]) -> io::Result<Vec<Port>> {
    let mut ports: Vec<Port> = Vec::new();
    for listener in configured {
        let port = listener.bind.port();
        let addresses = match listener.bind.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => local_addresses(false)?,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => local_addresses(true)?,
            one => vec![one],
        };
        for ip in addresses {
            let address = SocketAddr::new(ip, port);
            let transport = listener.transport;
            if !ports.iter().any(|port| (port.transport, port.local) == (transport, address)) {
                let advertised = listener.advertise.unwrap_or(address);
                ports.push(Port::new(transport, address, advertised));
            }
        }
    }
    Ok(ports)
}

/// Returns addresses of a wildcard without a listener, which were added to the machine after the start.
pub fn unserved(configured: &[Listener], ports: &Ports) -> io::Result<Vec<SocketAddr>> {
    let is_served =
        |new: &Port| ports.iter().any(|port| (port.transport, port.local) == (new.transport, new.local));
    let all = addresses(configured)?.into_iter();
    Ok(all.filter(|port| !is_served(port)).map(|port| port.local).collect())
}

/// Returns the index of the listener in the file that matches this port: one with its address, otherwise the wildcard.
pub fn listener_of(listeners: &[Listener], port: &Port) -> Option<usize> {
    let at = port.local;
    let is_wildcard = |bind: SocketAddr| {
        bind.ip().is_unspecified() && bind.port() == at.port() && bind.is_ipv4() == at.is_ipv4()
    };
    let of = |is_it: &dyn Fn(SocketAddr) -> bool| {
        listeners.iter().position(|listener| listener.transport == port.transport && is_it(listener.bind))
    };
    of(&|bind| bind == at).or_else(|| of(&is_wildcard))
}

/// Returns the ports of datagrams, which come first.
pub fn datagram_ports(ports: &Ports) -> impl Iterator<Item = &Port> + Clone {
    ports.iter().take_while(|port| port.transport == Transport::Udp)
}

/// Opens the datagram sockets of one thread.
pub fn open(ports: &Ports, reuse_port: bool) -> io::Result<Vec<UdpSocket>> {
    datagram_ports(ports).map(|port| open_one(port, reuse_port)).collect()
}

/// Opens a socket of a port.
pub fn open_one(port: &Port, reuse_port: bool) -> io::Result<UdpSocket> {
    UdpSocket::bind(port.local, reuse_port, RECEIVE_BUFFER).map_err(|error| {
        let taken = "`ss -lunp` shows the process that has it";
        cannot_listen(port.local, &error, taken)
    })
}

/// Returns the flow to a node by a port of its transport. The port with the kernel's source address is preferred, then
/// any port of the family. `None` if no port of the family exists.
pub fn toward(ports: &Ports, to: Peer) -> Option<Flow> {
    let source = source_address_for(to.address).ok();
    let by_source = |port: &Port| port.transport == to.transport && Some(port.local.ip()) == source;
    let preferred = ports.iter().position(by_source).unwrap_or_default() as u16;
    ports.toward(preferred, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_becomes_the_addresses_of_the_machine() {
        let wildcard = Listener::new(Transport::Udp, "0.0.0.0:5060".parse().unwrap());
        let one = Listener::new(Transport::Udp, "127.0.0.1:5060".parse().unwrap());
        let configured = [wildcard, one];
        let ports = expand(&configured).unwrap();
        let loopback: SocketAddr = "127.0.0.1:5060".parse().unwrap();
        assert_eq!(ports.iter().filter(|port| port.local == loopback).count(), 1);
        assert!(ports.iter().all(|port| !port.local.ip().is_unspecified()));
        let to = |transport| toward(&ports, Peer::new(transport, "127.0.0.9:5080".parse().unwrap()));
        assert_eq!(ports[to(Transport::Udp).unwrap().listener].local, loopback);
        assert_eq!(to(Transport::Tcp), None);
        assert_eq!(unserved(&configured, &ports).unwrap(), []);
        let others: Vec<_> = ports.iter().filter(|port| port.local != loopback).cloned().collect();
        assert_eq!(
            unserved(&configured, &others.into()).unwrap(),
            [loopback],
            "the loopback address has no listener"
        );
    }
}
