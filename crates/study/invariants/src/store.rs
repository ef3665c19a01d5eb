//! Contract of every store of bindings.

use base::UnixTime;
use core::time::Duration;
use location::{Aor, Binding, BindingsRecord, Replaced, Store};

/// A binding that is valid for an hour from `now` on.
pub fn binding(now: UnixTime, uri: &str) -> Binding {
    Binding {
        uri: uri.as_bytes().into(),
        params: Box::default(),
        q: 1000,
        updated: now,
        expires: 3600,
        call_id: (*b"contract").into(),
        cseq: 1,
        path: Box::default(),
        source: None,
    }
}

fn record(now: UnixTime, uris: &[&str]) -> BindingsRecord {
    let bindings: Vec<_> = uris.iter().map(|uri| binding(now, uri)).collect();
    BindingsRecord::of(&bindings).expect("there are bindings")
}

/// Checks an empty store for these keys. `now` is the real time, as some stores have a clock.
///
/// # Panics
/// Panics if the store breaks the contract.
pub fn check<S: Store>(store: &mut S, now: UnixTime) {
    reads_stored_records(store, now);
    refuses_an_unexpected_record(store, now);
    keeps_any_bytes(store, now);
    forgets_removed_records(store, now);
}

/// Checks two stores with common data, as of two proxies on one server. Each sees the other's writes at once, and one
/// of two concurrent replacements wins.
pub fn check_pair<S: Store>(one: &mut S, other: &mut S, now: UnixTime) {
    let aor = key("shared");
    let (first, second) = (record(now, &["sip:a@h"]), record(now, &["sip:a@h", "sip:b@h"]));
    assert_eq!(one.replace(now, &aor, None, Some(&first)), Ok(Replaced::Done));
    assert_eq!(other.read(&aor), Ok(Some(first.clone())), "the other sees it");
    assert_eq!(other.replace(now, &aor, Some(&first), Some(&second)), Ok(Replaced::Done));
    assert_eq!(one.replace(now, &aor, Some(&first), None), Ok(Replaced::Conflict), "one of two wins");
    assert_eq!(one.read(&aor), Ok(Some(second.clone())));
    assert_eq!(one.replace(now, &aor, Some(&second), None), Ok(Replaced::Done));
    assert_eq!(other.read(&aor), Ok(None));
}

fn key(user: &str) -> Aor {
    Aor::of(format!("sip:{user}@contract.example").as_bytes()).expect("a URI")
}

fn reads_stored_records<S: Store>(store: &mut S, now: UnixTime) {
    let aor = key("alice");
    assert_eq!(store.read(&aor), Ok(None), "nothing is there at first");
    let first = record(now, &["sip:alice@192.0.2.1"]);
    assert_eq!(store.replace(now, &aor, None, Some(&first)), Ok(Replaced::Done));
    assert_eq!(store.read(&aor), Ok(Some(first.clone())));
    assert_eq!(store.read(&key("Alice")), Ok(None), "keys are told apart to the letter");
    assert_eq!(store.read(&key("alic")), Ok(None));
    let second = record(now + Duration::from_secs(1), &["sip:alice@192.0.2.1", "sip:alice@192.0.2.2"]);
    assert_eq!(store.replace(now, &aor, Some(&first), Some(&second)), Ok(Replaced::Done));
    assert_eq!(store.read(&aor), Ok(Some(second)));
}

fn refuses_an_unexpected_record<S: Store>(store: &mut S, now: UnixTime) {
    let aor = key("bob");
    let (first, second) = (record(now, &["sip:bob@a"]), record(now, &["sip:bob@b"]));
    assert_eq!(
        store.replace(now, &aor, Some(&first), Some(&second)),
        Ok(Replaced::Conflict),
        "it was not there"
    );
    assert_eq!(store.replace(now, &aor, Some(&first), None), Ok(Replaced::Conflict));
    assert_eq!(store.replace(now, &aor, None, Some(&first)), Ok(Replaced::Done));
    for expected in [None, Some(&second)] {
        for new in [None, Some(&second)] {
            assert_eq!(store.replace(now, &aor, expected, new), Ok(Replaced::Conflict));
        }
    }
    assert_eq!(store.read(&aor), Ok(Some(first.clone())), "a conflict changes nothing");
    assert_eq!(store.replace(now, &aor, Some(&first), Some(&first)), Ok(Replaced::Done));
}

fn keeps_any_bytes<S: Store>(store: &mut S, now: UnixTime) {
    for user in ["%00%0D%0A", "%FF%FE", "a%20b%22%27;--", "%7B%7D*?%5Bx%5D"] {
        let aor = key(user);
        let mut odd = binding(now, "sip:x@h");
        odd.call_id = (0..=255).collect();
        odd.path = vec![0; 5000].into();
        let odd = BindingsRecord::of(&[odd]).expect("a binding");
        assert_eq!(store.replace(now, &aor, None, Some(&odd)), Ok(Replaced::Done));
        assert_eq!(store.read(&aor), Ok(Some(odd)));
    }
}

fn forgets_removed_records<S: Store>(store: &mut S, now: UnixTime) {
    let aor = key("carol");
    let first = record(now, &["sip:carol@a"]);
    assert_eq!(store.replace(now, &aor, None, Some(&first)), Ok(Replaced::Done));
    assert_eq!(store.replace(now, &aor, Some(&first), None), Ok(Replaced::Done));
    assert_eq!(store.read(&aor), Ok(None));
    assert_eq!(store.replace(now, &aor, None, None), Ok(Replaced::Done), "nothing for nothing");
    // Expired records may be kept or dropped. They can be replaced as they were read.
    let past = UnixTime::from_millis(now.as_millis().saturating_sub(3_700_000));
    let old = record(past, &["sip:carol@old"]);
    assert_eq!(store.replace(now, &aor, None, Some(&old)), Ok(Replaced::Done));
    let read = store.read(&aor).expect("it answers");
    assert!(read.is_none() || read.as_ref() == Some(&old));
    assert_eq!(store.replace(now, &aor, read.as_ref(), Some(&first)), Ok(Replaced::Done));
    assert_eq!(store.read(&aor), Ok(Some(first)));
}
