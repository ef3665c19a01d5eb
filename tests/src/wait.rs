//! Waiting for a condition: polling with a limit, never a fixed sleep.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for a condition. It bounds a hang and measures nothing.
const DEADLINE: Duration = Duration::from_secs(30);

/// Calls `probe` every 20 ms until it returns a value. Panics after 30 s, naming `what`.
pub fn until<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, what, probe)
}

/// The same as [`until`], with another limit.
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
