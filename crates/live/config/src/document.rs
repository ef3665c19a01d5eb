//! The steps from a file to a typed value, for all kinds of files.

use std::path::Path;

use serde_json::{Value, json};
use toml::de::DeTable;

use crate::change::Change;
use crate::problem::{Errors, Problem};
use crate::report::Report;
use crate::table::Table;
use crate::{structure, syntax};

/// A kind of file.
pub(crate) trait FileKind: Table {
    /// Its [`schema`], made once.
    fn schema_of_file() -> &'static Value;
}

/// Reads the text of a file.
pub(crate) fn text(path: &Path) -> Result<String, Errors> {
    let unreadable = |position, remedy| Errors {
        file: path.display().to_string(),
        problems: vec![Problem { position, key: String::new(), read: String::new(), remedy }],
    };
    let bytes = std::fs::read(path).map_err(|error| unreadable(None, format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.split(|byte| *byte == b'\n');
        let column = line.clone().next_back().map_or(0, |last| String::from_utf8_lossy(last).chars().count());
        unreadable(Some((line.count(), column + 1)), "expected UTF-8 text".to_owned())
    })
}

/// Parses `text`, with `change` applied, and returns the result of `check`, or all problems.
pub(crate) fn parse<R: FileKind, T>(
    text: &str,
    file: &str,
    change: Option<Change<'_>>,
    check: impl FnOnce(&R, &mut Report<'_>) -> Option<T>,
) -> Result<T, Errors> {
    // A changed value is appended to the text. Messages can then show it, and all other places stay the same.
    let line = change.map(|change| change.line()).unwrap_or_default();
    let whole = format!("{text}\n{line}");
    let mut report = Report::new(&whole, text.len());
    match raw(text, change, &mut report).and_then(|raw| check(&raw, &mut report)) {
        Some(typed) => Ok(typed),
        None => Err(report.into_errors(file)),
    }
}

fn raw<R: FileKind>(text: &str, change: Option<Change<'_>>, report: &mut Report<'_>) -> Option<R> {
    let (document, mistakes) = DeTable::parse_recoverable(text);
    if !mistakes.is_empty() {
        syntax::report_mistakes(text, &mistakes, report);
        return None;
    }
    let schema = R::schema_of_file();
    let mut table = document.into_inner();
    // The text of the file is replaced by spaces, so that the places in the appended line are right.
    let behind = change.map(|change| format!("{}\n{}", " ".repeat(text.len()), change.line()));
    if let (Some(change), Some(behind)) = (change, &behind) {
        let line = DeTable::parse(behind).expect("a value that was read is written as TOML").into_inner();
        match change.apply(table, line, schema) {
            Ok(changed) => table = changed,
            Err((key, remedy)) => {
                report.refused_change(key, remedy);
                return None;
            }
        }
    }
    let table = structure::prune(table, schema, report);
    Some(R::from_keys(table, report))
}

/// JSON schema of the whole file, without references, so that it can be walked.
pub(crate) fn schema<R: Table>() -> Value {
    let mut schema = R::schema();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema
}
