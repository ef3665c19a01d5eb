//! The committed reference and schema say what the parser does.

use std::path::{Path, PathBuf};

/// Set to anything, it makes the files anew instead of comparing them.
const UPDATE: &str = "UPDATE_DOCS";

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

fn up_to_date(file: &str, made: &str) {
    let path = docs(file);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, made).expect("docs/ can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "docs/{file} is out of date; make it anew with `{UPDATE}=1 cargo test -p sarabande-config --test reference`"
    );
}

#[test]
fn the_reference_is_up_to_date() {
    up_to_date("configuration.md", &sarabande_config::reference());
}

#[test]
fn the_schema_is_up_to_date() {
    up_to_date("schema.json", &sarabande_config::schema());
}

#[test]
fn the_reference_of_scenarios_is_up_to_date() {
    up_to_date("scenario.md", &sarabande_config::scenario::reference());
}

#[test]
fn the_schema_of_scenarios_is_up_to_date() {
    up_to_date("scenario-schema.json", &sarabande_config::scenario::schema());
}

#[test]
fn the_example_of_the_scenarios_reference_is_a_complete_one() {
    let text = sarabande_config::scenario::reference();
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let scenario = sarabande_config::scenario::parse(example, "reference.toml").unwrap();
    assert_eq!(scenario.streams[0].path, [0, 1, 0]);
}

#[test]
fn the_example_of_the_reference_is_a_complete_file() {
    let text = sarabande_config::reference();
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let config = sarabande_config::parse(example, "reference.toml").unwrap();
    assert_eq!(config.members().len(), 3);
}
