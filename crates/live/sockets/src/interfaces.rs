//! Which addresses are ours.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;

use libc::{AF_INET, AF_INET6, ifaddrs, sockaddr_in, sockaddr_in6};

/// The addresses of this host's interfaces that are up, of IPv6 (`v6`) or IPv4, in the kernel's order, each once:
/// what a socket bound to the unspecified address answers to. Loopback is among them; link-local IPv6 addresses are
/// not, since they mean nothing without an interface.
pub fn local_addresses(v6: bool) -> io::Result<Vec<IpAddr>> {
    let mut list: *mut ifaddrs = ptr::null_mut();
    // SAFETY: on success the list is ours until it is freed, below, exactly once.
    if unsafe { libc::getifaddrs(&raw mut list) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list ends in a null pointer and nobody changes it meanwhile.
    while let Some(entry) = unsafe { next.as_ref() } {
        if entry.ifa_flags & libc::IFF_UP as u32 != 0
            && let Some(address) = address_of(entry)
            && address.is_ipv6() == v6
            && !found.contains(&address)
        {
            found.push(address);
        }
        next = entry.ifa_next;
    }
    // SAFETY: `list` came from `getifaddrs`, and what was taken from it has been copied.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// The IP address of an entry; `None` for other families, for none, and for link-local ones of IPv6.
fn address_of(entry: &ifaddrs) -> Option<IpAddr> {
    if entry.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: an address that is present starts with its family, and has the form that the family says. It is read
    // octet by octet, whatever its alignment.
    unsafe {
        match i32::from((&raw const (*entry.ifa_addr).sa_family).read_unaligned()) {
            AF_INET => {
                let v4 = entry.ifa_addr.cast::<sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes())))
            }
            AF_INET6 => {
                let v6 = entry.ifa_addr.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                (!ip.is_unicast_link_local()).then_some(IpAddr::V6(ip))
            }
            _ => None,
        }
    }
}

/// The address that the kernel sends from when an unbound socket sends to `dest`; nothing is sent. Fails where there
/// is no route.
pub fn source_address_for(dest: SocketAddr) -> io::Result<IpAddr> {
    let any = if dest.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind(SocketAddr::new(any, 0))?;
    // Connecting UDP only looks the route up. Port 0 is no destination, and any other has the same route.
    let port = if dest.port() == 0 { 5060 } else { dest.port() };
    socket.connect(SocketAddr::new(dest.ip(), port))?;
    Ok(socket.local_addr()?.ip())
}
