use anyhow::{Result, bail};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Arguments {
    /// The configuration file.
    #[arg(group = "what")]
    file: Option<PathBuf>,
    /// Print the JSON schema of the configuration file.
    #[arg(long, group = "what")]
    schema: bool,
    /// Print the reference of all keys.
    #[arg(long, group = "what")]
    reference: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.schema {
        print!("{}", config::schema());
    } else if arguments.reference {
        print!("{}", config::reference());
    } else if let Some(file) = &arguments.file {
        match config::load(file) {
            Ok(config) => println!("{}: fine: {}", file.display(), config.summary()),
            Err(errors) => bail!("{} is not fine:\n{errors}", file.display()),
        }
    }
    Ok(())
}
