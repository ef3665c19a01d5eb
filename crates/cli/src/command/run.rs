use anyhow::{Context, Result, anyhow};
use config::Config;
use rustix::process::Signal;
use server::{Handle, Server};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

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
    let summary = config.summary();
    let server = Server::start(config, Some(path)).await?;
    tracing::info!("serving: {summary}");
    tokio::spawn(obey_signals(server.handle()));
    server.run().await.map_err(|error| anyhow!(error))
}

/// SIGHUP reloads; SIGTERM and SIGINT stop, and a second one stops without waiting.
async fn obey_signals(handle: Handle) -> Result<()> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut hangup, mut terminate, mut interrupt) =
        (listen(SignalKind::hangup())?, listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let mut asked = false;
    loop {
        tokio::select! {
            _ = hangup.recv() => {
                // What went wrong is in the log; the old configuration stays in force.
                let _ = handle.reload().await;
                continue;
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if std::mem::replace(&mut asked, true) {
            tracing::warn!("asked twice: stopping at once");
            server::log::flush(LAST_LINES);
            std::process::exit(1);
        }
        handle.stop();
    }
}
