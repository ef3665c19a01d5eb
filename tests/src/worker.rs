//! A thread that ends with the value that owns it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longest wait of a worker for a datagram before it checks whether it should stop.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

/// A running thread. Dropping it stops it and waits, so that its socket is closed.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Calls `step` repeatedly. A step should take at most about [`GLANCE`].
    pub(crate) fn start(mut step: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let run = move || {
            while !seen.load(Ordering::Relaxed) {
                step();
            }
        };
        Self { stop, thread: Some(thread::spawn(run)) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, has been printed. A second one here would abort the test's report.
            let _ = thread.join();
        }
    }
}
