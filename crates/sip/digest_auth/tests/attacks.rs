//! Attacks without the password, and their results.

use crate::common;
use crate::common::*;
use digest_auth::{
    Algorithm, AuthSettings, Authenticator, BanSettings, Bans, NonceKey, Nonces, Offer, Replays, UriRule,
};
use std::net::IpAddr;

fn stranger() -> IpAddr {
    IpAddr::from([198, 51, 100, 9])
}

#[test]
fn a_user_with_the_password_is_genuine() {
    let mut server = usual();
    let mut sent = challenged(&mut server, 0, home());
    for count in 1..100 {
        sent.count = count;
        assert_eq!(receive(&mut server, u64::from(count), &sent), genuine());
    }
    assert_eq!(receive(&mut server, 301, &Sent { count: 100, ..sent }), STALE);
}

#[test]
fn a_copy_is_refused() {
    let mut server = usual();
    let sent = challenged(&mut server, 0, home());
    assert_eq!(receive(&mut server, 1, &sent), genuine());
    assert_eq!(receive(&mut server, 2, &sent), STALE, "a copy of the request");
    // A request delayed on the path passes once, however late, and only from its source.
    let held_back = Sent { count: 2, ..sent.clone() };
    assert_eq!(receive(&mut server, 3, &Sent { count: 3, ..sent.clone() }), genuine());
    assert_eq!(receive(&mut server, 4, &Sent { source: stranger(), ..held_back.clone() }), STALE);
    assert_eq!(receive(&mut server, 4, &held_back), genuine());
    assert_eq!(receive(&mut server, 5, &held_back), STALE);
    // With another count the digest is wrong.
    let value = String::from_utf8(sent.value()).unwrap().replace("nc=00000001", "nc=00000009");
    assert_eq!(receive_value(&mut server, 6, &sent, value.as_bytes()), WRONG);
}

/// Two look-ups in progress for the same credentials: one of them succeeds.
#[test]
fn a_copy_received_during_the_look_up_is_refused() {
    let mut server = usual();
    let sent = challenged(&mut server, 0, home());
    let value = sent.value();
    let mut claims = Vec::new();
    for _ in 0..2 {
        let digest_auth::Examined::Claim(claim) = examine(&mut server, 1, &sent, &[&value]) else { panic!() };
        claims.push(claim);
    }
    let verdicts: Vec<_> =
        claims.iter().map(|claim| server.settle(at(2).1, claim, secret_of(claim).as_ref())).collect();
    assert_eq!(End::Judged(verdicts[0].clone()), genuine());
    assert_eq!(verdicts[1], digest_auth::CredentialVerdict::Replayed);
}

#[test]
fn nonces_of_others_are_refused() {
    let with = |key: NonceKey, issuer: u32| {
        let nonces = Nonces::new(key.into(), issuer, NONCES);
        let settings = AuthSettings::new(REALM.as_bytes());
        Authenticator::new(settings, nonces, Replays::new(10), Bans::new(BanSettings::default(), [1, 2]))
    };
    let foreign = NonceKey { key: [7; 16], ..KEY };
    let sent = challenged(&mut with(foreign, 7), 0, home());
    assert_eq!(receive(&mut usual(), 1, &sent), REFUSED, "another key");
    // Another shard, or the process before a restart: the same key, but its used counts are unknown here.
    let sent = challenged(&mut with(KEY, 8), 0, home());
    assert_eq!(receive(&mut usual(), 1, &sent), STALE);
    let mut server = usual();
    let sent = challenged(&mut server, 100, home());
    assert_eq!(receive(&mut server, 0, &sent), STALE, "the nonce is from the future");
    for nonce in ["", "x", "0000", &"0".repeat(90), &"f".repeat(10_000)] {
        let sent = Sent { nonce: nonce.into(), ..sent.clone() };
        assert_eq!(receive(&mut usual(), 1, &sent), REFUSED);
    }
}

#[test]
fn a_digest_is_valid_for_its_request_only() {
    // [22.4-3] [2.6-6]
    let mut server = usual();
    let sent = challenged(&mut server, 0, home());
    let value = sent.value();
    let other_method = Sent { method: "INVITE".into(), ..sent.clone() };
    assert_eq!(receive_value(&mut server, 1, &other_method, &value), WRONG);
    for uri in
        ["sip:+1900555@example.com", "sips:example.com", "sip:example.com:5070", "sip:example.org", "tel:+1"]
    {
        let other = Sent { uri: uri.into(), ..sent.clone() };
        assert_eq!(receive_value(&mut server, 1, &other, &value), REFUSED, "{uri}");
        // Credentials adapted to the URI: their digest is wrong.
        let changed = String::from_utf8(value.clone()).unwrap();
        let changed = changed.replace("uri=\"sip:example.com\"", &format!("uri=\"{uri}\""));
        assert_eq!(receive_value(&mut server, 1, &other, changed.as_bytes()), WRONG, "{uri}");
    }
    let decorated = Sent { uri: "sip:EXAMPLE.com;transport=udp".into(), ..sent };
    assert_eq!(receive_value(&mut server, 2, &decorated, &value), genuine());
}

