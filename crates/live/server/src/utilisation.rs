//! How busy the process is: its processor time, as part of what it may use. That is a processor for each thread of a
//! shard, and no more than there are, and than the quota of its control groups. Or how busy it would be on a
//! processor that is a model.

use crate::proc::{ControlGroup, Mount};
use base::{Instant, Ledger, Operation};
use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use std::fs::read_to_string;
use std::io;
use std::path::{Path, PathBuf};

/// How often the figure is taken: [`distribute`'s](node::Distribution) period.
const PERIOD: Duration = Duration::from_secs(1);

/// A processor that is a model, for several servers in one process, which measured time would not tell apart: the
/// same work takes as much of it on any machine. For a server with one thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelProcessor {
    /// Steps a second that it can do. A message that is read is one, and so is a transaction that is made: a proxied
    /// call of seven messages has four, which is near to what is measured (docs/state-distribution.md).
    pub steps_per_second: f64,
}

impl ModelProcessor {
    /// The time that work takes.
    fn time(self, work: Ledger) -> Duration {
        let steps = work[Operation::Scan] + work[Operation::CreateTransaction];
        Duration::from_secs_f64(steps as f64 / self.steps_per_second)
    }
}

/// Takes the figure once a period.
pub(crate) struct Meter {
    threads: f64,
    model: Option<ModelProcessor>,
    since: Instant,
    spent: Duration,
}

impl Meter {
    /// From now on, for a process with so many shards; or for the shard that has done this work, on a model.
    pub(crate) fn new(now: Instant, threads: usize, (model, work): (Option<ModelProcessor>, Ledger)) -> Self {
        let there = std::thread::available_parallelism().map_or(threads, usize::from);
        let spent = model.map_or_else(processor_time, |model| model.time(work));
        Self { threads: threads.min(there) as f64, model, since: now, spent }
    }

    /// When the period is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.since + PERIOD
    }

    /// The length of the period that is over, and the part of the processor time that was used in it, from 0 to 1.
    /// `work` is the work done by the shard.
    pub(crate) fn period(&mut self, now: Instant, work: impl FnOnce() -> Ledger) -> Option<(Duration, f64)> {
        if now < self.deadline() {
            return None;
        }
        let (length, before) = (now.saturating_since(self.since), self.spent);
        let spent = self.model.map_or_else(processor_time, |model| model.time(work()));
        (self.since, self.spent) = (now, spent);
        let used = self.spent.saturating_sub(before).as_secs_f64();
        let processors = self.model.map_or_else(|| self.processors(), |_| 1.0);
        Some((length, (used / (length.as_secs_f64() * processors)).min(1.0)))
    }

    /// How many the process may use.
    fn processors(&self) -> f64 {
        // A quota may be changed at any time, and a process moved. Without /proc there is none to be known.
        let quotas = quotas().unwrap_or_default();
        quotas.iter().filter_map(Quota::processors).fold(self.threads, f64::min)
    }
}

/// The processor time of all threads so far, the kernel's included.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Where a control group says how much its processes may use.
#[derive(Debug, PartialEq, Eq)]
enum Quota {
    /// Version 1: its directory.
    First(PathBuf),
    /// Version 2: its directory.
    Second(PathBuf),
}

impl Quota {
    /// Processors; `None` without a limit.
    fn processors(&self) -> Option<f64> {
        match self {
            Self::First(directory) => first_version(
                &read_to_string(directory.join("cpu.cfs_quota_us")).ok()?,
                &read_to_string(directory.join("cpu.cfs_period_us")).ok()?,
            ),
            Self::Second(directory) => {
                let limit = read_to_string(directory.join("cpu.max")).ok()?;
                let (quota, period) = limit.trim().split_once(' ')?;
                first_version(quota, period)
            }
        }
    }
}

