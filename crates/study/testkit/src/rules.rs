//! Compares the pages of rules (`docs/evidence/rfc/`) with the marks in code and tests. Every rule needs a mark in
//! both, every mark needs a rule, and the page lists the places of the marks.
//!
//! A rule is identified by its section and a number of our own. Its mark is a comment with both in brackets, joined by
//! a hyphen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const UPDATE: &str = "UPDATE_DOCS";

/// Folders that contain crates.
const GROUPS: [&str; 5] = [".", "sip", "policy", "live", "study"];

/// Places of the marks of each rule.
type Marks = BTreeMap<String, BTreeSet<String>>;

/// Folders that are searched for the marks of a page. Each is a folder of a crate (`node/src`) with the prefix of its
/// files in the page.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Folders of code.
    pub code: &'a [(&'a str, &'a str)],
    /// Folders of tests, and of code with unit tests. The page names the test function.
    pub tests: &'a [(&'a str, &'a str)],
}

/// Compares pages of `docs/evidence/rfc/` with the marks of their rules, and returns the number of rules.
/// `UPDATE_DOCS=1` writes the places into the pages.
///
/// # Panics
/// When a rule has no mark in code or tests, a mark in these places has no rule in any page, or a page is outdated.
pub fn compare(pages: &[&str], places: Places<'_>) -> usize {
    let (mut code, mut tests) = (Marks::new(), Marks::new());
    for (folder, prefix) in places.code {
        collect(&folder_of(folder), prefix, false, &mut code);
    }
    for (folder, prefix) in places.tests {
        collect(&folder_of(folder), prefix, true, &mut tests);
    }
    let none: [String; 0] = [];
    let mut count = 0;
    for page in pages {
        let path = docs().join(page);
        let text = std::fs::read_to_string(&path).expect("the page is part of the repository");
        let (expected, rules) = filled(&text, &code, &tests);
        let missing = |marks: &Marks| {
            rules.iter().filter(|rule| !marks.contains_key(*rule)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(missing(&code), none, "{page}: rules without a mark in the code");
        assert_eq!(missing(&tests), none, "{page}: rules without a mark in a test");
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, &expected).expect("the repository can be written to");
        } else {
            assert!(text == expected, "{} is outdated: run with {UPDATE}=1", path.display());
        }
        count += rules.len();
    }
    let all = all_rules();
    let unknown =
        |marks: &Marks| marks.keys().filter(|rule| !all.contains(*rule)).cloned().collect::<Vec<_>>();
    assert_eq!(unknown(&code), none, "marks in the code without a rule");
    assert_eq!(unknown(&tests), none, "marks in tests without a rule");
    count
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the full path of a path that begins with the name of a crate, such as `node/src`.
///
/// # Panics
/// When no group has the crate.
pub fn folder_of(path: &str) -> PathBuf {
    find_folder(path).unwrap_or_else(|| panic!("no crate has {path}"))
}

/// Returns the same as [`folder_of`]; `None` if there is no such crate.
pub fn find_folder(path: &str) -> Option<PathBuf> {
    let name = path.split('/').next().unwrap_or(path);
    let mut groups = GROUPS.iter().map(|group| crates().join(group));
    Some(groups.find(|group| group.join(name).join("Cargo.toml").exists())?.join(path))
}

/// Returns the names of the other crates of the workspace.
pub(crate) fn crates_but(name: &str) -> Vec<String> {
    let folders = GROUPS.iter().flat_map(|group| std::fs::read_dir(crates().join(group)).expect("a group"));
    let crates =
        folders.map(|entry| entry.expect("an entry").path()).filter(|path| path.join("Cargo.toml").exists());
    let names = crates.map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
    names.filter(|other| other != name).collect()
}

fn docs() -> PathBuf {
    crates().join("../docs/evidence/rfc")
}

/// Returns the rules of all pages.
fn all_rules() -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    for entry in std::fs::read_dir(docs()).expect("docs/evidence/rfc") {
        let page = std::fs::read_to_string(entry.expect("an entry").path()).expect("text");
        rules.extend(page.lines().filter_map(rule).map(str::to_owned));
    }
    rules
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn is_mark(text: &str) -> bool {
    let digits = |text: &str, also: &str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || also.contains(c))
    };
    text.split_once('-').is_some_and(|(section, number)| digits(section, ".") && digits(number, ""))
}

/// Returns the rules that are marked on a line.
fn marks(line: &str) -> impl Iterator<Item = &str> {
    line.split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'))
        .map(|(mark, _)| mark)
        .filter(|mark| is_mark(mark))
}

/// Returns the rule of a row of a page; `None` for other lines.
fn rule(row: &str) -> Option<&str> {
    let cells: Vec<_> = row.split(" | ").collect();
    let rule = cells[0].trim_start_matches("| ");
    (cells.len() == 4 && is_mark(rule)).then_some(rule)
}

/// Collects the marks in the comments of `folder`, by file. If `functions` is set, collects them by test: the marks in
/// the function and in the comment above it.
fn collect(folder: &Path, prefix: &str, functions: bool, found: &mut Marks) {
    for file in sources(folder) {
        let name = file.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
        let module = name.trim_end_matches(".rs");
        let text = std::fs::read_to_string(&file).expect("text");
        let tests = text.find("#[cfg(test)]").unwrap_or(text.len());
        // Unit tests may be in a separate file.
        let is_unit_test = file.file_name().is_some_and(|name| name == "tests.rs");
        let is_test_file = folder.ends_with("tests") || is_unit_test;
        if is_unit_test && !functions {
            continue;
        }
        // Everything from the unit tests on counts as tests, everything before as code.
        let part = match (functions, is_test_file) {
            (true, false) => &text[tests..],
            (false, false) => &text[..tests],
            (_, true) => &text[..],
        };
        let mut place = format!("`{prefix}{name}`");
        let mut above = Vec::new();
        for line in part.lines() {
            let line = line.trim_start();
            if functions
                && let Some((function, _)) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('('))
            {
                place = format!("`{prefix}{module}::{function}`");
                above.drain(..).for_each(|mark: String| {
                    found.entry(mark).or_default().insert(place.clone());
                });
            }
            let Some((before, comment)) = line.split_once("//") else { continue };
            for mark in marks(comment) {
                // A doc comment belongs to the function that follows.
                if functions && before.is_empty() && comment.starts_with('/') {
                    above.push(mark.to_owned());
                } else {
                    found.entry(mark.to_owned()).or_default().insert(place.clone());
                }
            }
        }
    }
}

/// Returns the page with the places of each rule filled in, and its rules.
fn filled(page: &str, code: &Marks, tests: &Marks) -> (String, BTreeSet<String>) {
    let (mut out, mut rules) = (String::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some(rule) = rule(line) {
            let text = line.split(" | ").nth(1).unwrap_or_default();
            let places = |marks: &Marks| {
                let places = marks.get(rule).map(|places| places.iter().cloned().collect::<Vec<_>>());
                places.unwrap_or_default().join(", ")
            };
            for cell in [rule, text, &places(code), &places(tests)] {
                out += "| ";
                out += cell;
                out.push(' ');
            }
            out += "|\n";
            assert!(rules.insert(rule.to_owned()), "{rule} occurs twice");
        } else {
            out += line;
            out.push('\n');
        }
    }
    (out, rules)
}
