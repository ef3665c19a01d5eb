//! The calls that are another process's, and the way of their datagrams to it.

use super::exchange::{Findings, Remainder};
use crate::clock::Clock;
use crate::shards::handover::{self, HEAD_MAX, Handed};
use ::control::ProcessId;
use base::{Flow, Instant};
use node::CallHash;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A process that takes nothing for so long does not run any more, whether it is there or not.
const STANDSTILL: Duration = Duration::from_secs(2);

/// Bytes of a datagram.
const LARGEST: usize = 65_535;

/// What our threads know of another process whose calls' datagrams come to us; all have the same.
#[derive(Debug)]
pub(crate) struct OtherProcess {
    id: ProcessId,
    hash: CallHash,
    /// By [`balance::CallKey::call_id`].
    calls: HashSet<u64>,
    /// To each of its threads.
    ways: Vec<OwnedFd>,
    /// Its number of each listener of ours.
    listeners: Vec<u16>,
    /// It has ended.
    gone: AtomicBool,
    /// Since when it takes nothing, in nanoseconds of our clock; 0: it does.
    stuck: AtomicU64,
    clock: Clock,
    findings: Findings,
    /// What it has to do, as it said last; no thread of the traffic looks here.
    remainder: Mutex<Remainder>,
}

/// What became of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The other process has it.
    HandedOver,
    /// It is the other process's, which takes nothing now.
    Lost,
    /// It is for this process.
    Ours,
}

impl OtherProcess {
    pub(super) fn new(
        id: ProcessId,
        hash: CallHash,
        calls: HashSet<u64>,
        ways: Vec<OwnedFd>,
        listeners: Vec<u16>,
        clock: Clock,
    ) -> Self {
        let (gone, stuck) = (AtomicBool::new(false), AtomicU64::new(0));
        Self {
            id,
            hash,
            calls,
            ways,
            listeners,
            gone,
            stuck,
            clock,
            findings: Findings::default(),
            remainder: Mutex::default(),
        }
    }

    pub(super) fn with_findings(self, findings: Findings) -> Self {
        Self { findings, ..self }
    }

