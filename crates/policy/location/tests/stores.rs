//! The store in memory: its contract, limits and sweeps. Registrations with failing stores.
use crate::common::{Bed, alice, at, read, settings, text, values};
use invariants::store as contract;
use location::{
    Aor, BindingsRecord, MemoryLimits, MemoryStore, Registrar, Registration, RegistrationStep, Replaced,
    Store, StoreError, StoreReply, StoreRequest,
};

#[test]
fn the_memory_store_fulfils_the_contract() {
    contract::check(&mut MemoryStore::new(MemoryLimits::default()), at(0));
}

fn key(n: usize) -> Aor {
    Aor::of(format!("sip:{n:06}@example.com").as_bytes()).expect("a URI")
}

fn record(secs: u64) -> BindingsRecord {
    BindingsRecord::of(&[contract::binding(at(secs), "sip:a@h")]).expect("a binding")
}

#[test]
fn a_full_store_accepts_refreshes_and_removals() {
    let ten = 10 * (key(0).key().len() + record(0).as_bytes().len());
    for limits in [MemoryLimits { bindings: 10, bytes: 1 << 20 }, MemoryLimits { bindings: 100, bytes: ten }]
    {
        let mut store = MemoryStore::new(limits);
        let stored =
            (0..100).filter(|n| store.replace(at(0), &key(*n), None, Some(&record(0))).is_ok()).count();
        assert_eq!(stored, 10);
        assert_eq!(store.replace(at(0), &key(50), None, Some(&record(0))), Err(StoreError::Full));
        assert_eq!(store.read(&key(50)), Ok(None));
        let newer = record(1);
        assert_eq!(store.replace(at(1), &key(0), Some(&record(0)), Some(&newer)), Ok(Replaced::Done));
        assert_eq!(store.replace(at(1), &key(1), Some(&record(0)), None), Ok(Replaced::Done));
        assert_eq!(store.replace(at(1), &key(50), None, Some(&newer)), Ok(Replaced::Done));
    }
}

#[test]
fn expired_records_are_swept_as_the_store_is_used() {
    let mut store = MemoryStore::new(MemoryLimits::default());
    for n in 0..1000 {
        store.replace(at(0), &key(n), None, Some(&record(0))).unwrap();
    }
    assert_eq!((store.bindings(), store.bytes()), (1000, 1000 * (22 + record(0).as_bytes().len())));
    // Each new record sweeps a few.
    for n in 1000..1300 {
        store.replace(at(4000), &key(n), None, Some(&record(4000))).unwrap();
    }
    assert_eq!(store.bindings(), 300);
    assert_eq!(store.iter().count(), 300);
    while store.bindings() > 0 {
        assert!(store.sweep(at(9000), 64).len() <= 64);
    }
    assert_eq!(store.bytes(), 0);
}

/// A registration whose store is also used by others.
fn begun() -> (Registration, Registrar) {
    let (registration, step) =
        Registration::begin(read(&text("a", 1, &["Contact: <sip:a@h>"])).expect("a request"));
    assert_eq!(step, RegistrationStep::Request(StoreRequest::Read(alice())));
    (registration, Registrar::new(settings()))
}

#[test]
fn after_a_conflict_the_registrar_decides_again() {
    let (mut registration, registrar) = begun();
    let step = registration.reply(at(0), &registrar, StoreReply::Read(Ok(None)));
    assert!(matches!(
        step,
        RegistrationStep::Request(StoreRequest::Replace { expected: None, new: Some(_), .. })
    ));
    let step = registration.reply(at(0), &registrar, StoreReply::Replaced(Ok(Replaced::Conflict)));
    assert_eq!(step, RegistrationStep::Request(StoreRequest::Read(alice())));
    let theirs = BindingsRecord::of(&[contract::binding(at(0), "sip:b@h")]);
    let RegistrationStep::Request(ask) =
        registration.reply(at(0), &registrar, StoreReply::Read(Ok(theirs.clone())))
    else {
        panic!()
    };
    assert_eq!(ask.aor(), &alice());
    let StoreRequest::Replace { expected, new: Some(new), .. } = ask else { panic!() };
    assert_eq!((expected, new.len()), (theirs, 2), "the record has both contacts");
    let RegistrationStep::Done(answer) =
        registration.reply(at(0), &registrar, StoreReply::Replaced(Ok(Replaced::Done)))
    else {
        panic!()
    };
    assert_eq!((answer.status, values(&answer, "Contact").len()), (200, 2));
}

#[test]
fn repeated_conflicts_end_a_registration() {
    let (mut registration, registrar) = begun();
    let mut asked = 0;
    let answer = loop {
        let step = registration.reply(at(0), &registrar, StoreReply::Read(Ok(None)));
        assert!(matches!(step, RegistrationStep::Request(StoreRequest::Replace { .. })));
        asked += 1;
        match registration.reply(at(0), &registrar, StoreReply::Replaced(Ok(Replaced::Conflict))) {
            RegistrationStep::Done(answer) => break answer,
            RegistrationStep::Request(_) => {}
        }
    };
    assert_eq!((asked, answer.status), (5, 500));
}

#[test]
fn only_stored_bindings_are_acknowledged() {
    // [10.3-17]
    for (error, status) in [
        (StoreError::Full, 503),
        (StoreError::Unavailable("down".into()), 503),
        (StoreError::Corrupt("sip:x".into()), 500),
    ] {
        let (mut registration, registrar) = begun();
        assert!(!error.to_string().is_empty());
        let RegistrationStep::Done(answer) =
            registration.reply(at(0), &registrar, StoreReply::Read(Err(error.clone())))
        else {
            panic!()
        };
        assert_eq!(answer.status, status);
        let (mut registration, registrar) = begun();
        registration.reply(at(0), &registrar, StoreReply::Read(Ok(None)));
        let RegistrationStep::Done(answer) =
            registration.reply(at(0), &registrar, StoreReply::Replaced(Err(error)))
        else {
            panic!()
        };
        assert_eq!((answer.status, values(&answer, "Contact").len()), (status, 0));
    }
    // A reply to another request does not end the registration with success.
    let (mut registration, registrar) = begun();
    let RegistrationStep::Done(answer) =
        registration.reply(at(0), &registrar, StoreReply::Replaced(Ok(Replaced::Done)))
    else {
        panic!()
    };
    assert_eq!(answer.status, 500);
    let mut full = Bed::new(settings());
    full.store = MemoryStore::new(MemoryLimits { bindings: 0, bytes: 0 });
    assert_eq!(full.register(0, "a", 1, &["Contact: <sip:a@h>"]).status, 503);
}
