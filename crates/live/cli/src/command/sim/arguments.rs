//! Arguments of `sarabande sim run`.

use super::values::Vary;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The scenario file; `sarabande check` finds its errors.
    pub(super) file: PathBuf,
    /// Run the scenario at each of several values of a key, and print a row for each.
    ///
    /// KEY is written as `sarabande check` names it, such as `calls.main.rate` or `link[0].loss`, and need not be in
    /// the file. VALUES are a list, a range that includes both ends, or both: 100,200,300 or 100..500/50. Words and
    /// numbers with units need no quotes: none,delay or 1%..5%/1%. All values use the same seeds.
    #[arg(long, value_name = "KEY=VALUES")]
    pub(super) vary: Option<Vary>,
    /// Print all results as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Write data, plots (of the first run, or over the varied key) and a report into this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

impl Arguments {
    /// Base name of files of results.
    pub(super) fn name(&self) -> String {
        self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}
