//! Reads files of `/proc` in the formats of proc(5).

use std::fs;
use std::io;
use std::path::PathBuf;

/// Memory and threads of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessStatus {
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Virtual memory in bytes.
    pub virtual_bytes: u64,
    /// Number of threads.
    pub threads: u64,
}

impl ProcessStatus {
    /// Reads the values of this process from `/proc/self/status`.
    pub fn now() -> io::Result<Self> {
        Self::parse(&fs::read_to_string("/proc/self/status")?)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(file: &str) -> Option<Self> {
        let number = |name: &str| -> Option<u64> {
            let value = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.split_whitespace().next()?.parse().ok()
        };
        // The unit is always kB, which means 1024 bytes here.
        Some(Self {
            resident_bytes: 1024 * number("VmRSS")?,
            virtual_bytes: 1024 * number("VmSize")?,
            threads: number("Threads")?,
        })
    }
}

/// Returns how often the calling thread has slept until an event woke it.
pub fn sleeps() -> io::Result<u64> {
    let file = fs::read_to_string("/proc/thread-self/status")?;
    let count = file.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the number of open file descriptors of this process.
pub fn open_files() -> io::Result<usize> {
    // Reading the directory takes one descriptor.
    Ok(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1))
}

/// A control group of a thread; see cgroups(7).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlGroup {
    /// Controllers; empty for version 2.
    pub controllers: Vec<String>,
    /// Path below the root of the hierarchy.
    pub path: PathBuf,
}

impl ControlGroup {
    /// Reads all control groups of the calling thread from `/proc/thread-self/cgroup`. A thread may be in another group
    /// than the rest of its process.
    pub fn all() -> io::Result<Vec<Self>> {
        Ok(Self::parse(&fs::read_to_string("/proc/thread-self/cgroup")?))
    }

    /// Parses lines such as `4:cpu,cpuacct:/site/proxy`, and `0::/site` for version 2.
    pub fn parse(file: &str) -> Vec<Self> {
        let group = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
            Some(Self { controllers: controllers.collect(), path: path.into() })
        };
        file.lines().filter_map(group).collect()
    }
}

/// A mounted file system in this process's view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Directory of the file system that is mounted at `point`.
    pub root: PathBuf,
    /// Mount point.
    pub point: PathBuf,
    /// Type of the file system, such as `cgroup2`.
    pub kind: String,
    /// Options of the file system, such as `rw`; for control groups of version 1 also the controllers.
    pub options: Vec<String>,
}

impl Mount {
    /// Reads all mounts of this process from `/proc/self/mountinfo`.
    pub fn all() -> io::Result<Vec<Self>> {
        Ok(Self::parse(&fs::read_to_string("/proc/self/mountinfo")?))
    }

    /// Parses lines such as `25 24 0:21 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct`.
    pub fn parse(file: &str) -> Vec<Self> {
        let mount = |line: &str| {
            // Any number of optional fields precede the dash.
            let (place, system) = line.split_once(" - ")?;
            let (mut place, mut system) = (place.split(' ').skip(3), system.split(' '));
            Some(Self {
                root: unescaped(place.next()?).into(),
                point: unescaped(place.next()?).into(),
                kind: system.next()?.to_owned(),
                options: system.nth(1)?.split(',').map(str::to_owned).collect(),
            })
        };
        file.lines().filter_map(mount).collect()
    }
}

/// Decodes a path in which the kernel has written space, tab, line end and backslash as octal numbers.
fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    // The backslash comes last, so that its result is not decoded again.
    escapes.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_by_the_names_of_its_lines() {
        let file =
            "Name:\tVmRSS: 1\nVmPeak:\t  99 kB\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\nThreads:\t7\n";
        let expected = ProcessStatus { resident_bytes: 524_288, virtual_bytes: 2_097_152, threads: 7 };
        assert_eq!(ProcessStatus::parse(file), Some(expected));
        // A kernel thread has no memory.
        assert_eq!(ProcessStatus::parse("Name:\tkthreadd\nThreads:\t1\n"), None);
        let own = ProcessStatus::now().unwrap();
        assert!(own.resident_bytes > 0 && own.virtual_bytes >= own.resident_bytes && own.threads >= 1);
    }

    #[test]
    fn an_open_file_is_counted() {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files: Vec<_> = (0..100).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let open = open_files().unwrap();
        assert!(open >= files.len() && most.is_none_or(|most| open as u64 <= most), "{open} of {most:?}");
    }

    #[test]
    fn groups_of_both_versions_are_read() {
        let found = ControlGroup::parse("4:cpu,cpuacct:/site:1/proxy\n0::/site\nno group\n");
        let group = |controllers: &[&str], path: &str| ControlGroup {
            controllers: controllers.iter().map(ToString::to_string).collect(),
            path: path.into(),
        };
        assert_eq!(found, [group(&["cpu", "cpuacct"], "/site:1/proxy"), group(&[], "/site")]);
    }

    #[test]
    fn a_mount_is_read_with_optional_fields_or_none() {
        let file = "30 24 0:30 /a\\040b /mnt\\134040 rw shared:9 master:1 - cgroup2 none rw,nsdelegate\n\
                    31 24 0:31 / /sys ro - sysfs sysfs ro\n\
                    32 24 0:32 / /cut ro\n";
        let mount = |root: &str, point: &str, kind: &str, options: &[&str]| Mount {
            root: root.into(),
            point: point.into(),
            kind: kind.into(),
            options: options.iter().map(ToString::to_string).collect(),
        };
        let expected = [
            mount("/a b", "/mnt\\040", "cgroup2", &["rw", "nsdelegate"]),
            mount("/", "/sys", "sysfs", &["ro"]),
        ];
        assert_eq!(Mount::parse(file), expected);
        assert!(Mount::all().unwrap().iter().any(|mount| mount.kind == "proc"));
    }
}
