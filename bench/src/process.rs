//! A process and all its descendants: started, measured from outside, stopped.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
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
    ///
    /// # Errors
    /// It has ended.
    pub fn pause(&self, is_paused: bool) -> io::Result<()> {
        self.signal(if is_paused { Signal::STOP } else { Signal::CONT })
    }

    /// Ends it at once, without a chance to say anything.
    ///
    /// # Errors
    /// It has ended already.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(pid.ok_or(io::ErrorKind::InvalidData)?, signal)?)
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

/// Work on this machine that is neither the driver's nor the target's, from the start of the watch.
pub struct Others {
    since: Instant,
    busy: u64,
    own: u64,
}

impl Others {
    /// Starts to watch.
    pub fn watch() -> io::Result<Self> {
        Ok(Self { since: Instant::now(), busy: busy_ticks()?, own: ticks_of(std::process::id())?.0 })
    }

    /// Processors that others kept busy on average since, the target having had `target`. Wherever this is not near
    /// zero the figures tell of them as well: they took processors, and caches, away.
    pub fn processors(&self, target: Usage) -> io::Result<f64> {
        let own = ticks_of(std::process::id())?.0 - self.own;
        let theirs =
            (busy_ticks()? - self.busy).saturating_sub(own + target.user_ticks + target.system_ticks);
        // Ticks are 10 ms for whoever asks, whatever the kernel's own clock.
        Ok(theirs as f64 / 100.0 / self.since.elapsed().as_secs_f64())
    }
}

/// Ticks that all processors together have spent at work: the first line of `proc_stat(5)` without idle and waiting.
fn busy_ticks() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let mut fields = stat.split_whitespace().skip(1).map(|field| number(Some(field)));
    let mut next = || fields.next().unwrap_or(Err(io::ErrorKind::InvalidData.into()));
    let (user, nice, system) = (next()?, next()?, next()?);
    let (_idle, _io_wait) = (next()?, next()?);
    Ok(user + nice + system + next()? + next()?)
}

/// Time that the host of a virtual machine took from processors which had something to do, from the start of the
/// watch.
pub struct Stolen<const N: usize> {
    since: Instant,
    processors: [usize; N],
    ticks: [u64; N],
}

impl<const N: usize> Stolen<N> {
    /// Starts to watch `processors`.
    pub fn watch(processors: [usize; N]) -> io::Result<Self> {
        Ok(Self { since: Instant::now(), processors, ticks: stolen_ticks(processors)? })
    }

    /// The share of the time since that was stolen from each, 0 to 1. As coarse as ticks are: of 10 ms.
    pub fn shares(&self) -> io::Result<[f64; N]> {
        let mut shares = [0.0; N];
        for ((share, now), then) in shares.iter_mut().zip(stolen_ticks(self.processors)?).zip(self.ticks) {
            *share = (now - then) as f64 / 100.0 / self.since.elapsed().as_secs_f64();
        }
        Ok(shares)
    }
}

fn stolen_ticks<const N: usize>(processors: [usize; N]) -> io::Result<[u64; N]> {
    let stat = fs::read_to_string("/proc/stat")?;
    let mut ticks = [0; N];
    for (ticks, processor) in ticks.iter_mut().zip(processors) {
        *ticks = stolen_of(&stat, processor)?;
    }
    Ok(ticks)
}

/// The field `steal` of `proc_stat(5)`, the eighth after the processor's name.
fn stolen_of(stat: &str, processor: usize) -> io::Result<u64> {
    let name = format!("cpu{processor}");
    let line = stat.lines().map(str::split_whitespace).find_map(|mut line| {
        let ours = line.next() == Some(&name);
        ours.then_some(line)
    });
    number(line.and_then(|mut fields| fields.nth(7)))
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

/// `pid` and all its descendants.
fn family(pid: u32) -> io::Result<Vec<u32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(process) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
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
    fn stolen_time_is_read_from_the_processors_own_line() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu1 1 2 3 4 5 6 7 8 9 10\ncpu10 0 0 0 0 0 0 0 80 0 0\nintr 5\n";
        assert_eq!([1, 10].map(|processor| stolen_of(stat, processor).expect("a line")), [8, 80]);
        assert!(stolen_of(stat, 2).is_err());
        let watch = Stolen::watch([0]).expect("a processor 0");
        assert!((0.0..=1.0).contains(&watch.shares().expect("still there")[0]));
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
