use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Wakes a thread that sleeps in `poll`; costs a system call only if it does sleep.
///
/// The sleeper says that it will sleep, then looks once more for work; the other side leaves work, then looks whether
/// the sleeper sleeps. With a full fence between the two steps on both sides, one of them sees the other.
#[derive(Debug)]
pub(crate) struct Waker {
    event: OwnedFd,
    asleep: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { event, asleep: AtomicBool::new(false) })
    }

    /// Called by others after they left work.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            // Fails only when the counter is full, and then the thread is awake.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Called by the sleeper before its last look for work.
    pub(crate) fn going_to_sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Called by the sleeper when it is up again.
    pub(crate) fn awake(&self) {
        if !self.asleep.swap(false, Ordering::Relaxed) {
            // Somebody woke us: take the event down. Empty if we never slept.
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
