//! Processor quotas of a thread's control groups.

use crate::proc::{ControlGroup, Mount};
use std::fs::read_to_string;
use std::io;
use std::path::{Path, PathBuf};

/// Directory of a control group with the quota of its threads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Quota {
    /// Version 1.
    First(PathBuf),
    /// Version 2.
    Second(PathBuf),
}

impl Quota {
    /// Returns the quota in processors; `None` without a limit.
    pub(super) fn processors(&self) -> Option<f64> {
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

/// Parses a quota and its period, both in microseconds. `max` and -1 mean no limit.
fn first_version(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Returns the control groups of the calling thread and their ancestors.
pub(super) fn quotas() -> io::Result<Vec<Quota>> {
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
        // In its own namespace a process may not see its place in the hierarchy. The mounted directory is then the best
        // known group.
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
        assert_eq!(found("0::/\n", mounts), directory("/sys/fs/cgroup"), "in its own namespace");
        assert_eq!(found("", ""), []);
    }

    #[test]
    fn a_limit_is_read_and_none_is_none() {
        assert_eq!(first_version("5000\n", "10000\n"), Some(0.5));
        for none in [("-1\n", "100000\n"), ("max", "100000"), ("", ""), ("5000", "0")] {
            assert_eq!(first_version(none.0, none.1), None, "{none:?}");
        }
    }
}
