//! The table against a comparison with every rule in order, on random tables and requests.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod common;

use common::{Call, naive, query, rule, rules};
use proptest::prelude::*;
use route::{Conditions, Field, MethodName, Origin, Part, Pattern, Query, Reason, Rule, Table, UriPlace};
use std::net::SocketAddr;

const LISTENERS: [&str; 3] = ["192.0.2.1:5060", "192.0.2.1:5070", "[2001:db8::1]:5060"];

fn listeners() -> Vec<SocketAddr> {
    LISTENERS.iter().map(|text| text.parse().unwrap()).collect()
}

fn table(rules: Vec<Conditions>) -> Table {
    Table::new(rules.into_iter().map(rule).collect(), &listeners())
}

/// Index of the rule that a request matches.
fn found(table: &Table, call: &Call) -> Option<usize> {
    let text = call.text();
    let message = wire::scan(text.as_bytes()).unwrap();
    assert_eq!(message.fault(), None, "{text}");
    let found = table.find(&query(&message, call)).map(|(index, found)| {
        assert_eq!(*found, table.rules()[index]);
        index
    });
    // Each rule before it has a reason why it does not match.
    let mismatches = table.mismatches(&query(&message, call));
    assert_eq!(mismatches.len(), found.unwrap_or(table.rules().len()), "{mismatches:?}");
    found
}

fn text(field: Field, pattern: Pattern) -> Conditions {
    Conditions { texts: vec![(field, vec![pattern])], ..Conditions::default() }
}

fn user(pattern: Pattern) -> Conditions {
    text(Field::Uri(UriPlace::RequestUri, Part::User), pattern)
}

fn host(name: &str) -> Conditions {
    text(Field::Uri(UriPlace::RequestUri, Part::Host), Pattern::Exact(name.into()))
}

fn to(uri: &str) -> Call {
    Call { uri: uri.to_owned(), ..Call::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn the_first_rule_that_matches_wins(rules in rules(), calls in prop::collection::vec(common::call(), 1..8)) {
        let table = table(rules.clone());
        let dead: Vec<usize> = table.unreachable().into_iter().map(|(index, _)| index).collect();
        for call in calls {
            let expected = rules.iter().position(|rule| naive(rule, &call, &listeners()));
            let found = found(&table, &call);
            prop_assert_eq!(found, expected, "{:?}\n{:?}", rules, call);
            prop_assert!(!found.is_some_and(|found| dead.contains(&found)), "{:?}\n{:?}", rules, call);
        }
    }
}

/// Random tables and requests match often enough to test the table: most requests match a rule, few the first rule, and
/// rules that never win are common.
#[test]
fn random_tables_and_requests_match_often_enough() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut matched, mut later, mut dead, mut all) = (0, 0, 0, 0);
    for _ in 0..1_000 {
        let table = table(rules().new_tree(&mut runner).unwrap().current());
        let call = common::call().new_tree(&mut runner).unwrap().current();
        let found = found(&table, &call);
        matched += usize::from(found.is_some());
        later += usize::from(found.is_some_and(|index| index > 0));
        dead += table.unreachable().len();
        all += table.rules().len();
    }
    assert!(
        matched > 300 && later > 150 && dead > all / 50 && dead < all / 2,
        "{matched} {later} {dead} of {all}"
    );
}

#[test]
fn users_are_compared_with_their_escapes_decoded_and_without_parameters() {
    let table = table(vec![
        user(Pattern::Exact(b"+442079".to_vec())),
        user(Pattern::Prefix(b"+44".to_vec())),
        user(Pattern::Suffix(b"#".to_vec())),
        user(Pattern::Exact(b"Bob".to_vec())),
    ]);
    for (uri, rule) in [
        ("sip:+442079@h", Some(0)),
        ("sip:%2B44%32079@h", Some(0)),
        ("sip:%2b442079;ext=1@h;user=phone", Some(0)),
        ("sip:+4420790@h", Some(1)),
        ("sip:*21%23@h", Some(2)),
        ("sip:Bob@h", Some(3)),
        ("sip:bob@h", None),
        ("sip:+4@h", None),
        ("sip:h", None),
        ("tel:+442079;phone-context=x", Some(0)),
    ] {
        assert_eq!(found(&table, &to(uri)), rule, "{uri}");
    }
}