/// A quota in a period, both in microseconds; `max` and -1 are none.
fn first_version(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The control groups of this process and those around them.
fn quotas() -> io::Result<Vec<Quota>> {
    Ok(of(&ControlGroup::all()?, &Mount::all()?))
}

fn of(groups: &[ControlGroup], mounts: &[Mount]) -> Vec<Quota> {
    let mut quotas = Vec::new();
    for mount in mounts {
        let (is_second, has_cpu) = (mount.kind == "cgroup2", mount.options.iter().any(|it| it == "cpu"));
        let is_here = |group: &&ControlGroup| {
            if is_second {
                return group.controllers.is_empty();
            }
            mount.kind == "cgroup" && has_cpu && group.controllers.iter().any(|it| it == "cpu")
        };
        let group = groups.iter().find(is_here);
        let Some(group) = group else { continue };
        // In a namespace of its own a process may not see where it is; what is mounted there is what it may know.
        let below = group.path.strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let directory = mount.point.join(below);
        for directory in directory.ancestors().take_while(|it| it.starts_with(&mount.point)) {
            let directory = directory.to_owned();
            quotas.push(if is_second { Quota::Second(directory) } else { Quota::First(directory) });
        }
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(groups: &str, mounts: &str) -> Vec<Quota> {
        of(&ControlGroup::parse(groups), &Mount::parse(mounts))
    }

    #[test]
    fn both_versions_are_found_with_all_groups_around() {
        let mounts = "24 1 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            25 24 0:21 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
            26 24 0:22 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            27 24 0:23 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let groups = "5:memory:/m\n4:cpu,cpuacct:/site/proxy\n0::/site\n";
        let first = ["/sys/fs/cgroup/cpu/site/proxy", "/sys/fs/cgroup/cpu/site", "/sys/fs/cgroup/cpu"];
        let second = ["/sys/fs/cgroup/unified/site", "/sys/fs/cgroup/unified"];
        let first = first.map(|path| Quota::First(path.into()));
        let second = second.map(|path| Quota::Second(path.into()));
        assert_eq!(found(groups, mounts), first.into_iter().chain(second).collect::<Vec<_>>());
    }

    #[test]
    fn a_container_sees_the_group_that_is_mounted() {
        let mounts = "30 1 0:30 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let directory = |path: &str| vec![Quota::Second(path.into())];
        assert_eq!(found("0::/docker/abc\n", mounts), directory("/sys/fs/cgroup"));
        assert_eq!(found("0::/\n", mounts), directory("/sys/fs/cgroup"), "its own namespace");
        assert_eq!(found("", ""), []);
    }

    #[test]
    fn a_limit_is_read_and_none_is_none() {
        assert_eq!(first_version("5000\n", "10000\n"), Some(0.5));
        for none in [("-1\n", "100000\n"), ("max", "100000"), ("", ""), ("5000", "0")] {
            assert_eq!(first_version(none.0, none.1), None, "{none:?}");
        }
    }

    #[test]
    fn a_period_is_told_once() {
        let mut meter = Meter::new(Instant::ZERO, 2, (None, Ledger::default()));
        let mut period = |millis| meter.period(Instant::from_millis(millis), Ledger::default);
        assert_eq!(period(999), None);
        let (length, used) = period(1_500).expect("it is over");
        assert!(length == Duration::from_millis(1_500) && (0.0..=1.0).contains(&used), "{used}");
        assert_eq!(period(2_000), None);
        assert_eq!(meter.deadline(), Instant::from_millis(2_500));
    }

    #[test]
    fn on_a_model_work_takes_its_time() {
        let model = ModelProcessor { steps_per_second: 200.0 };
        let work = |messages: usize, transactions: usize| {
            let mut work = Ledger::default();
            (0..messages).for_each(|_| work.charge(Operation::Scan));
            (0..transactions).for_each(|_| work.charge(Operation::CreateTransaction));
            work.charge(Operation::Forward);
            work
        };
        let mut meter = Meter::new(Instant::ZERO, 1, (Some(model), work(1_000, 0)));
        let mut used = |second: u64, work: Ledger| {
            let (_, used) = meter.period(Instant::from_millis(1_000 * second), || work).expect("it is over");
            (used * 100.0).round() as u32
        };
        assert_eq!(used(1, work(1_060, 40)), 50);
        assert_eq!(used(3, work(1_160, 40)), 25, "in two seconds");
        assert_eq!(used(4, work(9_000, 40)), 100, "no more than all of it");
    }
}
