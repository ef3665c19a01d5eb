//! Errors in text that is not TOML. The message of the parser is kept; the key of the line is added, and the advice
//! that text needs quotes.

use toml::de::Error;

use crate::kind::quoted;
use crate::report::Report;

/// Reports independent mistakes. The parser continues after each mistake, but further ones on a line, or after an array
/// without an end, are usually consequences of the first.
pub(crate) fn report_mistakes(text: &str, mistakes: &[Error], report: &mut Report<'_>) {
    let mut last_line = None;
    for mistake in mistakes {
        let span = mistake.span().unwrap_or_default();
        let (line, _) = report.position(span.start);
        if last_line.replace(line) == Some(line) {
            continue;
        }
        let words = mistake.message().replace('\n', "; ");
        let assignment = text.lines().nth(line - 1).and_then(|line| line.split_once('='));
        let key = assignment.map(|(key, _)| path(text, line, key.trim())).unwrap_or_default();
        // A token key without quotes is still a secret.
        let secret = key.split('.').next_back().is_some_and(|name| name.contains("key"));
        let meant = assignment.filter(|_| !secret).and_then(|(_, value)| unquoted(value));
        let read = match meant {
            _ if secret => String::new(),
            Some(value) => value.to_owned(),
            None => report.shown(&span),
        };
        let remedy = match meant {
            Some(value) => {
                format!("this is not valid TOML: text needs quotes; did you mean {}?", quoted(value))
            }
            None => format!("this is not valid TOML: {words}"),
        };
        report.syntax(span.start, key, read, remedy);
        if words.contains("array") {
            break;
        }
    }
}

/// The path of `key` below the last table header before `line`, as far as single lines show it.
fn path(text: &str, line: usize, key: &str) -> String {
    let before = text.lines().take(line - 1).collect::<Vec<_>>();
    let header = before.iter().rev().find_map(|line| line.trim().strip_prefix('[')?.strip_suffix(']'));
    match header {
        Some(table) if !table.contains(['"', ',', '[']) => format!("{table}.{key}"),
        _ => key.to_owned(),
    }
}

/// A value that looks like a word, an address or a duration without quotes.
fn unquoted(value: &str) -> Option<&str> {
    let value = value.split('#').next()?.trim();
    let word = |c: char| c.is_ascii_alphanumeric() || ".:_-/%".contains(c);
    let legal = value == "true" || value == "false" || value.parse::<f64>().is_ok();
    (!value.is_empty() && !legal && value.chars().all(word)).then_some(value)
}
