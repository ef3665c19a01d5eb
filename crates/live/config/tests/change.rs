//! Scenarios with one changed value: the result, the place of an added value, and error messages.

use std::fs;

use config::scenario::{Scenario, ScenarioLocal, Value, parse, parse_with};

const TEXT: &str = r#"[run]
duration = "2m"

[host.edge]
capacity = [160, 80]

[host.core]
capacity = 160
overload = { local = "occupancy" }

[calls.main]
path = ["edge", "core"]
rate = 100

[calls.steps]
path = ["core"]
load = [{ at = "0s", rate = 10 }, { at = "1m", rate = 20 }]

[[link]]
between = ["edge", "core"]
delay = "1ms"

[[fault]]
host = "core"
at = "30s"
restart = "10s"
"#;

fn with(key: &str, value: &str) -> Result<Scenario, String> {
    let value = Value::read(value).expect("a value");
    parse_with(TEXT, "file.toml", key, &value).map_err(|errors| errors.to_string())
}

/// Asserts that a change equals the same edit of the file.
#[track_caller]
fn assert_same(key: &str, value: &str, old: &str, new: &str) {
    assert_eq!(TEXT.matches(old).count(), 1, "{old}");
    let by_hand = parse(&TEXT.replace(old, new), "file.toml").expect("a valid scenario");
    assert_ne!(by_hand, parse(TEXT, "file.toml").expect("a valid scenario"), "{key} changes nothing");
    assert_eq!(with(key, value).expect("a valid scenario"), by_hand, "{key}");
}

#[test]
fn an_existing_key_is_replaced() {
    assert_same("run.duration", "90s", "\"2m\"", "\"90s\"");
    assert_same("calls.main.rate", "120", "rate = 100", "rate = 120");
    assert_same("host.core.capacity", "[160, 100]", "capacity = 160", "capacity = [160, 100]");
    assert_same("host.core.overload.local", "delay", "\"occupancy\"", "\"delay\"");
    // Also whole tables and arrays.
    assert_same("host.core.overload", "{ local = \"delay\" }", "\"occupancy\"", "\"delay\"");
    let steps = "[{ at = \"0s\", rate = 10 }, { at = \"1m\", rate = 20 }]";
    let one = "[{ at = \"5s\", rate = 15 }]";
    assert_same("calls.steps.load", one, steps, one);
}

#[test]
fn an_item_of_an_array_is_replaced() {
    assert_same("host.edge.capacity[1]", "90", "[160, 80]", "[160, 90]");
    assert_same("calls.steps.load[1].rate", "30", "rate = 20", "rate = 30");
    assert_same("fault[0].restart", "20s", "\"10s\"", "\"20s\"");
}

#[test]
fn an_absent_key_is_added() {
    assert_same("host.core.count", "3", "[host.core]", "[host.core]\ncount = 3");
    assert_same("link[0].loss", "5%", "[[link]]", "[[link]]\nloss = \"5%\"");
    // A zero that is intended.
    assert_same("link[0].delay", "0s", "\"1ms\"", "\"0s\"");
    // Missing tables are created.
    assert_same("timers.t1", "300ms", "[run]\n", "timers.t1 = \"300ms\"\n[run]\n");
    assert_same("costs.operations.scan", "1us", "[run]\n", "costs.operations.scan = \"1us\"\n[run]\n");
    let overload = "[host.edge]\noverload.local = \"delay\"";
    assert_same("host.edge.overload.local", "delay", "[host.edge]", overload);
    let stalls = "stalls = { every = \"10s\", length = \"1s\" }";
    let table = format!("[host.edge]\n{stalls}");
    assert_same("host.edge.stalls", "{ every = \"10s\", length = \"1s\" }", "[host.edge]", &table);
}

#[test]
fn a_required_key_may_be_absent_if_it_is_set() {
    let text = TEXT.replace("rate = 100\n", "");
    parse(&text, "file.toml").expect_err("no rate");
    let value = Value::read("100").expect("a value");
    let scenario = parse_with(&text, "file.toml", "calls.main.rate", &value).expect("a valid scenario");
    assert_eq!(scenario, parse(TEXT, "file.toml").expect("a valid scenario"));
}

#[test]
fn a_wrong_value_is_named_and_the_places_of_others_stay() {
    let refusals = [
        ("calls.main.rate", "0"),
        ("host.core.count", "some"),
        ("host.core.overload.local", "ocupancy"),
        ("host.core.overload", "none"),
        ("run.warm_up", "1h"),
        ("link[0].loss", "105%"),
        ("calls.main.path[1]", "cor"),
        ("run.bin", "1979-05-27"),
        // The mistake is elsewhere in the file.
        ("run.duration", "45s"),
        // Both a rate and steps.
        ("calls.steps.rate", "10"),
    ];
    insta::assert_snapshot!("values", with_remedies(&refusals));
}

#[test]
fn a_wrong_key_is_reported_as_if_it_were_in_the_file() {
    let refusals = [
        ("calls.main.rates", "10"),
        ("call.main.rate", "10"),
        ("run.duration.main", "10"),
        ("calls.mian.rate", "10"),
        ("host.back.count", "2"),
        ("link[1].loss", "5%"),
        ("link.loss", "5%"),
        ("calls.steps.load[2].rate", "5"),
        ("calls.main.load[0].rate", "5"),
        ("run[0]", "5"),
        ("calls..rate", "5"),
        ("link[one].loss", "5%"),
    ];
    insta::assert_snapshot!("keys", with_remedies(&refusals));
}

/// The messages about each key and value.
fn with_remedies(refusals: &[(&str, &str)]) -> String {
    let told = refusals.iter().map(|(key, value)| {
        let errors = with(key, value).expect_err(key);
        format!("{key} = {value}\n    {}\n", errors.replace('\n', "\n    "))
    });
    told.collect()
}

#[test]
fn every_example_takes_a_load() {
    for entry in fs::read_dir("../../../examples/scenarios").expect("a directory of the repository") {
        let path = entry.expect("a readable entry").path();
        let text = fs::read_to_string(&path).expect("a readable file");
        let stream = &parse(&text, "a.toml").unwrap_or_else(|errors| panic!("{errors}")).streams[0];
        let key = if text.contains("load = [") { "load[0].rate" } else { "rate" };
        let (key, value) = (format!("calls.{}.{key}", stream.name), Value::read("7").expect("a value"));
        let scenario = parse_with(&text, "a.toml", &key, &value).unwrap_or_else(|errors| panic!("{errors}"));
        assert!((scenario.streams[0].load[0].rate - 7.0).abs() < 1e-9, "{}", path.display());
    }
}

#[test]
fn a_law_of_any_name_is_swept_like_a_number() {
    for (name, law) in [
        ("none", ScenarioLocal::None),
        ("delay", ScenarioLocal::Delay),
        ("bang-bang", ScenarioLocal::BangBang),
    ] {
        let scenario = with("host.core.overload.local", name).expect("a valid scenario");
        assert_eq!(scenario.groups[1].overload.local, law);
    }
}

#[test]
fn a_file_may_be_large() {
    let text = format!("{TEXT}# {}\n", "long ".repeat(20_000));
    let value = Value::read("120").expect("a value");
    let changed = parse_with(&text, "file.toml", "calls.main.rate", &value);
    assert!(changed.is_ok(), "{changed:?}");
}

#[test]
fn a_table_of_hosts_or_calls_is_not_a_value() {
    for key in ["host", "calls"] {
        let told = with(key, "{ edge = { capacity = 1 } }").expect_err("a table, not a value");
        assert!(told.contains(&format!("`{key}`")) && told.contains("one of its tables"), "{told}");
    }
}
