//! Topologies: right ones and their typed values, wrong ones and their messages, and the examples.

use crate::keys;
use std::path::{Path, PathBuf};

use config::topology::{is_topology, load, schema};

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
fn a_topology_with_errors_is_distinguished_from_other_files() {
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
fn the_examples_are_valid() {
    for example in ["topology.toml", "topology-fork.toml"] {
        let file = Path::new("../../../examples").join(example);
        assert!(is_topology(&config::text(&file).unwrap_or_default()), "{example}");
        load(&file).unwrap_or_else(|errors| panic!("{errors}"));
    }
}
