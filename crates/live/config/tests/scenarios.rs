//! Scenarios: right ones and their typed values, wrong ones and their messages, and the examples.

use crate::keys;
use std::path::{Path, PathBuf};

use config::scenario::{
    Costs, Group, Overload, RunSettings, ServiceTimes, Stream, is_configuration, is_scenario, load, schema,
};
use proxy::ProxyTimers;

const WRONG: &str = "tests/scenarios/wrong";
const EXAMPLES: &str = "../../../examples/scenarios";

fn files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the directory is part of the repository");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn six_lines_are_enough_and_the_defaults_are_those_of_figures() {
    let scenario = load(Path::new("tests/scenarios/right/minimal.toml")).expect("a valid file");
    assert_eq!(scenario.title, "minimal");
    assert_eq!(scenario.run, RunSettings::default());
    assert_eq!(scenario.costs, Costs::default());
    assert_eq!(scenario.timers, ProxyTimers::default());
    assert_eq!(scenario.groups, [Group::proxies("proxy", 1, 160.0)]);
    assert_eq!(scenario.groups[0].overload, Overload::default());
    assert_eq!(scenario.streams, [Stream::of_paper("main", vec![0], 100.0)]);
    assert!(scenario.links.is_empty() && scenario.faults.is_empty());
}

#[test]
fn every_key_is_read() {
    let scenario = load(Path::new("tests/scenarios/right/complete.toml")).expect("a valid file");
    assert_eq!(scenario.costs.service, ServiceTimes::Table(vec![0.5, 1.0, 1.5]));
    insta::assert_debug_snapshot!("complete", scenario);
}

#[test]
fn the_complete_file_has_every_key_of_the_schema() {
    assert_eq!(keys::absent(&schema(), &["tests/scenarios/right/complete.toml"]), Vec::<String>::new());
}

#[test]
fn each_example_is_valid_and_recognised_as_a_scenario() {
    let outlooks = files(EXAMPLES).into_iter().map(|file| {
        assert!(is_scenario(&file), "{}", file.display());
        let scenario = load(&file).unwrap_or_else(|errors| panic!("{errors}"));
        let name = file.file_name().expect("a file name").to_string_lossy().into_owned();
        format!("{name}: {}", scenario.outlook())
    });
    insta::assert_snapshot!("examples", outlooks.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_scenario_with_errors_is_distinguished_from_a_configuration() {
    for file in files(WRONG) {
        let is_empty = file.ends_with("empty.toml");
        assert_eq!(is_scenario(&file), !is_empty, "{}", file.display());
    }
    for file in files("tests/wrong") {
        assert!(!is_scenario(&file), "{}", file.display());
    }
    assert!(is_configuration(Path::new("tests/right/complete.toml")));
    assert!(!is_configuration(Path::new("tests/scenarios/right/complete.toml")));
    assert!(!is_scenario(Path::new("tests/right/complete.toml")));
    assert!(!is_scenario(Path::new("absent.toml")));
}

/// The guide promises that topology, load and a failure fit into this.
#[test]
fn the_example_of_the_guide_has_at_most_twenty_lines() {
    let text = std::fs::read_to_string(Path::new(EXAMPLES).join("survive.toml")).expect("an example");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    assert!(lines <= 20, "{lines}");
}
