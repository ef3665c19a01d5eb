//! Wakes a thread that waits for datagrams.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Wakes a thread that sleeps in `poll`; costs a system call only if it does sleep.
///
/// The sleeper announces that it will sleep, then checks for work once more. The other side adds work, then checks
/// whether the sleeper sleeps. With a full fence between the two steps on both sides, at least one sees the other.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
    asleep: AtomicBool,
    /// Number of wake calls whose count is still on the event; only the sleeper changes it.
    owed: AtomicU64,
}

impl Waker {
    /// Makes a waker whose thread is awake.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { event, asleep: AtomicBool::new(false), owed: AtomicU64::new(0) })
    }

    /// Wakes the thread; called by others after they added work.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            // Fails only if the counter is full, and then the thread is awake.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Announces sleep; called by the sleeper before its last check for work.
    pub fn going_to_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends sleep; called by the sleeper once after each [`Self::going_to_sleep`].
    pub fn awake(&self) {
        let called = !self.asleep.swap(false, Ordering::Relaxed);
        let owed = self.owed.load(Ordering::Relaxed) + u64::from(called);
        if owed > 0 {
            // A caller may be delayed before it writes the event, while another event ends the sleep. An unread count
            // would end every later sleep, so it is remembered until it was read.
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

    /// One turn of the sleeper without work; returns whether it would have slept.
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
        assert!(sleeps(&waker), "the thread was awake, and looks for work itself");
        waker.going_to_sleep();
        waker.wake();
        waker.wake();
        waker.awake();
        assert!(sleeps(&waker));
    }

    #[test]
    fn a_delayed_call_wakes_once() {
        let waker = Waker::new().unwrap();
        let raise = || rustix::io::write(&waker.event, &1_u64.to_ne_bytes()).unwrap();
        waker.going_to_sleep();
        // The first half of `wake`; then a datagram ends the sleep, and another thread calls.
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
