//! Packet capture: a packet socket (`packet(7)`) that reads the packets of this host's interfaces in batches.
//!
//! The kernel removes the link layer (`SOCK_DGRAM`), so that one filter and one reader serve interfaces of all kinds,
//! and stamps each packet with its time. Only `CAP_NET_RAW` is needed: the interfaces are not promiscuous, as only this
//! host's own packets are examined.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use base::Instant;
use libc::{c_void, cmsghdr, iovec, mmsghdr, msghdr, sockaddr_ll, socklen_t, timespec};
use socket2::{Domain, SockFilter, Socket, Type};

use super::BATCH;
use super::receive::{ROOM, STRIDE, room};
use super::udp::{set_buffer, set_option};

/// Non-blocking packet socket of one thread.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
}

impl PacketSocket {
    /// Captures the packets of this interface, or of all, that the filter accepts, with a buffer of about
    /// `receive_buffer` octets.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; `NotFound` if there is no such interface.
    pub fn open(interface: Option<&str>, filter: &[SockFilter], receive_buffer: usize) -> io::Result<Self> {
        // Without a protocol it receives nothing until it is bound, after the filter is attached.
        let socket = Socket::new_raw(Domain::PACKET, Type::DGRAM.nonblocking().cloexec(), None)?;
        let index = match interface {
            Some(name) => rustix::net::netdevice::name_to_index(&socket, name)
                .map_err(|_| io::Error::from(io::ErrorKind::NotFound))?,
            None => 0,
        };
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        set_buffer(&socket, receive_buffer)?;
        socket.attach_filter(filter)?;
        let socket = Self { socket };
        socket.bind(index)?;
        Ok(socket)
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        let address = sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            // All protocols: with a single protocol, outgoing packets are not captured.
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the descriptor is open, and the kernel reads no more than the size of the address, which outlives
        // the call.
        let result = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<sockaddr_ll>() as socklen_t,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Number of packets that the kernel has dropped since the last call, because the buffer was full.
    pub fn lost_packets(&self) -> io::Result<u64> {
        // linux/if_packet.h: struct tpacket_stats, packets and drops; reading resets both.
        let mut counters = [0_u32; 2];
        let mut length = size_of_val(&counters) as socklen_t;
        let into = counters.as_mut_ptr().cast::<c_void>();
        // SAFETY: the descriptor is open as long as `self`, and the kernel writes at most `length` octets, the size
        // of the array, in which any octets are a value.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                into,
                &raw mut length,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(counters[1].into()) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Time since 1970.
    pub at: Instant,
    /// Its `EtherType`.
    pub kind: u16,
    /// Bytes after the link layer, truncated to 64 KiB.
    pub bytes: &'a [u8],
}

/// Room for the control message: its header and the time.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// The target of a message header.
struct Slot {
    name: sockaddr_ll,
    control: Control,
    vector: iovec,
}

/// Up to [`BATCH`] packets from one system call, valid until the next call.
pub struct PacketBatch {
    count: usize,
    // None of the three is ever resized: `headers` points into `slots`, and they into `arena`.
    headers: Vec<mmsghdr>,
    slots: Vec<Slot>,
    arena: Vec<u8>,
}

// SAFETY: the pointers within lead to memory that the same value owns, and nothing of it is tied to a thread.
unsafe impl Send for PacketBatch {}

impl PacketBatch {
    /// Makes empty buffers.
    pub fn new() -> Self {
        let (arena, vectors) = room();
        let mut slots: Vec<Slot> = vectors.map(Slot::new).collect();
        let headers = slots.iter_mut().map(Slot::header).collect();
        Self { count: 0, headers, slots, arena }
    }

    /// Replaces the content by waiting packets, at most [`BATCH`], without blocking; returns their number.
    ///
    /// # Errors
    /// `NetworkDown` once when the interface goes down; other errors if the socket is no longer usable.
    pub fn receive(&mut self, socket: &PacketSocket) -> io::Result<usize> {
        for header in &mut self.headers[..self.count] {
            // The kernel has reduced these to the lengths that it wrote.
            header.msg_hdr.msg_namelen = size_of::<sockaddr_ll>() as socklen_t;
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        self.count = 0;
        loop {
            // SAFETY: each of the `BATCH` headers points to the name, the control and the vector of its own slot. The
            // vector points to `ROOM` octets of `arena` that no other vector shares. All of it lives, unmoved, as long
            // as `self`, which is borrowed mutably.
            let received = unsafe {
                libc::recvmmsg(
                    socket.socket.as_raw_fd(),
                    self.headers.as_mut_ptr(),
                    BATCH as libc::c_uint,
                    libc::MSG_DONTWAIT,
                    ptr::null_mut(),
                )
            };
            if let Ok(received) = usize::try_from(received) {
                self.count = received;
                return Ok(received);
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(0),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
    }

    /// All packets of the last [`PacketBatch::receive`], in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Packet<'_>> {
        (0..self.count).map(|i| {
            let header = &self.headers[i];
            let length = (header.msg_len as usize).min(ROOM);
            Packet {
                at: time(&header.msg_hdr),
                kind: u16::from_be(self.slots[i].name.sll_protocol),
                bytes: &self.arena[i * STRIDE..i * STRIDE + length],
            }
        })
    }
}

impl Default for PacketBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    fn new(vector: iovec) -> Self {
        let name = sockaddr_ll {
            sll_family: 0,
            sll_protocol: 0,
            sll_ifindex: 0,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        Self { name, control: Control([0; 64]), vector }
    }

    /// Header that points to this slot and to nothing else. Valid as long as the slot does not move.
    fn header(&mut self) -> mmsghdr {
        let msg_hdr = msghdr {
            msg_name: (&raw mut self.name).cast(),
            msg_namelen: size_of::<sockaddr_ll>() as socklen_t,
            msg_iov: &raw mut self.vector,
            msg_iovlen: 1,
            msg_control: (&raw mut self.control).cast(),
            msg_controllen: size_of::<Control>() as _,
            msg_flags: 0,
        };
        mmsghdr { msg_hdr, msg_len: 0 }
    }
}

/// Time stamp of the kernel in the control messages of `header`; the epoch if there is none.
fn time(header: &msghdr) -> Instant {
    // SAFETY: `header` was filled by a successful `recvmmsg`, so that its control messages are whole, lie one after
    // the other in the room it points to, and the macros walk them as documented.
    unsafe {
        let mut next: *const cmsghdr = libc::CMSG_FIRSTHDR(header);
        while !next.is_null() {
            if ((*next).cmsg_level, (*next).cmsg_type) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) {
                let data: *const c_void = libc::CMSG_DATA(next).cast();
                let stamp = ptr::read_unaligned(data.cast::<timespec>());
                let nanos = stamp.tv_sec.cast_unsigned().saturating_mul(1_000_000_000);
                return Instant::from_nanos(nanos.saturating_add(stamp.tv_nsec.cast_unsigned()));
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    Instant::ZERO
}