#[test]
fn hosts_can_be_configured_for_a_request_uri_changed_on_the_path() {
    // [22.4-3] [2.6-6]
    let hosts = vec![(*b"example.com").into(), (*b"192.0.2.7").into()];
    let mut server =
        server(AuthSettings { uri: UriRule::Hosts(hosts), ..AuthSettings::new(REALM.as_bytes()) });
    let sent = challenged(&mut server, 0, home());
    let moved = |count, digest_uri: &str| Sent {
        uri: "sip:10.0.0.1".into(),
        digest_uri: digest_uri.into(),
        count,
        ..sent.clone()
    };
    assert_eq!(receive(&mut server, 1, &moved(1, "sip:alice@Example.COM")), genuine());
    assert_eq!(receive(&mut server, 1, &moved(2, "sip:192.0.2.7;transport=tcp")), genuine());
    assert_eq!(
        receive(&mut server, 1, &moved(3, "sip:10.0.0.1:5060")),
        genuine(),
        "the digest names the Request-URI itself"
    );
    assert_eq!(receive(&mut server, 1, &moved(4, "sip:elsewhere.example")), REFUSED);
    assert_eq!(receive(&mut server, 1, &moved(4, "*")), REFUSED);
}

#[test]
fn no_algorithm_that_was_not_offered_is_accepted() {
    let offered = vec![Algorithm::Sha512_256, Algorithm::Sha256];
    let mut server =
        server(AuthSettings { offer: Offer::new(offered).unwrap(), ..AuthSettings::new(REALM.as_bytes()) });
    let sent = challenged(&mut server, 0, home());
    // An attacker on the path has told the client that only MD5 is accepted, and the client has answered with it.
    for algorithm in [Some(Algorithm::Md5), None] {
        assert_eq!(receive(&mut server, 1, &Sent { algorithm, ..sent.clone() }), REFUSED);
    }
    for other in ["MD5-sess", "SHA-256-sess", "SHA-1", ""] {
        let value =
            String::from_utf8(sent.value()).unwrap().replace("=SHA-512-256", &format!("=\"{other}\""));
        assert_eq!(receive_value(&mut server, 1, &sent, value.as_bytes()), REFUSED, "{other}");
    }
    let weaker = Sent { algorithm: Some(Algorithm::Sha256), ..sent };
    assert_eq!(receive(&mut server, 1, &weaker), genuine(), "the algorithm was offered");
}

#[test]
fn a_response_that_is_cut_or_padded_is_refused() {
    let mut server = usual();
    let sent = challenged(&mut server, 0, home());
    let (value, response) = (String::from_utf8(sent.value()).unwrap(), sent.response());
    for bad in [
        "",
        &response[..1],
        &response[..32],
        &response[..63],
        &format!("{response}0"),
        &"0".repeat(64),
        &"x".repeat(64),
    ] {
        let end = receive_value(&mut server, 1, &sent, value.replace(&response, bad).as_bytes());
        assert!(end == REFUSED || end == WRONG, "{bad}: {end:?}");
    }
}

#[test]
fn without_qop_credentials_are_refused_unless_configured() {
    // [22.4-5] [2.6-8]
    let mut server = usual();
    let sent = challenged(&mut server, 0, home());
    let bare = Sent { qop: None, ..sent.clone() };
    assert_eq!(receive(&mut server, 1, &bare), REFUSED);
    assert_eq!(receive(&mut server, 1, &Sent { qop: Some("auth-int".into()), ..sent.clone() }), REFUSED);
    let value = String::from_utf8(sent.value()).unwrap();
    for (from, to) in [
        (", nc=00000001", ""),
        ("nc=00000001", "nc=00000000"),
        ("nc=00000001", "nc=1"),
        ("nc=00000001", "nc=0000000g"),
        (", cnonce=\"0a4f113b\"", ""),
        ("\"0a4f113b\"", "\"\""),
        ("qop=auth", "qop=\"\""),
    ] {
        let changed = value.replace(from, to);
        assert_ne!(changed, value);
        assert_eq!(receive_value(&mut server, 1, &sent, changed.as_bytes()), REFUSED, "{to}");
    }
    let mut server =
        common::server(AuthSettings { without_qop: true, ..AuthSettings::new(REALM.as_bytes()) });
    let sent = challenged(&mut server, 0, home());
    let bare = Sent { qop: None, ..sent.clone() };
    assert_eq!(receive(&mut server, 1, &bare), genuine());
    assert_eq!(receive(&mut server, 2, &bare), STALE, "without a count each response costs a challenge");
    // A count, but a digest made without it: the count is not covered.
    let stripped = String::from_utf8(sent.value()).unwrap().replace("qop=auth, ", "");
    assert_eq!(receive_value(&mut server, 2, &sent, stripped.as_bytes()), STALE);
}

