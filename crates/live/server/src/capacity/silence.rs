//! Members whose capacity a monitor should announce, and none does. Told outside is what changes; what is so at the
//! moment is to be seen at any time.

use base::Instant;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// A member without word of its monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SilentMonitor {
    pub(crate) member: SocketAddr,
    /// Whether this process has ever heard of it.
    pub(crate) was_heard: bool,
}

impl fmt::Display for SilentMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.was_heard { "has fallen silent" } else { "was never heard" };
        write!(f, "the monitor of {} {why}: response times say what the member can take", self.member)
    }
}

/// Changes since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Nothing has come of these for too long.
    pub(crate) silent: Vec<SilentMonitor>,
    /// Something has come of these again, or at last.
    pub(crate) heard: Vec<SocketAddr>,
}

/// A member whose monitor is waited for.
struct Awaited {
    since: Instant,
    silent: Option<SilentMonitor>,
}

/// The members whose monitors are waited for.
#[derive(Default)]
pub(crate) struct Monitors(BTreeMap<SocketAddr, Awaited>);

impl Monitors {
    /// Waits for the monitors of these members, of each from the moment on when it is first among them. `heard` is
    /// when the last update of one came, and holds for `validity`.
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

    /// Members without updates at the last look.
    pub(crate) fn silent(&self) -> impl Iterator<Item = SilentMonitor> {
        self.0.values().filter_map(|awaited| awaited.silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_without_word_is_told_of_once_and_once_that_it_is_back() {
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
        // One is heard, of the other there is never a word.
        assert_eq!(look(10_000, &[one, other], Some(9_000)), (none(), 0));
        assert_eq!(look(13_000, &[one, other], Some(12_500)), (none(), 0));
        let never = Changes { silent: vec![SilentMonitor { member: other, was_heard: false }], ..none() };
        assert_eq!(look(13_001, &[one, other], Some(12_500)), (never, 1));
        assert_eq!(look(15_000, &[one, other], Some(12_500)), (none(), 1));
        // Then the first one falls silent, and comes back.
        let silent = Changes { silent: vec![SilentMonitor { member: one, was_heard: true }], ..none() };
        assert_eq!(look(15_501, &[one, other], Some(12_500)), (silent, 2));
        let back = Changes { heard: vec![one], ..none() };
        assert_eq!(look(16_000, &[one, other], Some(15_900)), (back, 1));
        // One that takes no calls is not waited for, and gets its time again when it does.
        assert_eq!(look(17_000, &[], None), (none(), 0));
        assert_eq!(look(90_000, &[one], Some(15_900)), (none(), 0));
    }
}
