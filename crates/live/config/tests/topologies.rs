//! Topologies: right ones and what they become, wrong ones and what is said, and the examples.

use std::path::{Path, PathBuf};

use config::topology::{is_topology, load, parse, schema};

mod keys;

const RIGHT: &str = "tests/topologies/right";
const WRONG: &str = "tests/topologies/wrong";

fn files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the directory is part of the repository");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn every_key_is_read() {
    for file in files(RIGHT) {
        let topology = load(&file).unwrap_or_else(|errors| panic!("{errors}"));
        let name = file.file_stem().expect("a file name").to_string_lossy().into_owned();
        insta::assert_debug_snapshot!(name, topology);
    }
}

#[test]
fn the_complete_files_have_every_key_of_the_schema() {
    let files = ["tests/topologies/right/complete.toml", "tests/topologies/right/paths.toml"];
    assert_eq!(keys::absent(&schema(), &files), Vec::<String>::new());
}

#[test]
fn each_wrong_file_is_refused_with_its_remedies() {
    for file in files(WRONG) {
        let errors = load(&file).expect_err(&format!("{} is accepted", file.display()));
        let name = file.file_stem().expect("a file name").to_string_lossy().into_owned();
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("topology__{name}"), errors);
        });
    }
}

#[test]
fn every_problem_has_a_line_and_a_key() {
    for file in files(WRONG) {
        for problem in load(&file).expect_err("a wrong file").problems {
            assert!(problem.position.is_some() && !problem.key.is_empty(), "{}: {problem:?}", file.display());
        }
    }
}

/// Damages a complete file at each place. Nothing panics, and what serde would have said, which has neither key nor
/// remedy, never shows.
#[test]
fn any_damage_is_told_in_the_same_form() {
    let whole =
        files(RIGHT).iter().map(|file| std::fs::read_to_string(file).expect("a file")).collect::<Vec<_>>();
    let mut refusals = 0;
    for whole in whole {
        for (at, old) in whole.char_indices() {
            for new in ["", "[", "\"", ".", "0", "-"] {
                let text = format!("{}{new}{}", &whole[..at], &whole[at + old.len_utf8()..]);
                let Err(errors) = parse(&text, "damaged.toml") else { continue };
                refusals += 1;
                for problem in errors.problems {
                    let told = !problem.key.is_empty() || problem.remedy.starts_with("this is not TOML");
                    assert!(told && !problem.remedy.is_empty(), "{problem:?}\n{text}");
                }
            }
        }
    }
    assert!(refusals > 1000, "{refusals} refusals: the damage did none");
}

#[test]
fn a_topology_is_told_from_other_files_even_when_wrong() {
    for file in files(WRONG) {
        assert_eq!(
            is_topology(&config::text(&file).unwrap_or_default()),
            !file.ends_with("empty.toml"),
            "{}",
            file.display()
        );
    }
    for file in files("tests/wrong").into_iter().chain(files("tests/scenarios/wrong")) {
        assert!(!is_topology(&config::text(&file).unwrap_or_default()), "{}", file.display());
    }
}

#[test]
fn the_examples_are_right() {
    for example in ["topology.toml", "topology-fork.toml"] {
        let file = Path::new("../../../examples").join(example);
        assert!(is_topology(&config::text(&file).unwrap_or_default()), "{example}");
        load(&file).unwrap_or_else(|errors| panic!("{errors}"));
    }
}
