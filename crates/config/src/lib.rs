//! The configuration file: what it may hold, what it means, and what is wrong with it.
//!
//! A file goes through three forms:
//!
//! 1. *raw*: the TOML text in serde structs, any value under any known key. These structs are the one table of keys:
//!    [`schema`] and [`reference()`] are made from them.
//! 2. *checked*: every value by its kind, and what values must hold together. All problems are found, not only the
//!    first, and each says where it is and how it is mended; see [`Errors`].
//! 3. *typed*: [`Config`], in which nothing illegal can be said.
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
//! let config = sarabande_config::parse(text, "sarabande.toml").unwrap();
//! assert_eq!(config.members().len(), 3);
//!
//! let errors = sarabande_config::parse(&text.replace("tlwl", "tlw"), "sarabande.toml").unwrap_err();
//! assert!(errors.to_string().ends_with("did you mean \"tlwl\"?"));
//! ```

mod check;
mod kind;
mod nearest;
mod problem;
mod raw;
mod reference;
mod report;
pub mod scenario;
mod setting;
mod structure;
mod syntax;
mod typed;

use std::path::Path;

pub use problem::{Errors, Problem};
pub use reference::reference;
pub use typed::*;

use report::Report;

/// Reads and checks a file.
///
/// # Errors
/// Every problem found; one, without a line, when the file cannot be read.
pub fn load(path: &Path) -> Result<Config, Errors> {
    let file = path.display().to_string();
    let unreadable = |position, remedy| Errors {
        file: file.clone(),
        problems: vec![Problem { position, key: String::new(), read: String::new(), remedy }],
    };
    let bytes = std::fs::read(path).map_err(|error| unreadable(None, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.split(|byte| *byte == b'\n');
        let column = line.clone().next_back().map_or(0, |last| String::from_utf8_lossy(last).chars().count());
        unreadable(Some((line.count(), column + 1)), "expected UTF-8 text".to_owned())
    })?;
    parse(&text, &file)
}

/// Checks the text of a file. `file` is its name in messages, and the place from which `key_file` is found.
///
/// # Errors
/// Every problem found, in the order of the text. Text that is not TOML is not looked into further.
pub fn parse(text: &str, file: &str) -> Result<Config, Errors> {
    let mut report = Report::new(text);
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    match read(text, directory, &mut report) {
        Some(config) => Ok(config),
        None => Err(report.into_errors(file)),
    }
}

fn read(text: &str, directory: &Path, report: &mut Report<'_>) -> Option<Config> {
    let (document, mistakes) = toml::de::DeTable::parse_recoverable(text);
    if !mistakes.is_empty() {
        syntax::report_mistakes(text, &mistakes, report);
        return None;
    }
    let span = document.span();
    let table = structure::prune(document.into_inner(), raw::schema().as_value(), report);
    let deserializer = toml::de::Deserializer::from(toml::Spanned::new(span, table));
    // Whatever serde could refuse has been taken out.
    match serde::Deserialize::deserialize(deserializer) {
        Ok(raw) => check::check(&raw, directory, report),
        Err(mistake) => {
            let start = mistake.span().unwrap_or_default().start;
            report.syntax(start, String::new(), String::new(), mistake.message().to_owned());
            None
        }
    }
}

/// JSON schema (draft 2020-12) of the file, for editors: the text of `docs/schema.json`.
pub fn schema() -> String {
    format!("{:#}\n", raw::schema().as_value())
}
