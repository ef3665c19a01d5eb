//! What is wrong with a file, said so that the reader can mend it without the manual.

use std::fmt;

/// Every problem found in one file, in the order of the file. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    /// Name of the file as the caller gave it.
    pub file: String,
    /// At least one.
    pub problems: Vec<Problem>,
}

/// One thing to mend. The configuration's author is to blame, never the peer and never this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line and column, both from 1, columns in characters; `None` when the file itself cannot be read, and
    /// for a value that was put in from outside.
    pub position: Option<(usize, usize)>,
    /// Dotted path such as `pool.servers.members[1].capacity`; empty where the text is not TOML.
    pub key: String,
    /// What the file has there, as it is written; empty for what is missing and for secrets.
    pub read: String,
    /// What would be right, and the nearest legal value.
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
