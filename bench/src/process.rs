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

/// How long a process may take to end after SIGTERM before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Processor time used since the start, by all threads of a process and of its descendants that are still alive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// All of it, in nanoseconds, as the scheduler counts it.
    pub total_ns: u64,
    /// The user's part in clock ticks of 10 ms; sampled, so good for a share only.
    pub user_ticks: u64,
    /// The kernel's part, likewise.
    pub system_ticks: u64,
}

impl Usage {
    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            total_ns: self.total_ns - earlier.total_ns,
            user_ticks: self.user_ticks - earlier.user_ticks,
            system_ticks: self.system_ticks - earlier.system_ticks,
        }
    }

    /// The user's share of the time, 0 to 1.
    pub fn user_share(self) -> f64 {
        self.user_ticks as f64 / (self.user_ticks + self.system_ticks).max(1) as f64
    }
}

/// A running program, ended with this value.
pub struct Program {
    child: Child,
}

impl Program {
    /// Starts `command`.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self { child: command.spawn()? })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Stops it where it is, or lets it go on (`SIGSTOP`, `SIGCONT`): itself alone.
    pub fn pause(&self, is_paused: bool) -> io::Result<()> {
        self.signal(if is_paused { Signal::STOP } else { Signal::CONT })
    }

    /// Ends it and its descendants at once, without a chance to say anything.
    pub fn kill(self) {
        for process in family(self.child.id()).unwrap_or_default() {
            // One that has ended already is as good.
            let _ = signal(process, Signal::KILL);
        }
    }

    fn signal(&self, with: Signal) -> io::Result<()> {
        signal(self.child.id(), with)
    }

    /// Memory that it has now, itself alone, in bytes (`VmRSS` of `proc_pid_status(5)`).
    pub fn resident(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(number(line.and_then(|kilobytes| kilobytes.split_whitespace().next()))? * 1024)
    }

    /// What it has used so far.
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
        // A process that has ended already is as good as one that ends now.
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

/// The program of this name in the folder of the one that runs.
pub fn beside(name: &str) -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

/// What the admin interface at `admin` says at `path`.
pub fn ask(admin: SocketAddr, path: &str) -> Result<Value> {
    let mut stream = TcpStream::connect_timeout(&admin, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    Ok(serde_json::from_str(body)?)
}

/// Processor time of the first thread, which plays callers and answerers.
pub(crate) fn own_ns() -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/schedstat", std::process::id())).unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Memory that this process has now, in bytes.
pub fn resident() -> Result<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    Ok(number(statm.split_whitespace().nth(1))? * rustix::param::page_size() as u64)
}

/// Work of processes that are neither this one nor its descendants, from the start of the watch.
pub struct Others {
    since: Instant,
    busy: u64,
    own: u64,
}

impl Others {
    /// Starts to watch.
    pub fn watch() -> io::Result<Self> {
        Ok(Self { since: Instant::now(), busy: busy_ticks()?, own: own_ticks()? })
    }

    /// Processors that others kept busy on average since, or the host of a virtual machine took. Wherever this is not near
    /// zero the figures tell of them as well: they took processors, and caches, away.
    pub fn processors(&self) -> io::Result<f64> {
        let theirs = (busy_ticks()? - self.busy).saturating_sub(own_ticks()? - self.own);
        // Ticks are 10 ms for whoever asks, whatever the kernel's own clock.
        Ok(theirs as f64 / 100.0 / self.since.elapsed().as_secs_f64())
    }
}

/// Has what programs leave behind belong to this process, so that its time is known when it ends.
pub(crate) fn adopt_orphans() -> Result<()> {
    let own = i32::try_from(std::process::id()).ok().and_then(Pid::from_raw);
    Ok(set_child_subreaper(own)?)
}

/// Notices what has ended of that.
pub(crate) fn reap_orphans() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// The process that takes the greatest part of a processor in this time, beside this one and its descendants.
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

/// Ticks of this process and its descendants, and of those of them that have ended and were waited for (`cutime` and
/// `cstime`).
fn own_ticks() -> io::Result<u64> {
    let ticks = |process: &u32| {
        // One that ends meanwhile is counted with whoever waits for it.
        let fields = stat_fields(*process).unwrap_or_default();
        (11..15).filter_map(|field| fields.get(field)?.parse::<u64>().ok()).sum::<u64>()
    };
    Ok(family(std::process::id())?.iter().map(ticks).sum())
}

/// Ticks that processes have had of all processors, or the host of a virtual machine in their place: fields of the first
/// line of `proc_stat(5)`.
fn busy_ticks() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let mut fields = stat.split_whitespace().skip(1).map(|field| number(Some(field)));
    let mut next = || fields.next().unwrap_or(Err(io::ErrorKind::InvalidData.into()));
    let work = next()? + next()? + next()?;
    // Interrupts are whoever's: those of loopback are our own.
    let [_idle, _waiting, _interrupts, _soft_interrupts] = [next()?, next()?, next()?, next()?];
    Ok(work + next()?)
}

/// Ties the calling thread, and what it starts from now on, to one processor.
///
/// # Errors
/// A processor that it may not use.
pub fn tie_to(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on processor {processor}"))
}

/// Processors of this machine, whether or not this process may run on all of them.
pub fn processors() -> usize {
    let list = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    list.lines().filter(|line| line.starts_with("processor")).count().max(1)
}

/// All processes.
fn processes() -> io::Result<Vec<u32>> {
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(fs::read_dir("/proc")?.filter_map(number).collect())
}

/// `pid` and all its descendants.
fn family(pid: u32) -> io::Result<Vec<u32>> {
    let mut parents = BTreeMap::new();
    for process in processes()? {
        // A process may end between the listing and the look at it.
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

/// Ticks that all threads of `pid` have used: all of them, and the user's.
fn ticks_of(pid: u32) -> io::Result<(u64, u64)> {
    // proc_pid_stat(5): utime and stime are the fields 14 and 15; the state, field 3, is the first here.
    let fields = stat_fields(pid)?;
    let user = number(fields.get(11).map(String::as_str))?;
    Ok((user + number(fields.get(12).map(String::as_str))?, user))
}

/// The fields of `/proc/PID/stat` after the program's name, which may hold spaces itself.
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
        // However slow the machine: the busy grandchild gets there in the end, and its idle parent never would.
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
        // A process of this test is no other one.
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
