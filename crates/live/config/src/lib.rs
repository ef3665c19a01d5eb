//! Reads configuration files: their keys, their typed values, and their errors.
//!
//! A file goes through three forms:
//!
//! 1. *raw*: structs with any value under any known key. They are declared in tables, which are the only place of keys
//!    and defaults: [`schema`] and [`reference()`] are made from them.
//! 2. *checked*: each value has been read by its kind, and values that depend on each other have been compared. All
//!    problems are found, not only the first, and each has its place and a remedy; see [`Errors`].
//! 3. *typed*: [`Config`], which cannot hold illegal values.
//!
//! Scenarios of the simulator and topologies for `plan` are other kinds of files, read in the same way: [`scenario`],
//! [`topology`].
//!
//! ```
//! let text = r#"
//!     [listen]
//!     udp = ["0.0.0.0:5060"]
//!
//!     [pool.servers]
//!     policy  = "tlwl"
//!     members = ["10.0.0.1:5060", "10.0.0.2:5060", "10.0.0.3:5060"]
//! "#;
//! let config = config::parse(text, "sarabande.toml").unwrap();
//! assert_eq!(config.members().len(), 3);
//!
//! let errors = config::parse(&text.replace("tlwl", "tlw"), "sarabande.toml").unwrap_err();
//! assert!(errors.to_string().ends_with("did you mean \"tlwl\"?"));
//! ```

#[macro_use]
mod table;

mod change;
mod check;
mod document;
mod kind;
mod members;
mod nearest;
mod problem;
mod raw;
mod reference;
mod report;
pub mod scenario;
mod setting;
mod structure;
mod syntax;
pub mod topology;
mod typed;

use std::path::{Path, PathBuf};

pub use kind::{ipv6_without_brackets, key_from_bytes};
pub use members::{ChangeError, MemberChange};
pub use problem::{Errors, Problem};
pub use reference::reference;
pub use typed::*;

use balance::{PolicyKind, Weights};
use control::Address;
use kind::{Choice, Kind, MemberAddress, PolicyName};
use raw::RawConfig;

/// Reads and checks a file.
///
/// # Errors
/// All problems of the file. A file that cannot be read is a single problem without a line.
pub fn load(path: &Path) -> Result<Config, Errors> {
    parse(&text(path)?, &path.display().to_string())
}

/// Reads the text of a file of any kind.
///
/// # Errors
/// A single problem: the file cannot be read (without a line), or is not UTF-8 (with one).
pub fn text(path: &Path) -> Result<String, Errors> {
    document::text(path)
}

/// Returns the file of users that the `text` of the configuration at `path` names, even if the text has errors; `None`
/// if it names none.
pub fn users_file(text: &str, path: &Path) -> Option<PathBuf> {
    let (document, _) = toml::de::DeTable::parse_recoverable(text);
    let table = document.get_ref();
    let (_, registrar) = table.iter().find(|(name, _)| *name.get_ref() == "registrar")?;
    let (_, users) = registrar.get_ref().as_table()?.iter().find(|(name, _)| *name.get_ref() == "users")?;
    let users = users.get_ref().as_str()?;
    (!users.contains("://")).then(|| path.parent().unwrap_or(Path::new("")).join(users))
}

/// Checks the text of a file. `file` is its name in messages; the files that the text names are relative to its
/// directory.
///
/// # Errors
/// All problems, in the order of the text. Text that is not TOML is not checked further.
pub fn parse(text: &str, file: &str) -> Result<Config, Errors> {
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    document::parse(text, file, None, |raw: &RawConfig, report| check::check(raw, directory, report))
}

/// Returns the policy with this name in a file, and its weights: `tlwl-2` is `tlwl` with an INVITE of 2.
pub fn policy(name: &str) -> Option<(PolicyKind, Weights)> {
    Choice::<PolicyName>::read(&name.into()).ok().map(PolicyName::meaning)
}

/// Reads the address of a member in any form that a file may have.
///
/// # Errors
/// The expected form, as text.
pub fn member_address(text: &str) -> Result<Address, String> {
    MemberAddress::read(&text.into()).map_err(|refusal| refusal.expected)
}

/// JSON schema (draft 2020-12) of the file, for editors: the text of `docs/schema.json`.
pub fn schema() -> String {
    format!("{:#}\n", document::schema::<RawConfig>())
}