    /// Waits for what its threads give back, and tells each message with the flow that it leaves by, until it has ended.
    pub(super) fn bring_back(&self, mut tell: impl FnMut(Flow, &[u8])) {
        let mut buffer = vec![0; HEAD_MAX + LARGEST];
        while !self.gone.load(Ordering::Relaxed) {
            let mut watched: Vec<_> = self.ways.iter().map(|way| PollFd::new(way, PollFlags::IN)).collect();
            // Now and then it is looked whether it has ended.
            let _ = poll(&mut watched, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
            let ready: Vec<_> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
            for way in self.ways.iter().zip(ready).filter_map(|(way, ready)| ready.then_some(way)) {
                match recv(way, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok((_, length)) => match handover::parse(&buffer[..length]) {
                        Some(Handed::Send { flow, bytes }) => tell(flow, bytes),
                        // Nobody sends less than a head: the other end is closed.
                        None => return,
                        Some(_) => {}
                    },
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        }
    }

    /// Its number.
    pub(crate) fn id(&self) -> ProcessId {
        self.id
    }

    /// What it knew of the nodes when it was taken over.
    pub(crate) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// It has ended, or is not waited for any longer: whatever was its is ours, and what it has not read is not for
    /// it.
    pub(super) fn end(&self) {
        self.gone.store(true, Ordering::Relaxed);
        for way in &self.ways {
            // One whose other end is gone needs no more.
            let _ = shutdown(way, Shutdown::Both);
        }
    }

    /// How many sessions it had, those that are only remembered included.
    pub(super) fn sessions(&self) -> usize {
        self.calls.len()
    }

    /// It has said what it still has to do.
    pub(super) fn learn(&self, remainder: Remainder) {
        *self.remainder.lock().unwrap_or_else(PoisonError::into_inner) = remainder;
    }

    /// What it still has to do; `None`: it has ended.
    pub(crate) fn remainder(&self) -> Option<Remainder> {
        let is_there = !self.gone.load(Ordering::Relaxed);
        is_there.then(|| self.remainder.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Its calls, if they are hashed like this, for a successor of this process.
    pub(super) fn calls_by(&self, hash: CallHash) -> impl Iterator<Item = u64> + '_ {
        let are_its = self.hash == hash && !self.gone.load(Ordering::Relaxed);
        self.calls.iter().copied().filter(move |_| are_its)
    }

    /// Gives it a datagram of one of its calls; `whatever`: one of any call, which nobody here knows.
    pub(crate) fn hand(&self, handed: &Handed<'_>, whatever: bool) -> Fate {
        let bytes = handed.bytes();
        if self.gone.load(Ordering::Relaxed) {
            return Fate::Ours;
        }
        let Some(key) = wire::peek_call_id(bytes).map(|call_id| self.hash.call_key(call_id)) else {
            return Fate::Ours;
        };
        if !whatever && !self.calls.contains(&key.call_id()) {
            return Fate::Ours;
        }
        let head = match *handed {
            Handed::Message { flow, .. } => {
                let listener = self.listeners.get(usize::from(flow.listener)).copied().unwrap_or_default();
                handover::head(&Handed::Message { flow: Flow { listener, ..flow }, bytes })
            }
            Handed::Unreachable { .. } | Handed::Send { .. } => handover::head(handed),
        };
        let way = &self.ways[node::shard_of(key, self.ways.len())];
        let parts = [IoSlice::new(&head), IoSlice::new(bytes)];
        let mut none = SendAncillaryBuffer::default();
        match sendmsg(way, &parts, &mut none, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => {
                self.stuck.store(0, Ordering::Relaxed);
                Fate::HandedOver
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => self.stuck(),
            Err(_) => {
                self.end();
                Fate::Ours
            }
        }
    }

    fn stuck(&self) -> Fate {
        let now = self.clock.now().as_nanos().max(1);
        let since = match self.stuck.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => now,
            Err(since) => since,
        };
        if Instant::from_nanos(now).saturating_since(Instant::from_nanos(since)) < STANDSTILL {
            return Fate::Lost;
        }
        self.end();
        Fate::Ours
    }
}

/// Where a thread gets what the process that has taken over hands it.
#[derive(Debug)]
pub(crate) struct Inlet {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Inlet {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; HEAD_MAX + LARGEST] }
    }

    /// The next one, if there is one; an error when the successor is gone.
    pub(crate) fn take(&mut self) -> io::Result<Option<Handed<'_>>> {
        match recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, length)) => match handover::parse(&self.buffer[..length]) {
                Some(handed) => Ok(Some(handed)),
                // Nobody sends less than a head; none at all is the end.
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Inlet {
    /// Has the successor send a message by a connection of its own; whether it has taken it.
    pub(crate) fn give_back(&self, flow: Flow, bytes: &[u8]) -> bool {
        let head = handover::head(&Handed::Send { flow, bytes });
        let parts = [IoSlice::new(&head), IoSlice::new(bytes)];
        let mut none = SendAncillaryBuffer::default();
        sendmsg(&self.socket, &parts, &mut none, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }
}

impl AsFd for Inlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::{TokenKey, Tokens};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::net::SocketAddr;

    fn pair() -> (OwnedFd, Inlet) {
        let (way, inlet) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (way, Inlet::new(inlet))
    }

    /// One with two threads and the call "its", whose listener 7 is our listener 0.
    fn other() -> (OtherProcess, [Inlet; 2]) {
        let hash = Tokens::new(TokenKey([1; 16]), &[], Duration::from_hours(1)).call_hash();
        let ((first, one), (second, two)) = (pair(), pair());
        let calls = HashSet::from([hash.call_key(b"its").call_id()]);
        let other =
            OtherProcess::new(ProcessId(1), hash, calls, vec![first, second], vec![7], Clock::start());
        (other, [one, two])
    }

    fn bytes(call_id: &str) -> Vec<u8> {
        format!("OPTIONS sip:a SIP/2.0\r\nCall-ID: {call_id}\r\n\r\n").into_bytes()
    }

    fn from() -> SocketAddr {
        "192.0.2.1:5060".parse().unwrap()
    }

    fn hand(other: &OtherProcess, call_id: &str, is_stray: bool) -> Fate {
        let bytes = bytes(call_id);
        other.hand(&Handed::Message { flow: Flow::udp(0, from()), bytes: &bytes }, is_stray)
    }

    #[test]
    fn it_gets_what_is_its_and_what_nobody_here_knows() {
        let (other, mut inlets) = other();
        assert_eq!(hand(&other, "ours", false), Fate::Ours);
        for (call_id, is_stray) in [("its", false), ("ours", true)] {
            assert_eq!(hand(&other, call_id, is_stray), Fate::HandedOver);
            let owner = node::shard_of(other.hash.call_key(call_id.as_bytes()), 2);
            let expected = bytes(call_id);
            let expected = Handed::Message { flow: Flow::udp(7, from()), bytes: &expected };
            assert_eq!(inlets[owner].take().unwrap(), Some(expected));
            assert_eq!(inlets[1 - owner].take().unwrap(), None);
        }
        let quoted = bytes("its");
        let error = Handed::Unreachable { to: Flow::udp(0, from()), quoted: &quoted };
        assert_eq!(other.hand(&error, false), Fate::HandedOver);
        let owner = node::shard_of(other.hash.call_key(b"its"), 2);
        assert_eq!(inlets[owner].take().unwrap(), Some(error));
        drop(other);
        assert!(inlets[owner].take().is_err(), "the successor is gone");
    }

    #[test]
    fn what_was_its_is_ours_once_it_has_ended() {
        let (other, inlets) = other();
        drop(inlets);
        assert_eq!(hand(&other, "its", false), Fate::Ours);
        assert_eq!(hand(&other, "ours", true), Fate::Ours);
    }

    #[test]
    fn one_that_stands_still_is_not_waited_for() {
        let (other, inlets) = other();
        while hand(&other, "its", false) == Fate::HandedOver {}
        // Until it is given up, what is its is lost, as where a ring is full.
        while hand(&other, "its", false) == Fate::Lost {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(hand(&other, "its", false), Fate::Ours);
        // When it is back, it sees that what waits there is not for it any more.
        for inlet in &inlets {
            let mut watched = [PollFd::new(inlet, PollFlags::IN)];
            poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
            assert!(watched[0].revents().contains(PollFlags::HUP));
        }
    }
}
