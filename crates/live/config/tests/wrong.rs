//! Every wrong file is refused with the messages of its snapshot, which users read.

use std::path::{Path, PathBuf};

use config::{Config, Errors};

/// Paths in messages are relative to the directory of the crate, in which tests run.
const WRONG: &str = "tests/wrong";

/// A kind of file.
struct FileKind {
    /// Directory of the wrong files.
    wrong: &'static str,
    /// Prefix of the names of their snapshots.
    prefix: &'static str,
    /// Right files that have every key.
    complete: &'static [&'static str],
    /// Parses a text and returns its errors.
    parse: fn(&str, &str) -> Option<Errors>,
}

const KINDS: [FileKind; 3] = [
    FileKind {
        wrong: WRONG,
        prefix: "",
        complete: &["tests/right/complete.toml"],
        parse: |text, file| config::parse(text, file).err(),
    },
    FileKind {
        wrong: "tests/scenarios/wrong",
        prefix: "scenario__",
        complete: &["tests/scenarios/right/complete.toml"],
        parse: |text, file| config::scenario::parse(text, file).err(),
    },
    FileKind {
        wrong: "tests/topologies/wrong",
        prefix: "topology__",
        complete: &["tests/topologies/right/complete.toml", "tests/topologies/right/paths.toml"],
        parse: |text, file| config::topology::parse(text, file).err(),
    },
];

impl FileKind {
    /// The wrong files with their texts and errors.
    fn refused(&self) -> Vec<(PathBuf, String, Errors)> {
        let entries = std::fs::read_dir(self.wrong).expect("the directory is part of the crate");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
        files.sort();
        assert!(!files.is_empty());
        let read = |file: PathBuf| {
            let text = std::fs::read_to_string(&file).expect("text");
            let errors = (self.parse)(&text, &file.display().to_string());
            let errors = errors.unwrap_or_else(|| panic!("{} is accepted", file.display()));
            (file, text, errors)
        };
        files.into_iter().map(read).collect()
    }
}

fn refused(result: Result<Config, Errors>, path: &Path) -> Errors {
    result.expect_err(&format!("{} is accepted", path.display()))
}

#[test]
fn each_wrong_file_is_refused_with_its_remedies() {
    for kind in KINDS {
        for (file, _, errors) in kind.refused() {
            let name = file.file_stem().expect("a file name").to_string_lossy().into_owned();
            insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
                insta::assert_snapshot!(format!("{}{name}", kind.prefix), errors);
            });
        }
    }
}

#[test]
fn every_problem_of_a_readable_file_has_a_line_and_a_key() {
    for (file, text, errors) in KINDS.iter().flat_map(FileKind::refused) {
        for problem in errors.problems {
            let lines = text.lines().count().max(1);
            let (line, column) = problem.position.expect("a position");
            assert!((1..=lines).contains(&line) && column >= 1, "{}: {problem:?}", file.display());
            // Only a repeated table header is a mistake without a key.
            let is_key = !problem.remedy.contains("duplicate key") || problem.read != "servers";
            assert_eq!(!problem.key.is_empty(), is_key, "{}: {problem:?}", file.display());
        }
    }
}

#[test]
fn secrets_are_never_shown() {
    for name in [
        "tokens",
        "two_keys",
        "shapes",
        "syntax_secret",
        "admin",
        "admin_token_file",
        "registrar",
        "capacity",
        "capacity_keys",
        "capacity_keys_shape",
        "hep",
    ] {
        let file = Path::new(WRONG).join(name).with_extension("toml");
        let message = refused(config::load(&file), &file).to_string();
        for secret in ["303132", "not a key", "12345"] {
            assert!(!message.contains(secret), "{message}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let absent = Path::new(WRONG).join("absent.toml");
    let message = refused(config::load(&absent), &absent).to_string();
    assert_eq!(message, "tests/wrong/absent.toml: cannot be read: No such file or directory (os error 2)");
}

#[test]
fn text_that_is_not_utf8_is_reported_with_its_place() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("latin1.toml");
    std::fs::write(&path, b"[listen]\nnames = [\"M\xfcnchen\"]\n").expect("a scratch file");
    let errors = refused(config::load(&path), &path);
    assert_eq!(errors.problems[0].position, Some((2, 12)));
}

/// Damages complete files at each place in many ways. Nothing panics, no message is empty, and no message is serde's
/// own, which has neither key nor remedy.
#[test]
fn any_damage_is_reported_in_the_same_form() {
    for FileKind { complete, parse, .. } in KINDS {
        let mut refusals = 0;
        for path in complete {
            let whole = std::fs::read_to_string(path).expect("a file of the crate");
            for (at, old) in whole.char_indices() {
                for new in ["", "[", "}", "\"", ".", "\n", "0", "-", "é"] {
                    let text = format!("{}{new}{}", &whole[..at], &whole[at + old.len_utf8()..]);
                    // Files that it names are relative to its directory.
                    let Some(errors) = parse(&text, path) else { continue };
                    refusals += 1;
                    assert!(!errors.problems.is_empty(), "{text}");
                    for problem in errors.problems {
                        let is_reported =
                            !problem.key.is_empty() || problem.remedy.starts_with("this is not valid TOML");
                        assert!(is_reported && !problem.remedy.is_empty(), "{problem:?}\n{text}");
                    }
                }
            }
        }
        assert!(refusals > 1000, "only {refusals} refusals: the damage had no effect");
    }
}
