//! Tests that the committed references and schemas are up to date.

use std::path::{Path, PathBuf};

/// If this variable is set, the files are written instead of compared.
const UPDATE: &str = "UPDATE_DOCS";

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(file)
}

fn up_to_date(file: &str, made: &str) {
    let path = docs(file);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, made).expect("docs/ can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "docs/{file} is out of date; update it with `{UPDATE}=1 cargo test -p config reference`"
    );
}

#[test]
fn references_and_schemas_are_up_to_date() {
    up_to_date("configuration.md", &config::reference());
    up_to_date("schema.json", &config::schema());
    up_to_date("scenario.md", &config::scenario::reference());
    up_to_date("scenario-schema.json", &config::scenario::schema());
    up_to_date("topology.md", &config::topology::reference());
    up_to_date("topology-schema.json", &config::topology::schema());
}

/// The first example of a page.
fn example(page: &str) -> &str {
    page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example")
}

#[test]
fn the_example_of_each_reference_is_a_complete_file() {
    let topology = config::topology::parse(example(&config::topology::reference()), "reference.toml");
    assert_eq!(topology.unwrap().nodes().len(), 3);
    let scenario = config::scenario::parse(example(&config::scenario::reference()), "reference.toml");
    assert_eq!(scenario.unwrap().streams[0].path, [0, 1, 0]);
    let config = config::parse(example(&config::reference()), "reference.toml");
    assert_eq!(config.unwrap().members().len(), 3);
}
