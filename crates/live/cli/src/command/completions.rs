//! `sarabande completions`: completion of the arguments in a shell.

use crate::print;
use anyhow::Result;
use clap::Command;
use clap_complete::Shell;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

/// Prints a script with which this shell completes the arguments of `program`.
pub(crate) fn run(arguments: &Arguments, mut program: Command) -> Result<()> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    print::text(String::from_utf8(script)?)
}
