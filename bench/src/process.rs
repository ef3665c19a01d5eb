//! A process and all its descendants: started, measured from outside, stopped.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;

/// Time between SIGTERM and SIGKILL.
const PATIENCE: Duration = Duration::from_secs(10);

/// Processor time used since the start by all threads of a process and of its living descendants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Total in nanoseconds, as counted by the scheduler.
    pub total_ns: u64,
    /// User time in clock ticks of 10 ms. Sampled, so only good for a share.
    pub user_ticks: u64,
    /// System time, likewise.
    pub system_ticks: u64,
}

impl Usage {
    /// Returns the usage since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            total_ns: self.total_ns - earlier.total_ns,
            user_ticks: self.user_ticks - earlier.user_ticks,
            system_ticks: self.system_ticks - earlier.system_ticks,
        }
    }

    /// Returns the user's share of the time, 0 to 1.
    pub fn user_share(self) -> f64 {
        self.user_ticks as f64 / (self.user_ticks + self.system_ticks).max(1) as f64
    }
}

/// A running program, ended on drop.
pub struct Program {
    child: Child,
}

impl Program {
    /// Starts `command`.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self { child: command.spawn()? })
    }

    /// Returns its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has ended by itself.
    pub fn ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Stops or continues the process itself, without descendants (`SIGSTOP`, `SIGCONT`).
    pub fn pause(&self, is_paused: bool) -> io::Result<()> {
        self.signal(if is_paused { Signal::STOP } else { Signal::CONT })
    }

    /// Kills it and its descendants.
    pub fn kill(self) {
        for process in family(self.child.id()).unwrap_or_default() {
            // It may have ended already.
            let _ = signal(process, Signal::KILL);
        }
    }

    fn signal(&self, with: Signal) -> io::Result<()> {
        signal(self.child.id(), with)
    }

    /// Returns the resident memory of the process itself in bytes (`VmRSS` of `proc_pid_status(5)`).
    pub fn resident(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(number(line.and_then(|kilobytes| kilobytes.split_whitespace().next()))? * 1024)
    }

    /// Returns its usage so far.
    pub fn usage(&self) -> io::Result<Usage> {
        let mut usage = Usage::default();
        for pid in family(self.child.id())? {
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                let schedstat = fs::read_to_string(task?.path().join("schedstat"))?;
                usage.total_ns += number(schedstat.split_whitespace().next())?;
            }
            let (all, user) = ticks_of(pid)?;
            usage.user_ticks += user;
            usage.system_ticks += all - user;
        }
        Ok(usage)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.signal(Signal::TERM);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > PATIENCE {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn signal(process: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    Ok(kill_process(pid.ok_or(io::ErrorKind::InvalidData)?, signal)?)
}

/// Returns the path of a program in the folder of the running one.
pub fn beside(name: &str) -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

/// Returns the response of the admin interface at `admin` for `path`.
pub fn ask(admin: SocketAddr, path: &str) -> Result<Value> {
    let mut stream = TcpStream::connect_timeout(&admin, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    Ok(serde_json::from_str(body)?)
}

/// Returns the processor time of the first thread, which plays callers and answerers.
pub(crate) fn own_ns() -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/schedstat", std::process::id())).unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the resident memory of this process in bytes.
pub fn resident() -> Result<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    Ok(number(statm.split_whitespace().nth(1))? * rustix::param::page_size() as u64)
}

/// Work of processes other than this one and its descendants since the start of the watch.
pub struct Others {
    since: Instant,
    busy: u64,
    own: u64,
}

impl Others {
    /// Starts the watch.
    pub fn watch() -> io::Result<Self> {
        Ok(Self { since: Instant::now(), busy: busy_ticks()?, own: own_ticks()? })
    }

    /// Returns the number of processors that other processes, or the host of a virtual machine, kept busy on average.
    /// If it is not near zero, they disturbed the measurements: they took processors and caches.
    pub fn processors(&self) -> io::Result<f64> {
        let theirs = (busy_ticks()? - self.busy).saturating_sub(own_ticks()? - self.own);
        // The unit is always 10 ms, whatever the kernel's own tick.
        Ok(theirs as f64 / 100.0 / self.since.elapsed().as_secs_f64())
    }
}

/// Makes orphaned descendants children of this process, so that their time is known when they end.
pub(crate) fn adopt_orphans() -> Result<()> {
    let own = i32::try_from(std::process::id()).ok().and_then(Pid::from_raw);
    Ok(set_child_subreaper(own)?)
}

/// Reaps orphans that have ended.
pub(crate) fn reap_orphans() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Returns the process that used most processor time during `time`, apart from this one and its descendants.
pub(crate) fn busiest_other(time: Duration) -> io::Result<(String, f64)> {
    let ticks = || -> io::Result<BTreeMap<u32, u64>> {
        let own = family(std::process::id())?;
        let others = processes()?.into_iter().filter(|process| !own.contains(process));
        Ok(others.filter_map(|process| Some((process, ticks_of(process).ok()?.0))).collect())
    };
    let before = ticks()?;
    std::thread::sleep(time);
    let used =
        |(process, now): (u32, u64)| (now - before.get(&process).copied().unwrap_or(now).min(now), process);
    let (most, process) = ticks()?.into_iter().map(used).max().unwrap_or_default();
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Ok((format!("{} (process {process})", name.trim()), most as f64 / 100.0 / time.as_secs_f64()))
}

/// Returns the ticks of this process and its descendants, including those that have ended and were waited for (`cutime`
/// and `cstime`).
fn own_ticks() -> io::Result<u64> {
    let ticks = |process: &u32| {
        // A process that ends meanwhile is counted with its parent.
        let fields = stat_fields(*process).unwrap_or_default();
        (11..15).filter_map(|field| fields.get(field)?.parse::<u64>().ok()).sum::<u64>()
    };
    Ok(family(std::process::id())?.iter().map(ticks).sum())
}

/// Returns the ticks that processes used on all processors, or that the host of a virtual machine took: fields of the
/// first line of `proc_stat(5)`.
fn busy_ticks() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let mut fields = stat.split_whitespace().skip(1).map(|field| number(Some(field)));
    let mut next = || fields.next().unwrap_or(Err(io::ErrorKind::InvalidData.into()));
    let work = next()? + next()? + next()?;
    // Interrupts cannot be attributed: those of loopback are our own.
    let [_idle, _waiting, _interrupts, _soft_interrupts] = [next()?, next()?, next()?, next()?];
    Ok(work + next()?)
}

