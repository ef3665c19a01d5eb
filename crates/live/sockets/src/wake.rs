//! Wakes a thread that waits for datagrams.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Wakes a thread that sleeps in `poll`; costs a system call only if it does sleep.
///
/// The sleeper says that it will sleep, then looks once more for work; the other side leaves work, then looks whether
/// the sleeper sleeps. With a full fence between the two steps on both sides, one of them sees the other.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
    asleep: AtomicBool,
    /// Calls whose mark on the event has not been taken down yet; only the sleeper counts them.
    owed: AtomicU64,
}

impl Waker {
    /// One whose thread is awake.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { event, asleep: AtomicBool::new(false), owed: AtomicU64::new(0) })
    }

    /// Called by others after they left work.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            // Fails only when the counter is full, and then the thread is awake.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Called by the sleeper before its last look for work.
    pub fn going_to_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Called by the sleeper when it is up again, once after each [`Self::going_to_sleep`].
    pub fn awake(&self) {
        let called = !self.asleep.swap(false, Ordering::Relaxed);
        let owed = self.owed.load(Ordering::Relaxed) + u64::from(called);
        if owed > 0 {
            // Who called may be held up before it raises the event, while something else got us up. Left for later
            // it would end every sleep from then on, so it stays owed until it has been taken down.
            let mut raised = [0; 8];
            let taken = rustix::io::read(&self.event, &mut raised).map_or(0, |_| u64::from_ne_bytes(raised));
            self.owed.store(owed.saturating_sub(taken), Ordering::Relaxed);
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    /// One turn of the sleeper that finds no work; says whether it would have slept.
    fn sleeps(waker: &Waker) -> bool {
        waker.going_to_sleep();
        let mut fds = [PollFd::new(waker, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        waker.awake();
        ready == 0
    }

    #[test]
    fn a_call_wakes_once() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert!(sleeps(&waker), "it was up, and looks for work itself");
        waker.going_to_sleep();
        waker.wake();
        waker.wake();
        waker.awake();
        assert!(sleeps(&waker));
    }

    #[test]
    fn a_call_that_is_held_up_wakes_once() {
        let waker = Waker::new().unwrap();
        let raise = || rustix::io::write(&waker.event, &1_u64.to_ne_bytes()).unwrap();
        waker.going_to_sleep();
        // The first half of `wake`; then a datagram gets us up, and somebody else calls.
        assert!(waker.asleep.swap(false, Ordering::Relaxed));
        waker.awake();
        waker.going_to_sleep();
        waker.wake();
        waker.awake();
        raise();
        assert!(!sleeps(&waker));
        assert!(sleeps(&waker));
    }
}
