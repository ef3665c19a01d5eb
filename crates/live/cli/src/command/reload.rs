//! `sarabande reload`: makes the server read its configuration again.

use crate::admin::Target;
use anyhow::Result;
use server::figures::Reloaded;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// Makes the server read its configuration again. A file with an error changes nothing.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let reloaded: Reloaded = arguments.target.post("/api/reload", b"")?;
    print_line!("configuration reloaded")?;
    for key in reloaded.needs_restart {
        print_line!("{key} changed: the change takes effect at the next start")?;
    }
    Ok(())
}
