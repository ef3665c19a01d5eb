//! `sarabande run`: the server.

pub(crate) mod keeper;

use crate::notify;
use anyhow::{Context, Result, anyhow};
use config::{Config, Level};
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
    /// Hidden alias of FILE, as other commands name it.
    #[arg(long, value_name = "FILE", hide = true)]
    config: Option<PathBuf>,
    /// Stay as the main process of a systemd service, with the server as a child process, so that `systemctl restart`
    /// is a takeover.
    ///
    /// SIGHUP, SIGTERM and SIGINT are passed on to the server; SIGUSR2 starts a successor. SIGUSR1 ends this process
    /// only: the server runs until another one takes over.
    #[arg(long)]
    service: bool,
    /// Lowest severity in the log: off, error, warn, info, debug or trace. Overrides `[log] level`, also in later
    /// reloads.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    log_level: Option<Level>,
}

fn level(text: &str) -> Result<Level, String> {
    Level::named(text).ok_or_else(|| "expected off, error, warn, info, debug or trace".to_owned())
}

/// Longest wait for the reader of the log at the end of the process.
const LAST_LINES: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let file =
        arguments.file.as_ref().or(arguments.config.as_ref()).context("a configuration file is needed")?;
    if arguments.service {
        return keeper::run(file, arguments.log_level);
    }
    let config = configuration(file)?;
    server::log::start(&config.log, arguments.log_level).context("the log cannot be started")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(config, file.clone()));
    server::log::flush(LAST_LINES);
    outcome
}

/// Reads the configuration of a server from this file.
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
    // With a handler for SIGXFSZ, a log at its file size limit causes a write error and does not end the process.
    drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).context("cannot listen for signals")?);
    // From here on. Until then a signal ends the process by default, also SIGHUP.
    let mut commands = Commands::listen()?;
    let summary = config.summary();
    let file = path.clone();
    let server = tokio::select! {
        server = Server::start(config, Some(path)) => server?,
        () = commands.stop() => return Ok(()),
    };
    tracing::info!("serving: {summary}");
    if let Err(error) = notify::ready() {
        tracing::warn!(%error, "NOTIFY_SOCKET cannot be written, so systemd does not know that the service is ready");
    }
    tokio::spawn(commands.obey(server.handle(), file));
    server.run().await.map_err(|error| anyhow!(error))
}

/// Starts the program again with the arguments of this process: by its path, where a newer version may be installed.
///
/// # Errors
/// Errors in the configuration file, or the reason why the program cannot be started.
fn start_successor(file: &Path) -> Result<()> {
    configuration(file)?;
    if let Some(keeper) = keeper::pid() {
        rustix::process::kill_process(keeper, Signal::USR2).context(
            "the keeper process of the service cannot be \
                                                                    signalled",
        )?;
        return Ok(());
    }
    let mut arguments = env::args_os();
    let program = arguments.next().unwrap_or_default();
    let started = Command::new(&program).args(arguments).spawn();
    let mut child = started.with_context(|| format!("{} cannot be started", program.display()))?;
    tracing::info!(pid = child.id(), "started a successor");
    // A child that is not waited for would stay in the process table.
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Signals that control the server: SIGUSR2 starts a successor, SIGHUP reloads, SIGTERM and SIGINT stop, and a second
/// SIGTERM or SIGINT stops at once.
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
        let mut is_stopping = false;
        let mut restarts = handle.restarts();
        loop {
            tokio::select! {
                _ = self.reload.recv() => {
                    // An error is in the log, and the old configuration stays in force.
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
                    // The client may have gone away.
                    let _ = reply.send(start_successor(&file).map_err(|error| format!("{error:#}")));
                    continue;
                }
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if std::mem::replace(&mut is_stopping, true) {
                tracing::warn!("second signal: stopping at once");
                server::log::flush(LAST_LINES);
                std::process::exit(1);
            }
            handle.stop();
        }
    }
}
