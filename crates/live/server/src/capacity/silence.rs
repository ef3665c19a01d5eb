//! Members whose monitor should announce a capacity and does not. Changes are logged; the present state can be queried
//! at any time.

use base::Instant;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// A member whose monitor is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SilentMonitor {
    pub(crate) member: SocketAddr,
    /// Whether this process has ever received an update of it.
    pub(crate) was_heard: bool,
}

impl fmt::Display for SilentMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.was_heard { "has fallen silent" } else { "has sent no capacity update yet" };
        write!(f, "the monitor of {} {why}: its capacity is measured by response times", self.member)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Members without an update for too long.
    pub(crate) silent: Vec<SilentMonitor>,
    /// Members with an update again, or for the first time after being reported silent.
    pub(crate) heard: Vec<SocketAddr>,
}

/// A member whose monitor is expected to send updates.
struct Awaited {
    since: Instant,
    silent: Option<SilentMonitor>,
}

/// The members whose monitors are expected to send updates.
#[derive(Default)]
pub(crate) struct Monitors(BTreeMap<SocketAddr, Awaited>);

impl Monitors {
    /// Expects updates of these members, each from the moment at which it first appears in the list. `heard` returns the
    /// time of a member's last update, which is valid for `validity`.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        members: &[SocketAddr],
        validity: Duration,
        heard: impl Fn(&SocketAddr) -> Option<Instant>,
    ) -> Changes {
        self.0.retain(|member, _| members.contains(member));
        let mut changes = Changes::default();
        for &member in members {
            let awaited = self.0.entry(member).or_insert(Awaited { since: now, silent: None });
            let last = heard(&member);
            let is_silent = now > last.map_or(awaited.since, |last| last.max(awaited.since)) + validity;
            match (is_silent, awaited.silent) {
                (true, None) => {
                    let silent = SilentMonitor { member, was_heard: last.is_some() };
                    awaited.silent = Some(silent);
                    changes.silent.push(silent);
                }
                (false, Some(_)) => {
                    awaited.silent = None;
                    changes.heard.push(member);
                }
                _ => {}
            }
        }
        changes
    }

    /// Returns the members that were silent at the last check.
    pub(crate) fn silent(&self) -> impl Iterator<Item = SilentMonitor> {
        self.0.values().filter_map(|awaited| awaited.silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_monitor_and_its_return_are_each_reported_once() {
        let at = Instant::from_millis;
        let one: SocketAddr = "10.0.0.1:5060".parse().unwrap();
        let other: SocketAddr = "10.0.0.2:5060".parse().unwrap();
        let mut monitors = Monitors::default();
        let mut look = |ms: u64, members: &[SocketAddr], heard: Option<u64>| {
            let changes = monitors.look(at(ms), members, Duration::from_secs(3), |member| {
                heard.filter(|_| *member == one).map(at)
            });
            (changes, monitors.silent().count())
        };
        let none = Changes::default;
        // One monitor is heard, the other never.
        assert_eq!(look(10_000, &[one, other], Some(9_000)), (none(), 0));
        assert_eq!(look(13_000, &[one, other], Some(12_500)), (none(), 0));
        let never = Changes { silent: vec![SilentMonitor { member: other, was_heard: false }], ..none() };
        assert_eq!(look(13_001, &[one, other], Some(12_500)), (never, 1));
        assert_eq!(look(15_000, &[one, other], Some(12_500)), (none(), 1));
        // Then the first monitor falls silent, and returns.
        let silent = Changes { silent: vec![SilentMonitor { member: one, was_heard: true }], ..none() };
        assert_eq!(look(15_501, &[one, other], Some(12_500)), (silent, 2));
        let back = Changes { heard: vec![one], ..none() };
        assert_eq!(look(16_000, &[one, other], Some(15_900)), (back, 1));
        // A member that takes no calls is not expected to send updates. Its time starts again once it takes calls.
        assert_eq!(look(17_000, &[], None), (none(), 0));
        assert_eq!(look(90_000, &[one], Some(15_900)), (none(), 0));
    }
}
