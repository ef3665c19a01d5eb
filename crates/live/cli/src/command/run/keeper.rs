//! The main process of a systemd service, which stays while servers take over from each other.
//!
//! `systemctl restart` ends the main process before it starts another one, so a server that is the main process would
//! lose its calls. This process is the main process instead, and the server is its child. SIGUSR1 means that the
//! service is restarted: this process ends and the server runs on. The next main process starts another server, which
//! takes over.

use anyhow::{Context, Result, bail};
use config::Level;
use rustix::process::{Pid, Signal, getppid, kill_process};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use tokio::signal::unix::{SignalKind, signal};

/// Environment variable with the process id of the keeper, for a server.
const VARIABLE: &str = "SARABANDE_KEEPER";

/// Returns the keeper of this process; `None` if there is none, or it has ended.
pub(crate) fn pid() -> Option<Pid> {
    let parent = getppid()?;
    let keeper: i32 = env::var(VARIABLE).ok()?.parse().ok()?;
    (keeper == parent.as_raw_nonzero().get()).then_some(parent)
}

/// Runs a server with the configuration in this file, and its successors, until the last one has ended.
pub(super) fn run(file: &Path, level: Option<Level>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(keep(file, level))
}

async fn keep(file: &Path, level: Option<Level>) -> Result<()> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut ended, mut let_go) = (listen(SignalKind::child())?, listen(SignalKind::user_defined1())?);
    let (mut succeed, mut reload) = (listen(SignalKind::user_defined2())?, listen(SignalKind::hangup())?);
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let mut servers = Servers(vec![start(file, level)?]);
    loop {
        tokio::select! {
            // SIGTERM follows SIGUSR1 at once, so SIGUSR1 is looked at first.
            biased;
            // The servers run on.
            _ = let_go.recv() => return Ok(()),
            _ = ended.recv() => match servers.last_end() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the server has ended: {status}"),
                None => {}
            },
            _ = succeed.recv() => match start(file, level) {
                Ok(server) => servers.0.push(server),
                Err(error) => print_note!("sarabande: {error:#}"),
            },
            _ = reload.recv() => servers.signal_newest(Signal::HUP),
            _ = terminate.recv() => servers.signal_all(Signal::TERM),
            _ = interrupt.recv() => servers.signal_all(Signal::TERM),
        }
    }
}

/// Starts a server by the path of this program, where a newer version may be installed.
fn start(file: &Path, level: Option<Level>) -> Result<Child> {
    let program = env::args_os().next().unwrap_or_else(|| OsString::from("sarabande"));
    let mut command = Command::new(&program);
    command.arg("run").arg(file).env(VARIABLE, std::process::id().to_string());
    if let Some(level) = level {
        command.args(["--log-level", level.as_str()]);
    }
    // Ctrl-C on a terminal reaches this process only, which passes it on.
    command.process_group(0);
    command.spawn().with_context(|| format!("{} cannot be started", program.display()))
}

/// Servers that have not ended, the newest last: it has taken over, or is about to.
struct Servers(Vec<Child>);

impl Servers {
    /// Removes servers that have ended. Returns the exit status of the last one if none is left.
    fn last_end(&mut self) -> Option<ExitStatus> {
        let mut last = None;
        self.0.retain_mut(|server| match server.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                last = Some(status);
                false
            }
            Err(_) => false,
        });
        last.filter(|_| self.0.is_empty())
    }

    fn signal_newest(&self, signal: Signal) {
        self.0.last().into_iter().for_each(|server| send_signal(server, signal));
    }

    fn signal_all(&self, signal: Signal) {
        self.0.iter().for_each(|server| send_signal(server, signal));
    }
}

fn send_signal(server: &Child, signal: Signal) {
    let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    // A server that has ended meanwhile needs no signal.
    let _ = pid.map(|pid| kill_process(pid, signal));
}
