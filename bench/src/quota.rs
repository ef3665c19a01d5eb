//! A control group that holds a process to a part of a processor.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Length of a period of the quota in microseconds: short, so that a process that has used up its part is not silent
/// for long.
const PERIOD_US: u64 = 10_000;

/// A control group of its own, which goes with this value. Its processes have to end first.
pub struct Quota {
    directory: PathBuf,
}

impl Quota {
    /// A new group whose processes may use this part of a processor.
    ///
    /// # Errors
    /// There is no control group that this process may make one in.
    pub fn new(name: &str, processors: f64) -> Result<Self> {
        let (first, second) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let is_first = first.join("cpu.cfs_quota_us").exists();
        let directory = (if is_first { first } else { second }).join(name);
        fs::create_dir_all(&directory).with_context(|| {
            format!("{}: needs root, or a group that is handed over", directory.display())
        })?;
        let quota = Self { directory };
        let quota_us = (processors * PERIOD_US as f64).round() as u64;
        if is_first {
            quota.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            quota.write("cpu.cfs_quota_us", &quota_us.to_string())?;
        } else {
            quota.write("cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
        }
        Ok(quota)
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let file = self.directory.join(file);
        fs::write(&file, value).with_context(|| file.display().to_string())
    }

    /// The same command, in this group from its beginning.
    pub fn command(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        let group = self.directory.join("cgroup.procs");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group);
        shell.arg(command.get_program()).args(command.get_args());
        shell
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Left behind, it would hold nobody.
        let _ = fs::remove_dir(&self.directory);
    }
}