#[test]
fn hosts_are_compared_in_any_case_and_addresses_in_any_spelling() {
    let table = table(vec![
        host("Example.COM."),
        host("[2001:DB8:0::2]"),
        host("10.0.0.1"),
        text(Field::Uri(UriPlace::RequestUri, Part::Host), Pattern::Suffix(b".example.com".to_vec())),
    ]);
    for (uri, rule) in [
        ("sip:example.com", Some(0)),
        ("sip:a@EXAMPLE.com.:5070;lr", Some(0)),
        ("sip:a@[2001:db8::2]:5060", Some(1)),
        ("sip:a@[2001:db8:0:0::0:2]", Some(1)),
        ("sip:a:b@10.0.0.1:5060;x=1", Some(2)),
        ("sips:10.0.0.1", Some(2)),
        ("sip:a@[::ffff:10.0.0.1]", Some(2)),
        ("sip:a@sip.Example.Com.", Some(3)),
        ("sip:a@10.0.0.12", None),
        ("sip:a@notexample.com", None),
        ("tel:+1", None),
    ] {
        assert_eq!(found(&table, &to(uri)), rule, "{uri}");
    }
}

#[test]
fn a_header_condition_holds_for_any_value_in_either_form_of_the_name() {
    let header = |name: &str, pattern| text(Field::Header(name.to_owned()), pattern);
    let table = table(vec![
        header("Subject", Pattern::Exact(b"Test Call".to_vec())),
        header("user-agent", Pattern::Contains(b"scanner".to_vec())),
        header("X-Account", Pattern::Prefix(b"gold".to_vec())),
        header("X-ACCOUNT", Pattern::Present),
    ]);
    let with = |lines: &str| found(&table, &Call { lines: lines.to_owned(), ..Call::default() });
    assert_eq!(with("s: other\r\nSubject : test call \r\n"), Some(0));
    assert_eq!(with("USER-AGENT: Friendly-Scanner\r\n"), Some(1));
    assert_eq!(with("x-account: tin\r\nX-Account: Golden\r\n"), Some(2));
    assert_eq!(with("x-account:\r\n"), Some(3));
    assert_eq!(with("X-Accounts: gold\r\n"), None);
}

#[test]
fn ack_and_cancel_take_the_rule_of_their_invite() {
    let methods = |names: &[&str]| Conditions {
        methods: names.iter().map(|name| MethodName::new(name)).collect(),
        ..Conditions::default()
    };
    let table = table(vec![methods(&["INVITE"]), methods(&["REGISTER", "PING"]), methods(&["ping"])]);
    for (method, rule) in [
        ("INVITE", Some(0)),
        ("ACK", Some(0)),
        ("CANCEL", Some(0)),
        ("REGISTER", Some(1)),
        ("PING", Some(1)),
        ("ping", Some(2)),
        ("PONG", None),
    ] {
        assert_eq!(found(&table, &Call { method: method.to_owned(), ..Call::default() }), rule, "{method}");
    }
}

#[test]
fn a_rule_applies_to_outside_senders_by_default() {
    let from = |origin| Conditions { origin, ..Conditions::default() };
    let calls = [false, true].map(|from_member| Call { from_member, ..Call::default() });
    let found_of = |origins: &[Origin]| {
        let table = table(origins.iter().map(|&origin| from(origin)).collect());
        calls.each_ref().map(|call| found(&table, call))
    };
    assert_eq!(found_of(&[Origin::Outside]), [Some(0), None]);
    assert_eq!(found_of(&[Origin::Members]), [None, Some(0)]);
    assert_eq!(found_of(&[Origin::Members, Origin::Anyone]), [Some(1), Some(0)]);
}

