//! `sarabande check`: looks for errors in a configuration, a scenario or a topology.

use crate::print;
use anyhow::{Result, bail};
use config::{scenario, topology};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Arguments {
    /// The configuration file, a scenario of the simulator, or a topology for `plan`.
    #[arg(group = "what")]
    file: Option<PathBuf>,
    /// Print the JSON schema of the configuration file, of scenarios or of topologies.
    #[arg(long, group = "what", value_name = "KIND", num_args = 0..=1, default_missing_value = "config")]
    schema: Option<Kind>,
    /// Print the reference of all keys of the configuration file, of scenarios or of topologies.
    #[arg(long, group = "what", value_name = "KIND", num_args = 0..=1, default_missing_value = "config")]
    reference: Option<Kind>,
}

/// What files are about.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Config,
    Scenario,
    Topology,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(kind) = arguments.schema {
        match kind {
            Kind::Config => print::text(config::schema())?,
            Kind::Scenario => print::text(scenario::schema())?,
            Kind::Topology => print::text(topology::schema())?,
        }
    } else if let Some(kind) = arguments.reference {
        match kind {
            Kind::Config => print::text(config::reference())?,
            Kind::Scenario => print::text(scenario::reference())?,
            Kind::Topology => print::text(topology::reference())?,
        }
    } else if let Some(file) = arguments.file.as_ref().filter(|file| scenario::is_scenario(file)) {
        match scenario::load(file) {
            Ok(scenario) => print_line!("{}: fine: {}", file.display(), scenario.outlook())?,
            Err(errors) => bail!("{} is not fine:\n{errors}", file.display()),
        }
    } else if let Some(file) = arguments.file.as_ref().filter(|file| topology::is_topology(file)) {
        match topology::load(file) {
            Ok(topology) => print_line!("{}: fine: {} nodes", file.display(), topology.nodes().len())?,
            Err(errors) => bail!("{} is not fine:\n{errors}", file.display()),
        }
    } else if let Some(file) = &arguments.file {
        let config = match config::load(file) {
            Ok(config) => config,
            Err(errors) => {
                // What else is wrong would come to light with the next try only.
                let users = config::users_file(file).and_then(|users| server::check_users(&users));
                let users = users.map(|problem| format!("\n{problem}")).unwrap_or_default();
                bail!("{} is not fine:\n{errors}{users}", file.display());
            }
        };
        let problems = server::check(&config, file);
        if !problems.is_empty() {
            bail!("{} is fine, but not what it needs:\n{}", file.display(), problems.join("\n"));
        }
        print_line!("{}: fine: {}", file.display(), config.summary())?;
        for warning in config.warnings() {
            print_line!("warning: {warning}")?;
        }
    }
    Ok(())
}
