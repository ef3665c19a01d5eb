//! Where the programs are that are measured.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use sarabande_bench::process::beside;

/// Of benchmarks with Kamailio beside the program.
#[derive(Args)]
pub(crate) struct ProgramPaths {
    /// The program under test; by default the one beside this benchmark.
    #[arg(long)]
    sarabande: Option<PathBuf>,
    /// Kamailio's program.
    #[arg(long, default_value = "/usr/sbin/kamailio")]
    pub(crate) kamailio: PathBuf,
}

impl ProgramPaths {
    /// The program under test.
    pub(crate) fn sarabande(&self) -> Result<PathBuf> {
        Ok(self.sarabande.clone().map_or_else(|| beside("sarabande"), Ok)?)
    }
}
