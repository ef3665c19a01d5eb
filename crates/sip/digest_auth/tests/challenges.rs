//! Contents of challenges, and the requests that get one.

use crate::common;
use crate::common::{REALM, at, challenged, examine, home, server, usual};
use digest_auth::{Algorithm, AuthRefusal, AuthSettings, Examined, Role};
use wire::{AuthText, Challenge};

#[test]
fn challenges_come_in_the_order_of_preference() {
    // [22.2-1] [22.3-1] [2.3-1] [2.3-2] [22.4-6] [2.6-9]
    let opaque = (*b"5ccc\"x").into();
    let mut server = server(AuthSettings { opaque, ..AuthSettings::new(b"a \"b\"") });
    let values = server.challenges(at(0).1, home(), true);
    let read: Vec<_> = values.iter().map(|value| Challenge::parse(value).unwrap()).collect();
    let names: Vec<_> = read.iter().map(|c| c.algorithm.as_ref().unwrap().raw()).collect();
    assert_eq!(names, [&b"SHA-512-256"[..], b"SHA-256", b"MD5"]);
    for challenge in &read {
        assert_eq!(challenge.qop.as_ref().map(AuthText::raw), Some(&b"auth"[..]));
        assert_eq!(*challenge.realm.text(), *b"a \"b\"");
        assert_eq!(challenge.opaque.as_ref().map(|o| o.text().into_owned()), Some(b"5ccc\"x".to_vec()));
        assert!(challenge.stale);
    }
    let again = server.challenges(at(0).1, home(), false);
    assert_ne!(Challenge::parse(&again[0]).unwrap().nonce, read[0].nonce);
    assert!(!Challenge::parse(&again[0]).unwrap().stale);
}

#[test]
fn a_proxy_asks_with_407() {
    // [22.1-1] [22.2-1] [22.3-1]
    let proxy = (Role::Proxy.status(), Role::Proxy.challenge_header(), Role::Proxy.credentials_header());
    assert_eq!(proxy, (407, "Proxy-Authenticate", "Proxy-Authorization"));
    let registrar =
        (Role::Registrar.status(), Role::Registrar.challenge_header(), Role::Registrar.credentials_header());
    assert_eq!(registrar, (401, "WWW-Authenticate", "Authorization"));
}

#[test]
fn ack_and_cancel_are_not_challenged() {
    // [22.1-3] [22.1-4]
    let mut server = usual();
    let mut sent = challenged(&mut server, 0, home());
    for method in ["ACK", "CANCEL"] {
        sent.method = method.into();
        assert!(matches!(examine(&mut server, 1, &sent, &[]), Examined::Exempt));
        assert!(matches!(examine(&mut server, 1, &sent, &[b"Digest x=y"]), Examined::Exempt));
    }
    // Methods are case-sensitive: this is another one.
    sent.method = "ack".into();
    let examined = examine(&mut server, 1, &sent, &[]);
    assert!(matches!(examined, Examined::Refused(AuthRefusal::Challenge { stale: false })));
}

#[test]
fn a_client_that_knows_only_md5_is_accepted_if_md5_is_offered() {
    let mut server = usual();
    let challenges = server.challenges(at(0).1, home(), false);
    let sent = common::Sent::answer(&challenges, &[Algorithm::Md5]);
    assert_eq!(common::receive(&mut server, 1, &sent), common::genuine());
    // Without an algorithm the credentials mean MD5.
    let sent = common::Sent { algorithm: None, count: 2, ..sent };
    assert_eq!(common::receive(&mut server, 1, &sent), common::genuine());
    assert_eq!(server.settings().realm, REALM.as_bytes().into());
}

#[test]
fn a_foreign_opaque_is_stale() {
    let mut server =
        server(AuthSettings { opaque: (*b"5ccc").into(), ..AuthSettings::new(REALM.as_bytes()) });
    let sent = challenged(&mut server, 0, home());
    let mut value = sent.value();
    value.extend_from_slice(b", opaque=\"6ddd\"");
    assert_eq!(common::receive_value(&mut server, 1, &sent, &value), common::STALE);
    let unknown = String::from_utf8(value.clone()).unwrap().replace(&sent.nonce, "another");
    assert_eq!(common::receive_value(&mut server, 1, &sent, unknown.as_bytes()), common::REFUSED);
    let value = String::from_utf8(value).unwrap().replace("6ddd", "5ccc");
    assert_eq!(common::receive_value(&mut server, 1, &sent, value.as_bytes()), common::genuine());
}
