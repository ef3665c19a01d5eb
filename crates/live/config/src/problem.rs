//! Errors of a file, with remedies, so that the manual is not needed to correct them.

use std::fmt;

/// All problems of one file, in its order. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    /// Name of the file, as the caller gave it.
    pub file: String,
    /// The problems, at least one.
    pub problems: Vec<Problem>,
}

/// One thing to correct. The author of the configuration is responsible, never a peer or this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line and column, both from 1, columns in characters; `None` if the file cannot be read, and for a value from
    /// outside the file.
    pub position: Option<(usize, usize)>,
    /// Dotted path such as `pool.servers.members[1].capacity`; empty if the text is not TOML.
    pub key: String,
    /// The value in the file, as it is written; empty if it is missing or a secret.
    pub read: String,
    /// The legal values, and the nearest one.
    pub remedy: String,
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:", self.file)?;
            if let Some((line, column)) = problem.position {
                write!(f, "{line}:{column}:")?;
            }
            if !problem.key.is_empty() {
                write!(f, " key `{}`:", problem.key)?;
            }
            if !problem.read.is_empty() {
                write!(f, " read {};", problem.read)?;
            }
            write!(f, " {}", problem.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