#[test]
fn the_request_uri_of_a_query_may_differ_from_the_message() {
    let table = table(vec![user(Pattern::Exact(b"bob".to_vec()))]);
    let call = to("sip:192.0.2.1;lr");
    let text = call.text();
    let message = wire::scan(text.as_bytes()).unwrap();
    let query = query(&message, &call);
    assert!(table.find(&query).is_none());
    assert!(table.find(&Query { uri: b"sip:bob@h", ..query }).is_some());
}

#[test]
fn rules_that_never_match_are_reported_with_the_covering_rule() {
    let prefix = |text: &str| user(Pattern::Prefix(text.into()));
    let exact = |text: &str| user(Pattern::Exact(text.into()));
    let both =
        |one: Conditions, other: Conditions| Conditions { texts: [one.texts, other.texts].concat(), ..one };
    let source = |text: &str| Conditions { sources: vec![text.parse().unwrap()], ..Conditions::default() };
    let unreachable = |rules: &[Conditions]| table(rules.to_vec()).unreachable();
    let host = |text: &str| Conditions { hosts: vec![text.parse().unwrap()], ..Conditions::default() };
    let everything = Conditions::default();
    assert_eq!(unreachable(&[everything.clone(), prefix("44")]), [(1, Reason::Covered(0))]);
    assert_eq!(
        unreachable(&[prefix("44"), prefix("442"), exact("44"), everything.clone()]),
        [(1, Reason::Covered(0)), (2, Reason::Covered(0)),]
    );
    assert_eq!(unreachable(&[prefix("442"), prefix("44"), exact("43")]), []);
    assert_eq!(
        unreachable(&[prefix("4"), both(source("10.0.0.0/8"), prefix("4"))]),
        [(1, Reason::Covered(0))]
    );
    assert_eq!(unreachable(&[both(source("10.0.0.0/8"), prefix("4")), prefix("4")]), []);
    assert_eq!(unreachable(&[source("10.0.0.0/8"), source("10.1.0.0/16")]), [(1, Reason::Covered(0))]);
    assert_eq!(unreachable(&[source("10.0.0.0/8"), source("11.1.0.0/16")]), []);
    assert_eq!(unreachable(&[host("10.0.0.0/8"), host("10.1.0.0/16")]), [(1, Reason::Covered(0))]);
    assert_eq!(unreachable(&[host("10.0.0.0/8"), source("10.1.0.0/16"), host("11.0.0.0/8")]), []);
    assert_eq!(unreachable(&[both(exact("bob"), prefix("a"))]), [(0, Reason::Contradiction)]);
    assert_eq!(unreachable(&[both(prefix("ab"), prefix("ac"))]), [(0, Reason::Contradiction)]);
    assert_eq!(unreachable(&[both(prefix("a"), prefix("ab"))]), []);
    let members = Conditions { origin: Origin::Members, ..Conditions::default() };
    assert_eq!(unreachable(&[everything, members.clone()]), []);
    let anyone = Conditions { origin: Origin::Anyone, ..Conditions::default() };
    assert_eq!(unreachable(&[anyone.clone(), members]), [(1, Reason::Covered(0))]);
    let on =
        |listener: &str| Conditions { listeners: vec![listener.parse().unwrap()], ..Conditions::default() };
    assert_eq!(unreachable(&[on("0.0.0.0:5060"), on("192.0.2.1:5060")]), [(1, Reason::Covered(0))]);
    assert_eq!(unreachable(&[on("192.0.2.1:5060"), on("0.0.0.0:5060")]), []);
}

#[test]
fn tables_are_equal_when_their_rules_are() {
    let rules = || vec![rule(user(Pattern::Exact(b"a".to_vec()))), Rule::default()];
    assert_eq!(Table::new(rules(), &listeners()), Table::new(rules(), &listeners()));
    assert_ne!(Table::new(rules(), &listeners()), Table::default());
    assert!(format!("{:?}", Table::new(rules(), &listeners())).starts_with("[Rule"));
}
