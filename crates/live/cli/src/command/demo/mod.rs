//! `sarabande demo`: the server, the servers behind it and their callers, all on loopback. Three demos share one
//! [`stage`]: [`acts`], [`proxy`] and [`elastic`].

mod acts;
mod elastic;
mod neighbour;
mod proxy;
mod stage;
mod view;

use anyhow::Result;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    acts: acts::ActArguments,
}

/// The other demos.
#[derive(clap::Subcommand)]
enum Other {
    /// Shows phones that register and call each other through three proxies in a row. The proxies divide the state of
    /// the calls among them as the load rises and falls.
    Proxy(proxy::Arguments),
    /// Shows servers that are started and stopped as the load changes, and the effect of a busy neighbour on one of
    /// them.
    Elastic(elastic::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.other {
        Some(Other::Proxy(arguments)) => proxy::run(arguments),
        Some(Other::Elastic(arguments)) => elastic::run(arguments),
        None => acts::run(&arguments.acts),
    }
}

/// Reads a time of 1 s to an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (1.0..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "write a number of seconds, 1 to 3600".to_owned())
}
