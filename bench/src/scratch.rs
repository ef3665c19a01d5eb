//! Temporary folder for the files of running programs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::process::Program;

/// A temporary folder, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a folder with `name` in its name.
    pub fn new(name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("sarabande-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, in a subfolder if its name has one.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.0.join(name);
        let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, text));
        written.with_context(|| file.display().to_string())?;
        Ok(file)
    }

    /// Starts a program. Its output goes to the file `log`.
    pub fn start(&self, log: &str, command: &mut Command) -> Result<Program> {
        let log = File::create(self.0.join(log))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Program::start(command).with_context(|| format!("cannot start {command:?}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
