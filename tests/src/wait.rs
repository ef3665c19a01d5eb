//! Waiting for something to become true: polling with a limit, never a fixed sleep.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest wait for what should happen soon. Generous: it bounds a hang, it times nothing.
const DEADLINE: Duration = Duration::from_secs(30);

/// Asks `probe` every 20 ms until it gives a value, which is returned; panics, naming `what`, after 30 s.
pub fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, what, probe)
}

/// As [`until`], with a limit of its own.
pub fn within<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        sleep(Duration::from_millis(20));
    }
}
