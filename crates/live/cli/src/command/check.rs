//! `sarabande check`: looks for errors in a configuration, a scenario or a topology.

use crate::print;
use anyhow::{Result, anyhow, bail};
use config::{scenario, topology};
use server::Findings;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("input").required(true)))]
pub(crate) struct Arguments {
    /// The configuration file, a scenario of the simulator, or a topology for `plan`.
    #[arg(group = "input")]
    file: Option<PathBuf>,
    /// Print the JSON schema of the configuration file, of scenarios or of topologies.
    #[arg(long, group = "input", value_name = "KIND", num_args = 0..=1, default_missing_value = "config")]
    schema: Option<Kind>,
    /// Print the reference of all keys of the configuration file, of scenarios or of topologies.
    #[arg(long, group = "input", value_name = "KIND", num_args = 0..=1, default_missing_value = "config")]
    reference: Option<Kind>,
}

/// Kinds of files.
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
    } else if let Some(file) = &arguments.file {
        check(file)?;
    }
    Ok(())
}

/// Looks for errors in a file. Reads the file once, since it may be a pipe.
fn check(file: &Path) -> Result<()> {
    let name = file.display();
    let wrong = |errors: config::Errors| anyhow!("{name} has errors:\n{errors}");
    let text = config::text(file).map_err(wrong)?;
    if scenario::is_text_of_scenario(&text) {
        let scenario = scenario::parse(&text, &name.to_string()).map_err(wrong)?;
        return print_line!("{name}: valid: {}", scenario.outlook());
    }
    if topology::is_topology(&text) {
        let topology = topology::parse(&text, &name.to_string()).map_err(wrong)?;
        return print_line!("{name}: valid: {} nodes", topology.nodes().len());
    }
    let config = config::parse(&text, &name.to_string()).map_err(|errors| {
        // The file of users is checked as well, so that the next run does not find another error.
        let users = config::users_file(&text, file).and_then(|users| server::check_users(&users));
        anyhow!("{}{}", wrong(errors), users.map(|problem| format!("\n{problem}")).unwrap_or_default())
    })?;
    let Findings { problems, warnings } = server::check(&config, file);
    if !problems.is_empty() {
        bail!("{name} is valid, but its environment has problems:\n{}", problems.join("\n"));
    }
    print_line!("{name}: valid: {}", config.summary())?;
    config.warnings().into_iter().chain(warnings).try_for_each(|warning| print_line!("warning: {warning}"))
}
