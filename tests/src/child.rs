//! A child process that is killed at the end of its test, with its output in files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::wait::{until, within};

/// Bytes of a log that are printed when a test fails.
const TAIL_BYTES: usize = 3000;

/// A running program, killed on drop.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    name: String,
    folder: PathBuf,
    logs: Vec<PathBuf>,
}

impl Child {
    /// Starts `command` in `folder`, which is created if needed. Output goes to `NAME.out` and `NAME.err` there.
    pub(crate) fn start(name: &str, folder: &Path, command: &mut Command) -> Self {
        Self::start_with_errors_to(name, folder, command, None)
    }

    /// Starts `command` as [`Child::start`] does, with a pipe to its standard input.
    pub(crate) fn start_with_input(name: &str, folder: &Path, command: &mut Command) -> (Self, ChildStdin) {
        let mut child = Self::spawn(name, folder, command, (Stdio::piped(), None));
        let input = child.process.stdin.take().expect("its input is a pipe");
        (child, input)
    }

    /// Starts `command` as [`Child::start`] does, with another destination of standard error.
    pub(crate) fn start_with_errors_to(
        name: &str,
        folder: &Path,
        command: &mut Command,
        errors: Option<Stdio>,
    ) -> Self {
        Self::spawn(name, folder, command, (Stdio::null(), errors))
    }

    fn spawn(
        name: &str,
        folder: &Path,
        command: &mut Command,
        (input, errors): (Stdio, Option<Stdio>),
    ) -> Self {
        fs::create_dir_all(folder).expect("a folder for the logs can be made");
        let logs = vec![folder.join(format!("{name}.out")), folder.join(format!("{name}.err"))];
        let open = |path: &PathBuf| {
            Stdio::from(File::options().append(true).create(true).open(path).expect("a log can be opened"))
        };
        let errors = errors.unwrap_or_else(|| open(&logs[1]));
        command.current_dir(folder).stdin(input).stdout(open(&logs[0])).stderr(errors);
        let process = command.spawn().unwrap_or_else(|error| panic!("{name}: {command:?}: {error}"));
        Self { process, name: name.to_owned(), folder: folder.to_owned(), logs }
    }

    /// Sends a signal, unless the process has ended.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let pid = Pid::from_child(&self.process);
            kill_process(pid, signal).unwrap_or_else(|error| panic!("{}: {signal:?}: {error}", self.name));
        }
    }

    /// Sends a signal that ends the process, for programs that need to clean up. Returns whether the process ends
    /// within ten seconds.
    pub(crate) fn end(&mut self, signal: Signal) -> bool {
        self.signal(signal);
        (0..500).any(|_| {
            thread::sleep(Duration::from_millis(20));
            self.ended().is_some()
        })
    }

    /// Limits the size of the files that the process writes; `None`: removes the limit.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(Pid::from_child(&self.process)), Resource::Fsize, limit)
            .expect("a parent may set the limits of a child");
    }

    /// Limits the process to `more` file descriptors above the number that it has open now.
    pub(crate) fn limit_descriptors(&self, more: u64) {
        let process = Pid::from_child(&self.process);
        let open = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero()))
            .expect("the file descriptors of a child can be listed");
        let most = Some(open.count() as u64 + more);
        let limit = Rlimit { current: most, maximum: most };
        prlimit(Some(process), Resource::Nofile, limit).expect("a parent may set the limits of a child");
    }

    /// Returns its exit status if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().expect("a parent may query the state of a child")
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let name = self.name.clone();
        until(&format!("{name} ends"), || self.ended())
    }

    /// The same as [`Child::wait`], for at most `limit`.
    pub(crate) fn wait_within(&mut self, limit: Duration) -> ExitStatus {
        let name = self.name.clone();
        within(limit, &format!("{name} ends"), || self.ended())
    }

    /// `kill -9`, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.process.wait().expect("a killed child can be waited for");
    }

    /// Returns its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns its folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns its standard error so far.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.logs[1]).expect("the log is text")
    }

    /// Returns its standard output so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.logs[0]).expect("it was opened")).into_owned()
    }

    /// Prints the ends of its logs, and of any `*errors.log` beside them.
    pub(crate) fn print_logs(&self) {
        let beside = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let errors = beside.filter(|path| path.to_string_lossy().ends_with("errors.log"));
        for path in self.logs.iter().cloned().chain(errors) {
            let text = fs::read(&path).unwrap_or_default();
            let tail = &text[text.len().saturating_sub(TAIL_BYTES)..];
            if !tail.is_empty() {
                eprintln!("--- {}\n{}", path.display(), String::from_utf8_lossy(tail));
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Not `kill`: a panic while panicking would hide the first one.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            self.print_logs();
        }
    }
}
