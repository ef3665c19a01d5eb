//! Target of a message header: one address, converted in place, and one range of octets.

use std::mem::offset_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use libc::socklen_t;
use libc::{
    AF_INET, AF_INET6, in_addr, in6_addr, iovec, mmsghdr, msghdr, sa_family_t, sockaddr_in, sockaddr_in6,
};

/// Room for an address of either family, in the form of `msg_name`.
///
/// 28 bytes, where `sockaddr_storage` has 128: a batch of 64 stays within the first-level cache.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Name {
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

// The family is read through `v4` in any case, so it must have the same offset in both.
const _: () = assert!(offset_of!(sockaddr_in, sin_family) == offset_of!(sockaddr_in6, sin6_family));

impl Name {
    /// Length that the kernel may write.
    pub(super) const SIZE: socklen_t = size_of::<Self>() as socklen_t;

    /// All octets zero, without a family.
    pub(super) const fn empty() -> Self {
        let address = in6_addr { s6_addr: [0; 16] };
        let v6 = sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: address,
            sin6_scope_id: 0,
        };
        Self { v6 }
    }

    /// Writes `address`; returns the length of its representation.
    pub(super) fn write(&mut self, address: SocketAddr) -> socklen_t {
        match address {
            SocketAddr::V4(v4) => {
                // `octets` are in network order already, so they are copied as they lie in memory.
                let sin_addr = in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) };
                let sin_port = v4.port().to_be();
                self.v4 =
                    sockaddr_in { sin_family: AF_INET as sa_family_t, sin_port, sin_addr, sin_zero: [0; 8] };
                size_of::<sockaddr_in>() as socklen_t
            }
            SocketAddr::V6(v6) => {
                self.v6 = sockaddr_in6 {
                    sin6_family: AF_INET6 as sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                size_of::<sockaddr_in6>() as socklen_t
            }
        }
    }

    /// Address that the kernel, or [`Name::write`], has written; `None` for other families.
    pub(super) fn read(&self) -> Option<SocketAddr> {
        // SAFETY: every octet of the union is initialised, by `empty` and by the kernel after it, and both forms
        // are plain integers for which any octets are a value.
        let (v4, v6) = unsafe { (&self.v4, &self.v6) };
        match i32::from(v4.sin_family) {
            AF_INET => {
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
            }
            AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id)))
            }
            _ => None,
        }
    }
}

/// One message of a batch.
pub(super) struct Slot {
    pub(super) name: Name,
    pub(super) vector: iovec,
}

impl Slot {
    /// Header that points to this slot and to nothing else. Valid as long as the slot does not move.
    pub(super) fn header(&mut self) -> mmsghdr {
        let msg_hdr = msghdr {
            msg_name: (&raw mut self.name).cast(),
            msg_namelen: Name::SIZE,
            msg_iov: &raw mut self.vector,
            msg_iovlen: 1,
            msg_control: ptr::null_mut(),
            msg_controllen: 0,
            msg_flags: 0,
        };
        mmsghdr { msg_hdr, msg_len: 0 }
    }
}
