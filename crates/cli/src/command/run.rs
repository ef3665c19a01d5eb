//! `sarabande run`: the server.

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
    file: PathBuf,
}

/// How long the end of the process waits for the reader of its log.
const LAST_LINES: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let config = configuration(&arguments.file)?;
    server::log::start(&config.log).context("the log cannot be started")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(config, arguments.file.clone()));
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
    // With a handler, a log that has reached a limit of file sizes is an error of the write and not the end of the process.
    drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).context("cannot listen for signals")?);
    // From now on, or a signal that comes while the server starts ends the process by default, SIGHUP too.
    let mut commands = Commands::listen()?;
    let summary = config.summary();
    let server = tokio::select! {
        server = Server::start(config, Some(path)) => server?,
        () = commands.stop() => return Ok(()),
    };
    tracing::info!("serving: {summary}");
    if let Err(error) = notify::ready() {
        tracing::warn!(%error, "NOTIFY_SOCKET of the environment takes nothing: systemd is not told");
    }
    tokio::spawn(commands.obey(server.handle()));
    server.run().await.map_err(|error| anyhow!(error))
}

/// Starts the program again as this process was started: by its path, where a newer one may be by now.
fn start_successor() {
    let mut arguments = env::args_os();
    let program = arguments.next().unwrap_or_default();
    match Command::new(&program).args(arguments).spawn() {
        Ok(mut child) => {
            tracing::info!(pid = child.id(), "started a successor");
            // Its end is waited for, or it would stay in the table of processes.
            std::thread::spawn(move || child.wait());
        }
        Err(error) => tracing::error!(%error, ?program, "a successor cannot be started"),
    }
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

    async fn obey(mut self, handle: Handle) {
        let mut asked = false;
        loop {
            tokio::select! {
                _ = self.reload.recv() => {
                    // What went wrong is in the log; the old configuration stays in force.
                    let _ = handle.reload().await;
                    continue;
                }
                _ = self.succeed.recv() => {
                    start_successor();
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