/// Ties the calling thread, and the processes that it starts from now on, to one processor.
///
/// # Errors
/// Fails if the thread may not use the processor.
pub fn tie_to(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on processor {processor}"))
}

/// Returns the number of processors of this machine, including those that this process may not use.
pub fn processors() -> usize {
    let list = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    list.lines().filter(|line| line.starts_with("processor")).count().max(1)
}

/// Returns all processes.
fn processes() -> io::Result<Vec<u32>> {
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(fs::read_dir("/proc")?.filter_map(number).collect())
}

/// Returns `pid` and all its descendants.
fn family(pid: u32) -> io::Result<Vec<u32>> {
    let mut parents = BTreeMap::new();
    for process in processes()? {
        // A process may end after the listing.
        if let Ok(fields) = stat_fields(process) {
            parents.insert(process, number(fields.get(1).map(String::as_str))? as u32);
        }
    }
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(process, _)| *process));
        next += 1;
    }
    Ok(found)
}

/// Returns the ticks used by all threads of `pid`: total and user.
fn ticks_of(pid: u32) -> io::Result<(u64, u64)> {
    // proc_pid_stat(5): utime and stime are the fields 14 and 15; the state, field 3, is the first here.
    let fields = stat_fields(pid)?;
    let user = number(fields.get(11).map(String::as_str))?;
    Ok((user + number(fields.get(12).map(String::as_str))?, user))
}

/// Returns the fields of `/proc/PID/stat` after the program's name, which may contain spaces.
fn stat_fields(pid: u32) -> io::Result<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
    Ok(fields.split_whitespace().map(str::to_owned).collect())
}

fn number(text: Option<&str>) -> io::Result<u64> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_child_of_a_child_is_counted() {
        let script = "(while :; do :; done) & echo $! >/dev/null; trap 'kill $!' TERM; wait";
        let program = Program::start(Command::new("sh").args(["-c", script])).expect("sh starts");
        // Independent of the machine's speed: the busy grandchild reaches it in the end, and its idle parent never
        // would.
        while program.usage().expect("usage").total_ns < 100_000_000 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let usage = program.usage().expect("usage");
        assert!(busy_ticks().expect("the machine's ticks") >= usage.user_ticks + usage.system_ticks);
        assert!(usage.user_ticks + usage.system_ticks > 0);
        assert_eq!(usage.since(usage).total_ns, 0);
    }

    #[test]
    fn a_descendant_is_no_other_process() {
        // A process of this test does not count as another.
        let busy = Program::start(Command::new("sh").args(["-c", "while :; do :; done"])).expect("sh starts");
        let (name, _) = busiest_other(Duration::from_millis(100)).expect("there is /proc");
        assert!(!name.ends_with(&format!("(process {})", busy.id())), "{name}");
        let watch = Others::watch().expect("there is /proc");
        let before = own_ticks().expect("there is /proc");
        while own_ticks().expect("there is /proc") < before + 20 {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(
            watch.processors().expect("there is /proc") < processors() as f64,
            "a descendant is no other"
        );
    }

    #[test]
    fn a_program_that_ends_is_noticed() {
        let mut program = Program::start(&mut Command::new("true")).expect("true starts");
        assert!(program.resident().is_ok_and(|bytes| bytes > 1_000) || program.ended().expect("wait"));
        while !program.ended().expect("wait") {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
