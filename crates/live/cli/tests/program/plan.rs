//! Tests of `sarabande plan`.

use crate::running::{folder, outcome};
use std::fs;
use std::path::Path;

fn example(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name);
    file.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn the_plan_shows_the_load_and_the_shares() {
    let (code, out, errors) = outcome(&["plan", &example("topology.toml")]);
    assert_eq!(code, Some(0), "{errors}");
    let row = |name: &str| {
        let row = out.lines().find(|line| line.trim_start().starts_with(name));
        row.unwrap_or_else(|| panic!("no {name} in {out}"))
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(row("each node its share").last().map(String::as_str), Some("5151.92"));
    assert_eq!(row("every node for every call").last().map(String::as_str), Some("4700.00"));
    assert_eq!(row("core")[1..4], ["5151.92", "2575.96", "2575.96"]);
    assert!(row("core").contains(&"bottleneck".to_owned()));
    // Shares of the calls that go on to another node. The last node keeps the state of all calls that arrive without
    // it.
    assert_eq!((&row("edge")[6][..], &row("core")[6][..]), ("0.5000", "1.0000"));
}

/// The configuration of a proxy has a single share for all its ways.
#[test]
fn a_node_with_different_shares_has_no_single_share() {
    let topology = "[node.edge]\nstateful = 1000\nstateless = 2000\nnext = { fast = 0.5, slow = 0.5 }\n\
                    [node.fast]\nstateful = 4000\nstateless = 5000\n[node.slow]\nstateless = 5000\n";
    let file = folder("plan").join("by-way.toml");
    fs::write(&file, topology).expect("the scratch folder can be written");
    let file = file.to_str().expect("a path in UTF-8");
    let (_, out, _) = outcome(&["plan", file]);
    assert!(out.contains("use law = \"level\" at this node"), "{out}");
    let (_, out, _) = outcome(&["plan", file, "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer["plan"]["nodes"][0]["keep"], serde_json::Value::Null, "{out}");
    assert_eq!(answer["plan"]["nodes"][1]["keep"], 1.0, "{out}");
}

#[test]
fn a_load_is_carried_or_not() {
    let file = example("topology.toml");
    let said = |load: &str| outcome(&["plan", &file, "--load", load]).1;
    assert!(said("5000").contains("5000.00 calls/s are carried"));
    assert!(said("5200").contains("5200.00 calls/s are not carried; at most 5151.92 are"));
    // The largest load, as it is printed.
    assert!(said("5151.92").contains("5151.92 calls/s are carried"));
    let code = |load: &str| outcome(&["plan", &file, "--load", load]).0;
    assert_eq!([code("5000"), code("5200")], [Some(0), Some(4)]);
    let (code, _, errors) = outcome(&["plan", &file, "--load", "0"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("--load: expected calls a second above 0"), "{errors}");
}

#[test]
fn json_has_all_results() {
    let (_, out, errors) = outcome(&["plan", &example("topology-fork.toml"), "--json", "--load", "1000"]);
    let answer: serde_json::Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} {errors}"));
    assert_eq!(answer["is_carried"], true);
    assert_eq!(answer["plan"]["nodes"].as_array().map(Vec::len), Some(5));
    assert_eq!(answer["plan"]["load"], 1000.0);
    for path in answer["paths"].as_array().expect("paths") {
        let kept: f64 =
            path["kept"].as_array().expect("shares").iter().filter_map(serde_json::Value::as_f64).sum();
        assert!((kept - 1.0).abs() < 1e-6, "{path}");
    }
}

#[test]
fn errors_are_reported_with_a_remedy() {
    let file = |name: &str, text: &str| {
        let file = folder("plan").join(name);
        fs::write(&file, text).expect("the scratch folder can be written");
        file.to_str().expect("a path in UTF-8").to_owned()
    };
    let error = |file: &str| {
        let (code, _, errors) = outcome(&["plan", file]);
        assert_eq!(code, Some(1), "{errors}");
        errors
    };
    let slip = file("slip.toml", "[node.a]\nstateles = 100\n");
    assert!(error(&slip).contains("slip.toml:2:1: key `node.a.stateles`: unknown key"), "{}", error(&slip));
    let stateless = file("stateless.toml", "[node.a]\nstateless = 100\n");
    assert!(
        error(&stateless).contains("give a node on their path a `stateful` rate"),
        "{}",
        error(&stateless)
    );
    let scenario = "[host.core]\ncapacity = 100\n[calls.main]\npath = [\"core\"]\nrate = 20\n";
    assert!(error(&file("scenario.toml", scenario)).contains("`sarabande sim run"));
    assert!(error(&example("pool.toml")).contains("is a configuration of the server"));
}
