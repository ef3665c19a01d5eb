use anyhow::{Context, Result, anyhow};
use config::{Config, LogFormat};
use server::{Handle, Server};
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file.
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let config = config::load(&arguments.file).map_err(|errors| anyhow!("{errors}"))?;
    start_log(&config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config, arguments.file.clone()))
}

async fn serve(config: Config, path: PathBuf) -> Result<()> {
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
            std::process::exit(1);
        }
        handle.stop();
    }
}

/// Logs to standard error; `RUST_LOG` overrides the configured level.
fn start_log(config: &Config) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(config.log.level.as_str()));
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match config.log.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
