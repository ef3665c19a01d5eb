//! A control group that limits a process to a fraction of a processor.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Period of the quota in microseconds: short, so that a process that has used up its quota does not pause for long.
const PERIOD_US: f64 = 10_000.0;
/// Smallest quota of the kernel (`min_cfs_quota_period` in `kernel/sched/core.c`). A smaller fraction gets a longer
/// period.
const QUOTA_MIN_US: f64 = 1_000.0;

/// Greatest weights in versions 1 and 2 of control groups. A group then gets its whole quota, whatever else runs.
const SHARES_MAX: &str = "262144";
const WEIGHT_MAX: &str = "10000";

/// A control group, removed on drop. Its processes must have ended by then.
pub struct Quota {
    directory: PathBuf,
    is_first: bool,
}

impl Quota {
    /// Creates a group whose processes may use this fraction of a processor.
    ///
    /// # Errors
    /// Fails if this process cannot create a control group.
    pub fn new(name: &str, processors: f64) -> Result<Self> {
        let (first, second) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let is_first = first.join("cpu.cfs_quota_us").exists();
        let directory = (if is_first { first } else { second }).join(name);
        fs::create_dir_all(&directory).with_context(|| {
            format!("{}: needs root, or a group that is handed over", directory.display())
        })?;
        let quota = Self { directory, is_first };
        quota.limit(processors)?;
        let (file, most) = if is_first { ("cpu.shares", SHARES_MAX) } else { ("cpu.weight", WEIGHT_MAX) };
        quota.write(file, most)?;
        Ok(quota)
    }

    /// Changes the fraction of a processor for its processes.
    ///
    /// # Errors
    /// Fails if the group is gone.
    pub fn limit(&self, processors: f64) -> Result<()> {
        let (quota_us, period_us) = times_us(processors);
        if self.is_first {
            self.write("cpu.cfs_period_us", &period_us.to_string())?;
            self.write("cpu.cfs_quota_us", &quota_us.to_string())
        } else {
            self.write("cpu.max", &format!("{quota_us} {period_us}"))
        }
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let file = self.directory.join(file);
        fs::write(&file, value).with_context(|| file.display().to_string())
    }

    /// Returns the same command, in this group from its start.
    pub fn command(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        let group = self.directory.join("cgroup.procs");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group);
        shell.arg(command.get_program()).args(command.get_args());
        shell
    }
}

/// Returns the period of a group with this fraction of a processor.
pub fn period(processors: f64) -> Duration {
    Duration::from_micros(times_us(processors).1)
}

/// Returns the quota and period for this fraction of a processor.
fn times_us(processors: f64) -> (u64, u64) {
    let period_us = PERIOD_US.max(QUOTA_MIN_US / processors);
    ((processors * period_us).round() as u64, period_us.round() as u64)
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group that stays has no processes, and does no harm.
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quota_is_below_the_minimum_of_the_kernel() {
        assert_eq!([0.15, 1.0, 0.1].map(times_us), [(1_500, 10_000), (10_000, 10_000), (1_000, 10_000)]);
        assert_eq!([0.05, 0.04].map(times_us), [(1_000, 20_000), (1_000, 25_000)]);
    }
}
