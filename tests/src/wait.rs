//! Waiting for a condition: polling with a limit, never a fixed sleep.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for a condition. It bounds a hang and measures nothing.
const DEADLINE: Duration = Duration::from_secs(30);

/// Calls `probe` every 20 ms until it returns a value. Panics after 30 s, naming `condition`.
pub fn until<T>(condition: &str, probe: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, condition, probe)
}

/// The same as [`until`], with another limit.
pub fn within<T>(limit: Duration, condition: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {condition}");
        sleep(Duration::from_millis(20));
    }
}
