//! What the command line of `sarabande sim run` says.

use super::values::Vary;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The scenario; `sarabande check` says what is wrong with one.
    pub(super) file: PathBuf,
    /// Runs it at each of several values of a key, and prints a row for each.
    ///
    /// KEY is as `sarabande check` names it, such as `calls.main.rate` or `link[0].loss`, and need not be in the
    /// file. VALUES are a list or a range with both ends, or both: 100,200,300 or 100..500/50. Words and numbers with
    /// units need no quotes: none,delay or 1%..5%/1%. The same seeds serve at every value.
    #[arg(long, value_name = "KEY=VALUES")]
    pub(super) vary: Option<Vary>,
    /// Prints all results as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Writes data, plots (of the first run, or against what is varied) and a report into this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

impl Arguments {
    /// What files of results are called.
    pub(super) fn name(&self) -> String {
        self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}
