//! Changes of the members of a running process.

use config::{ChangeError, Config, MemberChange, parse};

const FILE: &str = "[listen]\nudp = [\"10.0.0.9:5060\"]\n\
                    [pool.core]\nmembers = [{ address = \"10.0.0.1\", capacity = 2, max_calls = 9, name = \"one\" }, \
                    \"10.0.0.2\"]\n\
                    [pool.spare]\nmembers = [\"10.0.0.2\", \"10.0.0.3\"]\n\
                    [[route]]\nname = \"spare\"\npool = \"spare\"\nuser = \"1\"\n[[route]]\npool = \"core\"\n";

fn file() -> Config {
    parse(FILE, "some.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn add(address: &str, weight: Option<&str>) -> MemberChange {
    MemberChange::Add { address: address.to_owned(), weight: weight.map(str::to_owned), name: None }
}

fn remove(member: &str) -> MemberChange {
    MemberChange::Remove { member: member.to_owned() }
}

fn weight(member: &str, weight: &str) -> MemberChange {
    MemberChange::Weight { member: member.to_owned(), weight: weight.to_owned() }
}

/// Applies changes to the file. Returns the differences from it.
fn differences(changes: &[(&str, MemberChange)]) -> Vec<String> {
    let mut config = file();
    for (pool, change) in changes {
        config = config.with_member_change(pool, change).unwrap_or_else(|error| panic!("{error}"));
    }
    config.differences(&file())
}

/// A server in two pools is one member, so it has one weight.
#[test]
fn a_weight_applies_in_all_pools_of_a_member() {
    let both = [
        "core: 10.0.0.2:5060 has weight 3, in the file 1",
        "spare: 10.0.0.2:5060 has weight 3, in the file 1",
    ];
    assert_eq!(differences(&[("spare", weight("10.0.0.2", "3"))]), both);
    let added = differences(&[("spare", add("10.0.0.1", None))]);
    assert_eq!(added, ["spare: 10.0.0.1:5060 added"], "with the weight and name of the other pool");
    assert_eq!(
        differences(&[("spare", add("10.0.0.1", Some("4")))]),
        ["core: 10.0.0.1:5060 has weight 4, in the file 2", "spare: 10.0.0.1:5060 added"]
    );
}

/// As in a file: the scaler must know all calls of a server.
#[test]
fn a_server_of_a_scaled_pool_belongs_to_no_other_pool() {
    let scaled = "[pool.cloud]\nmembers = [\"10.0.0.7\", \"10.0.0.8\"]\n\
                  scale = { driver = \"command\", start = \"a\", stop = \"b\", list = \"c\" }\n\
                  [[route]]\nname = \"cloud\"\npool = \"cloud\"\nuser = \"2\"\n";
    let file = FILE.replacen("[[route]]", &format!("{scaled}[[route]]"), 1);
    let file = parse(&file, "some.toml").unwrap_or_else(|errors| panic!("{errors}"));
    for (pool, address) in [("core", "10.0.0.7"), ("cloud", "10.0.0.9")] {
        let error = file.with_member_change(pool, &add(address, None)).expect_err("it is scaled");
        assert!(error.to_string().contains("cloud"), "{error}");
    }
}

#[test]
fn a_change_that_is_undone_leaves_no_difference() {
    assert!(differences(&[("core", add("10.0.0.4", None)), ("core", remove("10.0.0.4:5060"))]).is_empty());
    assert!(differences(&[("core", weight("one", "3")), ("core", weight("10.0.0.1", "2"))]).is_empty());
    assert_eq!(
        differences(&[("core", remove("one")), ("core", add("10.0.0.1", Some("2")))]),
        ["core: 10.0.0.1:5060 has another name or limit than in the file"]
    );
}

#[test]
fn a_member_is_sought_only_in_the_pool() {
    let error = file().with_member_change("spare", &remove("one")).expect_err("it is in another pool");
    assert_eq!(error, ChangeError::Unknown("no member \"one\" in the pool spare".to_owned()));
    let error = file().with_member_change("core", &weight("one", "0")).expect_err("a weight of 0");
    assert_eq!(error.to_string(), "0: expected a number above 0; to stop new calls, drain the member");
}
