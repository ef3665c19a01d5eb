//! Problems of a configuration file, and the places of its keys and values.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::kind::{KeyText, Kind, Leaf, Refusal};
use crate::problem::{Errors, Problem};

/// Longest piece of the file that a message shows, in characters.
const SHOWN_MAX: usize = 60;

/// A value with its place in the file.
pub(crate) trait Placed {
    /// Place of the value, in bytes; empty for a default.
    fn span(&self) -> &Range<usize>;
}

/// Problems of a configuration file, and the places that they refer to.
pub(crate) struct Report<'t> {
    /// Text of the file. If a value is changed at run time, its line is appended, so that messages can show it.
    text: &'t str,
    /// Length of the file.
    file_end: usize,
    /// First byte of each value, with the dotted path of its key.
    values: BTreeMap<usize, String>,
    /// Place of each key or array item.
    keys: BTreeMap<String, usize>,
    /// Paths of keys that are wrong, or whose absence is explained by a wrong key.
    explained: BTreeSet<String>,
    /// Problems by the first byte of their place, to report them in the order of the file.
    problems: Vec<(usize, Problem)>,
}

/// Hides a secret in a path: in `[capacity.keys]` key and value may have been swapped by mistake.
fn without_secret(key: String) -> String {
    let is_secret = |name: &str| KeyText::read(&name.into()).is_ok();
    let name = key
        .strip_prefix("capacity.keys.")
        .and_then(|name| name.trim_start_matches('"').split(['"', '.']).next());
    if name.is_some_and(is_secret) { "capacity.keys".to_owned() } else { key }
}

impl<'t> Report<'t> {
    /// Creates a report without problems. The file is the first `file_end` bytes of `text`.
    pub(crate) fn new(text: &'t str, file_end: usize) -> Self {
        Self {
            text,
            file_end,
            values: BTreeMap::new(),
            keys: BTreeMap::new(),
            explained: BTreeSet::new(),
            problems: Vec::new(),
        }
    }

    /// Records that the file has the key `path`, and where its key and value start.
    pub(crate) fn note(&mut self, path: &str, key_start: usize, value_start: usize) {
        self.keys.insert(path.to_owned(), key_start);
        self.values.insert(value_start, path.to_owned());
    }

    /// Whether the file has a key with this path, right or wrong.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.keys.contains_key(path)
    }

    /// Returns the typed value of the text at `span`; a wrong value is reported.
    pub(crate) fn judge<K: Kind>(&mut self, leaf: &Leaf, span: &Range<usize>) -> Option<K::Value> {
        match K::read(leaf) {
            Ok(value) => Some(value),
            Err(refusal) => {
                let read = if K::SECRET { String::new() } else { self.shown(span) };
                self.value_problem(span, read, refusal.into_remedy());
                None
            }
        }
    }

    /// Reports a legal value that contradicts the rest of the file. Must not be used for secrets.
    pub(crate) fn conflict(&mut self, value: &impl Placed, remedy: impl Into<String>) {
        let read = self.shown(value.span());
        self.value_problem(value.span(), read, remedy.into());
    }

    /// Reports a secret that contradicts the rest of the file.
    pub(crate) fn secret_conflict(&mut self, value: &impl Placed, remedy: impl Into<String>) {
        self.value_problem(value.span(), String::new(), remedy.into());
    }

    fn value_problem(&mut self, span: &Range<usize>, read: String, remedy: String) {
        let key = self.values.get(&span.start).cloned().unwrap_or_default();
        self.push(span.start, key, read, remedy);
    }

    /// Reports a key that should not be there, or is wrong as a whole.
    pub(crate) fn key_problem(&mut self, path: &str, remedy: impl Into<String>) {
        self.push(self.place(path), path.to_owned(), String::new(), remedy.into());
    }

    /// Reports a value of the wrong form, before its kind reads it. `span` is empty for secrets.
    pub(crate) fn shape_problem(&mut self, path: &str, start: usize, span: &Range<usize>, refusal: Refusal) {
        let read = self.shown(span);
        self.push(start, path.to_owned(), read, refusal.into_remedy());
    }

    /// Reports a missing key at its table, unless another problem explains it.
    pub(crate) fn missing(&mut self, path: &str, remedy: impl Into<String>) {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        // A table that was removed has no keys any more, and an array may have lost its items.
        if self.explained.iter().any(|known| within(path, known) || within(known, path)) {
            return;
        }
        let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
        let start = self.keys.get(path).or_else(|| self.keys.get(parent)).copied().unwrap_or(0);
        self.push(start, path.to_owned(), String::new(), remedy.into());
    }

    /// Records that the absence of `path` has been explained.
    pub(crate) fn explain(&mut self, path: String) {
        self.explained.insert(path);
    }

    /// Reports text that is not TOML; `key` is empty if the line has none.
    pub(crate) fn syntax(&mut self, start: usize, key: String, read: String, remedy: String) {
        self.push(start, key, read, remedy);
    }

    /// Reports a changed value that has no place in the file.
    pub(crate) fn refused_change(&mut self, key: String, remedy: String) {
        self.push(self.text.len(), key, String::new(), remedy);
    }

    fn push(&mut self, start: usize, key: String, read: String, remedy: String) {
        self.explained.insert(key.clone());
        let position = (start <= self.file_end).then(|| self.position(start));
        let key = without_secret(key);
        self.problems.push((start, Problem { position, key, read, remedy }));
    }

    /// The text of the file at `span`, on one line and shortened.
    pub(crate) fn shown(&self, span: &Range<usize>) -> String {
        let written = self.text.get(span.clone()).unwrap_or_default().trim();
        let line = written.lines().next().unwrap_or_default();
        let cut: String = line.chars().take(SHOWN_MAX).filter(|c| !c.is_control()).collect();
        if cut.len() < written.len() { format!("{cut}...") } else { cut }
    }

    /// Line and column, both from 1.
    pub(crate) fn position(&self, start: usize) -> (usize, usize) {
        let before = self.text.get(..start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// First byte of a key; 0 if the file does not have it.
    pub(crate) fn place(&self, path: &str) -> usize {
        self.keys.get(path).copied().unwrap_or(0)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    pub(crate) fn into_errors(mut self, file: &str) -> Errors {
        self.problems.sort_by_key(|(start, _)| *start);
        Errors {
            file: file.to_owned(),
            problems: self.problems.into_iter().map(|(_, problem)| problem).collect(),
        }
    }
}