#[test]
fn user_names_are_compared_exactly() {
    let mut server = usual();
    let sent = challenged(&mut server, 0, home());
    for user in ["ALICE", "Alice", "alice ", "alice@example.com", "bob"] {
        assert_eq!(receive(&mut server, 1, &Sent { user: user.into(), ..sent.clone() }), WRONG, "{user}");
    }
    let long = Sent { user: "a".repeat(257), ..sent.clone() };
    assert_eq!(receive(&mut server, 1, &long), REFUSED);
    // A colon in the name moves the border between name and realm; the requested name moves with it.
    let moved = Sent { user: "alice:example.com".into(), password: "sesame".into(), ..sent };
    assert_eq!(receive(&mut server, 1, &moved), WRONG);
}

#[test]
fn credentials_for_other_realms_are_ignored() {
    // [22.3-3] [22-1] [22.4-1] [2.6-1]
    let mut server = usual();
    let sent = challenged(&mut server, 0, home());
    let foreign = Sent { realm: "elsewhere.example".into(), ..sent.clone() };
    assert_eq!(receive(&mut server, 1, &foreign), REFUSED);
    let (own, other) = (sent.value(), foreign.value());
    let values: [&[u8]; 5] = [b"Basic YWxpY2U6eA==", b"Digest realm=\"example.com\", x", &other, b"", &own];
    assert!(matches!(examine(&mut server, 1, &sent, &values), digest_auth::Examined::Claim(_)));
    // Other credentials for our realm, not from our challenge, do no harm.
    let weaker = Sent { nonce: "gone".into(), ..sent.clone() }.value();
    assert!(matches!(examine(&mut server, 1, &sent, &[&weaker, &own]), digest_auth::Examined::Claim(_)));
}

#[test]
fn only_the_first_credentials_are_checked() {
    let mut server = usual();
    let sent = challenged(&mut server, 0, home());
    let own = sent.value();
    let mut padded = own.clone();
    padded.extend_from_slice(format!(", x=\"{}\"", "y".repeat(60_000)).as_bytes());
    assert_eq!(receive_value(&mut server, 1, &sent, &padded), REFUSED);
    let many: Vec<_> = (0..500).map(|n| Sent { nonce: n.to_string(), ..sent.clone() }.value()).collect();
    let mut values: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    values.push(&own);
    assert!(
        matches!(examine(&mut server, 1, &sent, &values), digest_auth::Examined::Refused(_)),
        "only eight values are read"
    );
}

/// An attacker who forges the address of a user gets no nonce there, so the user is not banned for it.
#[test]
fn forged_sources_cause_no_ban() {
    let mut server = usual();
    let mine = challenged(&mut server, 0, stranger());
    for count in 1..1_000 {
        let forged = Sent { source: home(), password: "guess".into(), count, ..mine.clone() };
        assert_eq!(receive(&mut server, 1, &forged), STALE);
    }
    let sent = challenged(&mut server, 2, home());
    assert_eq!(receive(&mut server, 2, &sent), genuine());
}

/// Bans must not reveal which users exist.
#[test]
fn unknown_users_are_banned_like_known_ones() {
    let md5 = digest_auth::Secret::Ha1(Algorithm::Md5.hash(&[b"alice", REALM.as_bytes(), b"open sesame"]));
    for secret in [None, Some(md5), Some(digest_auth::Secret::Clear((*b"open sesame").into()))] {
        let mut server = usual();
        let guess = Sent { password: "guess".into(), ..challenged(&mut server, 0, stranger()) };
        let mut settled = 0;
        for count in 1..=20 {
            let sent = Sent { count, ..guess.clone() };
            let digest_auth::Examined::Claim(claim) = examine(&mut server, 1, &sent, &[&sent.value()]) else {
                break;
            };
            server.settle(at(1).1, &claim, secret.as_ref());
            settled += 1;
        }
        assert_eq!(settled, 10, "{secret:?}");
    }
}

#[test]
fn an_attacker_is_banned_and_users_keep_access() {
    // [22.1-5]
    let mut server = usual();
    let alice = challenged(&mut server, 0, home());
    assert_eq!(receive(&mut server, 0, &alice), genuine());
    let guess = challenged(&mut server, 0, stranger());
    let ends: Vec<_> = (1..=20)
        .map(|count| receive(&mut server, 1, &Sent { password: count.to_string(), count, ..guess.clone() }))
        .collect();
    assert!(ends[..10].iter().all(|end| *end == WRONG) && ends[10..].iter().all(|end| *end == BANNED));
    // Even with the right password, for a while.
    assert_eq!(
        receive(&mut server, 2, &Sent { count: 30, ..guess.clone() }),
        genuine(),
        "one attempt is refilled"
    );
    assert_eq!(
        receive(&mut server, 2, &Sent { count: 2, ..alice }),
        genuine(),
        "alice is known at this address"
    );
}
