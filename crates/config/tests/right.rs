//! Right files, and what they become.

use std::path::Path;

use sarabande_config::{Policy, load, parse};

mod keys;

#[test]
fn six_lines_are_enough_and_the_rest_has_defaults() {
    let config = load(Path::new("tests/right/minimal.toml")).expect("a right file");
    insta::assert_debug_snapshot!("minimal", config);
}

#[test]
fn every_key_is_read() {
    let config = load(Path::new("tests/right/complete.toml")).expect("a right file");
    assert_eq!(config.token.key, Some(*b"0123456789abcdef"));
    assert_eq!(config.token.previous_keys, [*b"0123456789abcdef"]);
    insta::assert_debug_snapshot!("complete", config);
}

#[test]
fn a_proxy_stands_in_place_of_a_pool() {
    let config = load(Path::new("tests/right/proxy.toml")).expect("a right file");
    insta::assert_debug_snapshot!("proxy", config.role);
    assert_eq!(config.summary(), "proxy, 2 next hops");
    assert!(config.members().is_empty());
}

/// A name may stand for several members or for none: the file does not say how many there will be.
#[test]
fn the_summary_tells_names_from_members() {
    let summary = |members: &str| {
        let text = format!(
            "[listen]\nudp = [\"0.0.0.0:5060\"]\n[pool.a]\npolicy = \"cjsq\"\nmembers = [{members}]\n"
        );
        parse(&text, "summary.toml").expect("a right file").summary()
    };
    assert_eq!(summary("\"10.0.0.1\""), "1 member, policy cjsq");
    assert_eq!(summary("\"10.0.0.1\", \"10.0.0.2\""), "2 members, policy cjsq");
    let mixed = summary("\"10.0.0.1\", \"sip.example.com\", \"_sip._udp.example.com\"");
    assert_eq!(mixed, "1 member and members by 2 names, policy cjsq");
    assert_eq!(summary("\"sip.example.com\""), "members by 1 name, policy cjsq");
}

/// The complete files stay complete: they name each key that the schema has.
#[test]
fn the_complete_file_has_every_key_of_the_schema() {
    assert_eq!(
        keys::absent(&sarabande_config::schema(), &["tests/right/complete.toml", "tests/right/proxy.toml"]),
        Vec::<String>::new()
    );
}

fn with_policy(lines: &str) -> Policy {
    let text = format!("[listen]\nudp = [\"0.0.0.0:5060\"]\n[pool.a]\nmembers = [\"10.0.0.1\"]\n{lines}");
    parse(&text, "policy.toml").expect("a right file").pool().expect("a pool").policy.clone()
}

#[test]
fn each_spelling_of_tlwl_sets_its_weights() {
    let weights = |lines| match with_policy(lines) {
        Policy::Tlwl { weights } => weights.into_iter().collect::<Vec<_>>(),
        other => panic!("{other}"),
    };
    let usual = [("BYE".to_owned(), 1.0), ("INVITE".to_owned(), 1.75)];
    assert_eq!(weights(""), usual);
    assert_eq!(weights("policy = \"tlwl\""), usual);
    assert_eq!(weights("policy = \"tlwl-1.75\""), usual);
    assert_eq!(weights("policy = \"tlwl-2\""), [("BYE".to_owned(), 1.0), ("INVITE".to_owned(), 2.0)]);
    assert_eq!(weights("weights.BYE = 1.5"), [("BYE".to_owned(), 1.5), ("INVITE".to_owned(), 1.75)]);
}

#[test]
fn each_policy_is_chosen_by_its_name() {
    for name in ["round-robin", "hash", "fnv-hash", "cjsq", "tjsq", "tlwl", "rwma"] {
        assert_eq!(with_policy(&format!("policy = {name:?}")).name(), name);
    }
}

#[test]
fn a_key_in_the_file_is_read_and_kept_out_of_logs() {
    let text = "[listen]\nudp = [\"0.0.0.0:5060\"]\n[pool.a]\nmembers = [\"10.0.0.1\"]\n\
                [token]\nkey = \"30313233343536373839616263646566\"";
    let token = parse(text, "key.toml").expect("a right file").token;
    assert_eq!(token.key, Some(*b"0123456789abcdef"));
    let shown = format!("{token:?}");
    assert!(shown.contains("secret") && !shown.contains("48"), "{shown}");
}
