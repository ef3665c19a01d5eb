//! `sarabande man`: writes the manual pages.

use crate::admin::EXIT_CODES;
use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::path::{Path, PathBuf};
use std::{fs, io};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directory of the pages, such as `/usr/local/share/man/man1`; it is created if necessary.
    directory: PathBuf,
}

/// Writes a manual page for `program` and one for each of its commands.
pub(crate) fn run(arguments: &Arguments, program: Command) -> Result<()> {
    let directory = &arguments.directory;
    let mut program = program.disable_help_subcommand(true);
    // Gives commands of commands their full names.
    program.build();
    fs::create_dir_all(directory)
        .and_then(|()| write(&program, directory))
        .with_context(|| format!("{}: cannot be written", directory.display()))?;
    print_line!("manual pages written to {}", directory.display())
}

fn write(command: &Command, directory: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|command| write(command, directory))?;
    let man = Man::new(command.clone()).source(concat!("sarabande ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut exit = Roff::new();
    exit.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in EXIT_CODES {
        exit.control("TP", []).text([bold(code.to_string())]).text([roman(meaning)]);
    }
    exit.to_writer(&mut page)?;
    fs::write(directory.join(man.get_filename()), page)
}
