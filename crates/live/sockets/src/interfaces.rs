//! Local addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;

use libc::{AF_INET, AF_INET6, ifaddrs, sockaddr_in, sockaddr_in6};

/// Addresses of this host's active interfaces, of IPv6 (`v6`) or IPv4, in the kernel's order, without duplicates. A
/// socket bound to the unspecified address receives at these addresses. Includes loopback, but no link-local IPv6
/// addresses, which are meaningless without an interface.
pub fn local_addresses(v6: bool) -> io::Result<Vec<IpAddr>> {
    let mut list: *mut ifaddrs = ptr::null_mut();
    // SAFETY: on success the list is ours until it is freed, below, exactly once.
    if unsafe { libc::getifaddrs(&raw mut list) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list ends in a null pointer and is not changed meanwhile.
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
    // SAFETY: `list` came from `getifaddrs`, and the entries found were copied.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// IP address of an entry; `None` for other families, for an absent address, and for link-local IPv6 addresses.
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

/// Source address that the kernel chooses for an unbound socket that sends to `dest`; nothing is sent. Fails if there
/// is no route.
pub fn source_address_for(dest: SocketAddr) -> io::Result<IpAddr> {
    let any = if dest.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind(SocketAddr::new(any, 0))?;
    // `connect` on UDP only looks up the route. Port 0 is not a valid destination, and any other port has the same
    // route.
    let port = if dest.port() == 0 { 5060 } else { dest.port() };
    socket.connect(SocketAddr::new(dest.ip(), port))?;
    Ok(socket.local_addr()?.ip())
}
