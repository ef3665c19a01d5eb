//! `docs/rfc/3261-17.md` against the marks in code and tests: every rule has both, every mark has its rule, and the page
//! names the places where they are. `UPDATE_DOCS=1` writes those anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const UPDATE: &str = "UPDATE_DOCS";

/// Rule to the places that bear its mark.
type Marks = BTreeMap<String, BTreeSet<String>>;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").to_path_buf()
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

/// The rules marked on a line: a section, a hyphen and a number in brackets.
fn marks(line: &str) -> impl Iterator<Item = &str> {
    line.split('[').skip(1).filter_map(|rest| rest.split_once(']')).map(|(mark, _)| mark).filter(|mark| {
        let parts = mark.split_once('-');
        let digits = |text: &str, also: &str| {
            text.starts_with(|c: char| c.is_ascii_digit())
                && text.chars().all(|c| c.is_ascii_digit() || also.contains(c))
        };
        parts.is_some_and(|(section, number)| digits(section, ".") && digits(number, ""))
    })
}

/// The marks in the comments of `folder`, by file, or by function where `functions` is set.
fn collect(folder: &Path, prefix: &str, functions: bool, found: &mut Marks) {
    for file in sources(folder) {
        let name = file.strip_prefix(folder).expect("below it").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).expect("text");
        let mut function = String::new();
        for line in text.lines() {
            let line = line.trim_start();
            if let Some((name, _)) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
                name.clone_into(&mut function);
            }
            let Some((_, comment)) = line.split_once("//") else { continue };
            for mark in marks(comment) {
                let module = name.trim_end_matches(".rs");
                let place =
                    if functions { format!("`{module}::{function}`") } else { format!("`{prefix}{name}`") };
                found.entry(mark.to_owned()).or_default().insert(place);
            }
        }
    }
}

/// The page with the places of each rule filled in, and its rules.
fn filled(page: &str, code: &Marks, tests: &Marks) -> (String, BTreeSet<String>) {
    let (mut out, mut rules) = (String::new(), BTreeSet::new());
    for line in page.lines() {
        let cells: Vec<_> = line.split(" | ").collect();
        let rule = cells[0].trim_start_matches("| ");
        if cells.len() == 4 && marks(&format!("[{rule}]")).next().is_some() {
            let places = |marks: &Marks| {
                let places = marks.get(rule).map(|places| places.iter().cloned().collect::<Vec<_>>());
                places.unwrap_or_default().join(", ")
            };
            for cell in [rule, cells[1], &places(code), &places(tests)] {
                out += "| ";
                out += cell;
                out.push(' ');
            }
            out += "|\n";
            assert!(rules.insert(rule.to_owned()), "{rule} is there twice");
        } else {
            out += line;
            out.push('\n');
        }
    }
    (out, rules)
}

#[test]
fn the_page_of_rules_and_the_marks_agree() {
    let page_path = crates().join("../docs/rfc/3261-17.md");
    let page = std::fs::read_to_string(&page_path).expect("the page is part of the repository");
    let (mut code, mut tests) = (Marks::new(), Marks::new());
    collect(&crates().join("transaction/src"), "", false, &mut code);
    collect(&crates().join("wire/src"), "wire/", false, &mut code);
    collect(&crates().join("transaction/tests"), "", true, &mut tests);
    let (expected, rules) = filled(&page, &code, &tests);
    assert!(rules.len() > 50, "the rows of the page are recognised");
    let marked = |marks: &Marks| marks.keys().cloned().collect::<BTreeSet<_>>();
    let missing = |marks: &Marks| rules.difference(&marked(marks)).cloned().collect::<Vec<_>>();
    let unknown = |marks: &Marks| marked(marks).difference(&rules).cloned().collect::<Vec<_>>();
    let none: [String; 0] = [];
    assert_eq!(missing(&code), none, "rules without a mark in the code");
    assert_eq!(missing(&tests), none, "rules without a mark in a test");
    assert_eq!(unknown(&code), none, "marks in the code without a rule");
    assert_eq!(unknown(&tests), none, "marks in tests without a rule");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&page_path, &expected).expect("the repository can be written to");
    } else {
        assert!(page == expected, "{} is old: run with {UPDATE}=1", page_path.display());
    }
}

/// What `3261-16.md` names: files of the code, and tests as `module::function` or `module::*`.
#[test]
fn the_page_of_the_proxy_names_what_there_is() {
    let page = std::fs::read_to_string(crates().join("../docs/rfc/3261-16.md")).expect("a page");
    let roots =
        ["node/src", "wire/src", "wire/src/..", "wire/src/header", ".", ".."].map(|root| crates().join(root));
    let (mut files, mut named) = (0, 0);
    for quoted in page.split('`').skip(1).step_by(2) {
        if let Some((module, function)) = quoted.split_once("::") {
            let places = match module {
                "bytes" => vec!["node/tests/proxy.rs".to_owned()],
                "live" => vec!["../tests/tests/live/proxy.rs".to_owned()],
                "names" => vec!["../tests/tests/live/names.rs".to_owned()],
                _ => vec![format!("node/tests/{module}.rs"), format!("proxy/tests/{module}.rs")],
            };
            let mut texts =
                places.iter().filter_map(|place| std::fs::read_to_string(crates().join(place)).ok());
            let wanted = format!("fn {function}(");
            assert!(texts.any(|text| function == "*" || text.contains(&wanted)), "{quoted} is no test");
            named += 1;
        } else if Path::new(quoted).extension().is_some_and(|extension| extension == "rs") {
            let name = quoted.strip_prefix("wire/").unwrap_or(quoted).trim_start_matches("crates/");
            let core = name.replacen("proxy/", "proxy/src/", 1);
            let is_there = |root: &PathBuf| root.join(name).exists() || root.join(&core).exists();
            assert!(roots.iter().any(is_there), "{quoted} is no file");
            files += 1;
        }
    }
    assert!(files > 20 && named > 30, "{files} files and {named} tests are recognised");
}
