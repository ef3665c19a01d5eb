//! From the configured addresses to sockets: a wildcard becomes one listener for each address of the machine.

use crate::socket::{UdpSocket, local_addresses, source_address_for};
use base::Flow;
use config::UdpListener;
use node::Listener;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A local address to bind, and how others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bind {
    pub(crate) address: SocketAddr,
    pub(crate) advertised: SocketAddr,
}

/// Most listeners: the token in our Via names one by a byte.
pub(super) const MOST: usize = 256;

/// Expands the configured listeners. A wildcard cannot stand in Via and Record-Route, and an answer must leave
/// from the address that was asked; with one socket an address both are true by construction.
pub(crate) fn expand(configured: &[UdpListener]) -> io::Result<Vec<Bind>> {
    let binds = addresses(configured)?;
    if binds.len() > MOST {
        let what = format!(
            "`listen.udp` stands for {} addresses of this machine, of which at most {MOST} can be served: name those that \
             are to be, instead of a wildcard",
            binds.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(binds)
}

fn addresses(configured: &[UdpListener]) -> io::Result<Vec<Bind>> {
    let mut binds: Vec<Bind> = Vec::new();
    for listener in configured {
        let port = listener.bind.port();
        let addresses = match listener.bind.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => local_addresses(false)?,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => local_addresses(true)?,
            one => vec![one],
        };
        for ip in addresses {
            let address = SocketAddr::new(ip, port);
            if !binds.iter().any(|bind| bind.address == address) {
                binds.push(Bind { address, advertised: listener.advertise.unwrap_or(address) });
            }
        }
    }
    Ok(binds)
}

/// Addresses that a wildcard stands for by now and that nothing listens on: they came after the start.
pub(crate) fn unserved(configured: &[UdpListener], binds: &[Bind]) -> io::Result<Vec<SocketAddr>> {
    let all = addresses(configured)?.into_iter().map(|bind| bind.address);
    Ok(all.filter(|address| !binds.iter().any(|bind| bind.address == *address)).collect())
}

/// Opens one thread's sockets.
pub(crate) fn open(binds: &[Bind], reuse_port: bool, receive_buffer: usize) -> io::Result<Vec<UdpSocket>> {
    let open = |bind: &Bind| {
        UdpSocket::bind(bind.address, reuse_port, receive_buffer).map_err(|error| {
            let taken = "does it run already, or another SIP server? `ss -lunp` tells";
            cannot_listen(bind.address, &error, taken)
        })
    };
    binds.iter().map(open).collect()
}

/// Why an address cannot be listened on, and what helps; `taken` is what to say where it is in use.
pub(crate) fn cannot_listen(address: SocketAddr, error: &io::Error, taken: &str) -> io::Error {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => taken,
        io::ErrorKind::AddrNotAvailable => "is it an address of this machine? `ip addr` lists them",
        // capabilities(7), ip(7): net.ipv4.ip_unprivileged_port_start.
        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
            "a port below 1024 takes root, or the capability CAP_NET_BIND_SERVICE; otherwise choose a higher one"
        }
        _ => return io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")),
    };
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}; {remedy}"))
}

/// The listeners as the core knows them.
pub(crate) fn listeners(binds: &[Bind]) -> Vec<Listener> {
    binds.iter().map(|bind| Listener::udp(bind.advertised)).collect()
}

/// Which listener leads to a node: the one with the source address that the kernel would use, else any of the
/// family; `None` if there is no listener of the family.
pub(crate) fn toward(binds: &[Bind], address: SocketAddr) -> Option<Flow> {
    let source = source_address_for(address).ok();
    let by_source = binds.iter().position(|bind| Some(bind.address.ip()) == source);
    let by_family = || binds.iter().position(|bind| bind.address.is_ipv4() == address.is_ipv4());
    let listener = by_source.or_else(by_family)? as u16;
    Some(Flow::udp(listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_had_is_told_with_its_remedy() {
        let told = |address: &str, kind: io::ErrorKind| {
            cannot_listen(address.parse().unwrap(), &kind.into(), "taken").to_string()
        };
        assert!(told("127.0.0.1:80", io::ErrorKind::PermissionDenied).contains("CAP_NET_BIND_SERVICE"));
        assert!(!told("127.0.0.1:5060", io::ErrorKind::PermissionDenied).contains("CAP_NET_BIND_SERVICE"));
        assert!(told("127.0.0.1:80", io::ErrorKind::AddrInUse).ends_with("; taken"));
        assert!(told("192.0.2.1:80", io::ErrorKind::AddrNotAvailable).contains("ip addr"));
    }

    #[test]
    fn a_wildcard_becomes_the_addresses_of_the_machine() {
        let wildcard = UdpListener { bind: "0.0.0.0:5060".parse().unwrap(), advertise: None };
        let one = UdpListener { bind: "127.0.0.1:5060".parse().unwrap(), advertise: None };
        let configured = [wildcard, one];
        let binds = expand(&configured).unwrap();
        let loopback: SocketAddr = "127.0.0.1:5060".parse().unwrap();
        assert_eq!(binds.iter().filter(|bind| bind.address == loopback).count(), 1);
        assert!(binds.iter().all(|bind| !bind.address.ip().is_unspecified()));
        let node = toward(&binds, "127.0.0.9:5080".parse().unwrap()).unwrap();
        assert_eq!(binds[node.listener as usize].address, loopback);
        assert_eq!(unserved(&configured, &binds).unwrap(), []);
        let others: Vec<_> = binds.iter().copied().filter(|bind| bind.address != loopback).collect();
        assert_eq!(unserved(&configured, &others).unwrap(), [loopback], "as if it had come later");
    }
}
