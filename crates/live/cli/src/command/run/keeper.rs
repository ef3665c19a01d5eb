//! The main process of a systemd service, which stays while servers take over from each other.
//!
//! `systemctl restart` ends the main process before it starts another one, and a process that has ended serves no
//! calls. So the main process is this one, which serves none: the server is its child. SIGUSR1 says that the service is
//! restarted: this process ends and the server runs on. The next main process starts another server, which takes over.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getppid, kill_process};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use tokio::signal::unix::{SignalKind, signal};

/// Tells a server the process id of its keeper.
const VARIABLE: &str = "SARABANDE_KEEPER";

/// Returns the keeper of this process; `None` if there is none, or it has ended.
pub(crate) fn pid() -> Option<Pid> {
    let parent = getppid()?;
    let told: i32 = env::var(VARIABLE).ok()?.parse().ok()?;
    (told == parent.as_raw_nonzero().get()).then_some(parent)
}

/// Runs a server with the configuration in this file, and its successors, until the last one has ended.
pub(super) fn run(file: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(keep(file))
}

async fn keep(file: &Path) -> Result<()> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut ended, mut let_go) = (listen(SignalKind::child())?, listen(SignalKind::user_defined1())?);
    let (mut succeed, mut reload) = (listen(SignalKind::user_defined2())?, listen(SignalKind::hangup())?);
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let mut servers = Servers(vec![start(file)?]);
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
            _ = succeed.recv() => match start(file) {
                Ok(server) => servers.0.push(server),
                Err(error) => print_note!("sarabande: {error:#}"),
            },
            _ = reload.recv() => servers.tell_newest(Signal::HUP),
            _ = terminate.recv() => servers.tell_all(Signal::TERM),
            _ = interrupt.recv() => servers.tell_all(Signal::TERM),
        }
    }
}

/// Starts a server by the path of this program, where a newer version may be installed.
fn start(file: &Path) -> Result<Child> {
    let program = env::args_os().next().unwrap_or_else(|| OsString::from("sarabande"));
    let mut command = Command::new(&program);
    command.arg("run").arg(file).env(VARIABLE, std::process::id().to_string());
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

    fn tell_newest(&self, signal: Signal) {
        self.0.last().into_iter().for_each(|server| tell(server, signal));
    }

    fn tell_all(&self, signal: Signal) {
        self.0.iter().for_each(|server| tell(server, signal));
    }
}

fn tell(server: &Child, signal: Signal) {
    let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    // A server that has ended meanwhile needs no signal.
    let _ = pid.map(|pid| kill_process(pid, signal));
}
