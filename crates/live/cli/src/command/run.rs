//! `sarabande run`: the server.

pub(crate) mod keeper;

use crate::notify;
use anyhow::{Context, Result, anyhow};
use config::Config;
use rustix::process::Signal;
use server::{Handle, Server};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file.
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// As of the commands that ask a server.
    #[arg(long, value_name = "FILE", hide = true)]
    config: Option<PathBuf>,
    /// Stay the main process of a systemd service, with the server as a child: `systemctl restart` is a takeover
    /// then.
    ///
    /// SIGHUP, SIGTERM and SIGINT are handed on; SIGUSR2 starts a successor. SIGUSR1 ends this process alone: the
    /// server goes on until another one takes over.
    #[arg(long)]
    service: bool,
}

/// How long the end of the process waits for the reader of its log.
const LAST_LINES: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let file =
        arguments.file.as_ref().or(arguments.config.as_ref()).context("a configuration file is needed")?;
    if arguments.service {
        return keeper::run(file);
    }
    let config = configuration(file)?;
    server::log::start(&config.log).context("the log cannot be started")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(config, file.clone()));
    server::log::flush(LAST_LINES);
    outcome
}

/// The configuration of a server in this file.
pub(crate) fn configuration(file: &Path) -> Result<Config> {
    config::load(file).map_err(|errors| {
        if config::scenario::is_scenario(file) {
            let file = file.display();
            return anyhow!("{file} is a scenario of the simulator: `sarabande sim run {file}` runs it");
        }
        anyhow!("{errors}")
    })
}

async fn serve(config: Config, path: PathBuf) -> Result<()> {
    // With a handler, a log that has reached a limit of file sizes is an error of the write and not the end of the
    // process.
    drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).context("cannot listen for signals")?);
    // From now on, or a signal that comes while the server starts ends the process by default, SIGHUP too.
    let mut commands = Commands::listen()?;
    let summary = config.summary();
    let file = path.clone();
    let server = tokio::select! {
        server = Server::start(config, Some(path)) => server?,
        () = commands.stop() => return Ok(()),
    };
    tracing::info!("serving: {summary}");
    if let Err(error) = notify::ready() {
        tracing::warn!(%error, "NOTIFY_SOCKET of the environment takes nothing: systemd is not told");
    }
    tokio::spawn(commands.obey(server.handle(), file));
    server.run().await.map_err(|error| anyhow!(error))
}

/// Has the program started again as this process was started: by its path, where a newer one may be by now.
///
/// # Errors
/// The errors in the file, with which a successor would not start, or why none can be started.
fn start_successor(file: &Path) -> Result<()> {
    configuration(file)?;
    if let Some(keeper) = keeper::pid() {
        rustix::process::kill_process(keeper, Signal::USR2).context("the process that keeps the service")?;
        return Ok(());
    }
    let mut arguments = env::args_os();
    let program = arguments.next().unwrap_or_default();
    let started = Command::new(&program).args(arguments).spawn();
    let mut child = started.with_context(|| format!("{} cannot be started", program.display()))?;
    tracing::info!(pid = child.id(), "started a successor");
    // Its end is waited for, or it would stay in the table of processes.
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// What signals command: SIGUSR2 starts a successor, SIGHUP reloads; SIGTERM and SIGINT stop, and a second one stops
/// without waiting.
struct Commands {
    succeed: Signals,
    reload: Signals,
    terminate: Signals,
    interrupt: Signals,
}

impl Commands {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            succeed: listen(SignalKind::user_defined2())?,
            reload: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for a command to stop.
    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    async fn obey(mut self, handle: Handle, file: PathBuf) {
        let mut asked = false;
        let mut restarts = handle.restarts();
        loop {
            tokio::select! {
                _ = self.reload.recv() => {
                    // What went wrong is in the log; the old configuration stays in force.
                    let _ = handle.reload().await;
                    continue;
                }
                _ = self.succeed.recv() => {
                    if let Err(error) = start_successor(&file) {
                        tracing::error!("no successor is started, this process goes on: {error:#}");
                    }
                    continue;
                }
                Some(reply) = restarts.recv() => {
                    // Whoever asked may be gone.
                    let _ = reply.send(start_successor(&file).map_err(|error| format!("{error:#}")));
                    continue;
                }
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if std::mem::replace(&mut asked, true) {
                tracing::warn!("asked twice: stopping at once");
                server::log::flush(LAST_LINES);
                std::process::exit(1);
            }
            handle.stop();
        }
    }
}
