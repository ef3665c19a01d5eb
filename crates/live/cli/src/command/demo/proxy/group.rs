//! A control group for the thread of a proxy, which holds the thread to a part of a processor: cgroups of version 1,
//! where threads of one process may be in several groups.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the groups of the cpu controller stand.
const ROOT: &str = "/sys/fs/cgroup/cpu";
/// Length of a period of the quota in microseconds. A short one, since a thread that has used up its part is silent
/// until the next period.
const PERIOD_US: f64 = 10_000.0;
/// The least quota that the kernel takes.
const QUOTA_MIN_US: f64 = 1_000.0;
/// The most weight that a group can have: what the quota allows is to be had, whatever else runs on the machine.
const SHARES_MAX: &str = "262144";

/// A group, which goes with this value.
pub(super) struct Group {
    directory: PathBuf,
    /// The group around it, to which the calling thread belongs.
    parent: PathBuf,
}

impl Group {
    /// A new one, whose threads may use this part of a processor.
    pub(super) fn new(name: &str, processor: f64) -> Result<Self> {
        let parent = own();
        let directory = parent.join(format!("sarabande-demo-{}-{name}", std::process::id()));
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let group = Self { directory, parent };
        write(&group.directory, "cpu.cfs_period_us", &PERIOD_US.to_string())?;
        group.allow(processor)?;
        write(&group.directory, "cpu.shares", SHARES_MAX)?;
        Ok(group)
    }

    /// From now on its threads may use this part of a processor.
    pub(super) fn allow(&self, processor: f64) -> Result<()> {
        let quota_us = (processor * PERIOD_US).clamp(QUOTA_MIN_US, PERIOD_US).round();
        write(&self.directory, "cpu.cfs_quota_us", &quota_us.to_string())
    }

    /// Moves the calling thread into it. The threads that it starts from then on are in the group, too.
    pub(super) fn enter(&self) -> Result<()> {
        write(&self.directory, "tasks", "0")
    }

    /// Moves the calling thread back, and leaves those that it has started.
    pub(super) fn leave(&self) -> Result<()> {
        write(&self.parent, "tasks", "0")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only a group without threads can be removed. After an error there may be some.
        let threads = fs::read_to_string(self.directory.join("tasks")).unwrap_or_default();
        for thread in threads.lines() {
            // A thread that has ended meanwhile is as good.
            let _ = write(&self.parent, "tasks", thread);
        }
        // Left behind, it would hold nobody.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// The group of the calling thread, where it is seen: a container may have a view of its own.
fn own() -> PathBuf {
    let groups = fs::read_to_string("/proc/thread-self/cgroup").unwrap_or_default();
    let path = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "cpu").then(|| path.trim_start_matches('/'))
    });
    let own = Path::new(ROOT).join(path.unwrap_or_default());
    if own.is_dir() { own } else { ROOT.into() }
}

fn write(directory: &Path, file: &str, value: &str) -> Result<()> {
    let file = directory.join(file);
    fs::write(&file, value).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_group_has_the_threads_that_were_started_in_it_and_goes_before_they_end() {
        // Root may make one, where there is a cpu controller of version 1.
        let Ok(group) = Group::new("test", 0.1) else { return };
        let (directory, parent) = (group.directory.clone(), group.parent.clone());
        let (end, ended) = channel::<()>();
        group.enter().unwrap();
        assert_eq!(own(), directory);
        let thread = std::thread::spawn(move || (ended.recv().is_err(), own()));
        group.leave().unwrap();
        assert_eq!(own(), parent);
        let quota = fs::read_to_string(directory.join("cpu.cfs_quota_us")).unwrap();
        assert_eq!(quota.trim(), "1000");
        let holds_one = || fs::read_to_string(directory.join("tasks")).unwrap().lines().count() == 1;
        assert!(holds_one());
        drop(group);
        assert!(!directory.exists());
        drop(end);
        assert_eq!(thread.join().unwrap(), (true, parent));
    }
}
