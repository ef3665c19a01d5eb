//! Digests computed by other implementations.

use crate::common::{REALM, Sent, at, challenged, examine, home, server, usual};
use digest_auth::{Algorithm, AuthSettings, CredentialVerdict, Examined, Offer, Secret, SecretHash};

/// Digest composed as in RFC 7616 §3.4.1.
fn response(algorithm: Algorithm, ha1: &SecretHash, parts: [&str; 4], method_and_uri: [&str; 2]) -> String {
    let ha2 = algorithm.hash(&method_and_uri.map(str::as_bytes)).hex();
    let [nonce, count, cnonce, qop] = parts.map(str::as_bytes);
    let hash = algorithm.hash(&[&ha1.hex(), nonce, count, cnonce, qop, &ha2]);
    String::from_utf8(hash.hex()).expect("digits")
}

#[test]
fn the_example_of_rfc_7616() {
    let cases = [
        (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ];
    for (algorithm, expected) in cases {
        let ha1 = algorithm.hash(&[b"Mufasa", b"http-auth@example.org", b"Circle of Life"]);
        let parts = [
            "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
            "00000001",
            "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            "auth",
        ];
        assert_eq!(response(algorithm, &ha1, parts, ["GET", "/dir/index.html"]), expected);
    }
}

/// Made with Python's hashlib: `hashlib.new(NAME, b"alice:example.com:open sesame")` with md5, sha256 and
/// `sha512_256` is the first, of `b"REGISTER:sip:example.com"` the second hash; the digest is that of
/// `f"{first}:abcdef0123:00000002:0a4f113b:auth:{second}"`.
#[test]
fn digests_of_hashlib() {
    let cases = [
        (Algorithm::Md5, "7a6f498f50d864f4c4b7a4ab9d3f878c", "1be09388793e57fac55c9e65dcaede86"),
        (
            Algorithm::Sha256,
            "a7d6da1eb2029eb5024e42e0c05cf1a26ea3c8a974d88d42e149a7490b91869f",
            "26c1a1f0d851350100faadac0a6a37348a1b5939153ed29c54c40f06a7af414b",
        ),
        (
            Algorithm::Sha512_256,
            "d7adcfbe01abdf451773ff74267bbff740b25c36c6de344ad6f4060d5974e75d",
            "21e0513aeac3c9db777ffac043eeb7f067079d1e5c7422a4164f1880d37f4b37",
        ),
    ];
    for (algorithm, first, digest) in cases {
        let ha1 = algorithm.hash(&[b"alice", REALM.as_bytes(), b"open sesame"]);
        assert_eq!(ha1.hex(), first.as_bytes());
        let parts = ["abcdef0123", "00000002", "0a4f113b", "auth"];
        assert_eq!(response(algorithm, &ha1, parts, ["REGISTER", "sip:example.com"]), digest);
    }
}

/// Each algorithm with a password, and with its hash from a database.
#[test]
fn passwords_and_their_hashes_are_accepted() {
    for algorithm in Algorithm::ALL {
        let mut server = server(AuthSettings {
            offer: Offer::new(vec![algorithm]).unwrap(),
            ..AuthSettings::new(REALM.as_bytes())
        });
        let ha1 = algorithm.hash(&[b"alice", REALM.as_bytes(), b"open sesame"]);
        let kept = SecretHash::from_hex(algorithm, &ha1.hex()).unwrap();
        let mut sent = challenged(&mut server, 0, home());
        for secret in [Secret::Clear((*b"open sesame").into()), Secret::Ha1(kept)] {
            let value = sent.value();
            let Examined::Claim(claim) = examine(&mut server, 1, &sent, &[&value]) else { panic!() };
            let verdict = server.settle(at(1).1, &claim, Some(&secret));
            assert!(matches!(verdict, CredentialVerdict::Genuine { .. }));
            sent.count += 1;
        }
        let value = Sent { count: 9, ..sent.clone() }.value();
        let Examined::Claim(claim) = examine(&mut server, 1, &sent, &[&value]) else { panic!() };
        let others = Algorithm::ALL.into_iter().find(|other| *other != algorithm).unwrap();
        let unusable = Secret::Ha1(others.hash(&[b"alice", REALM.as_bytes(), b"open sesame"]));
        assert_eq!(server.settle(at(1).1, &claim, Some(&unusable)), CredentialVerdict::Unusable);
        assert_eq!(
            server.settle(at(1).1, &claim, Some(&Secret::Clear((*b"").into()))),
            CredentialVerdict::Wrong
        );
        assert_eq!(server.settle(at(1).1, &claim, None), CredentialVerdict::Wrong);
    }
}

/// An empty password differs from an unknown user.
#[test]
fn an_empty_password_differs_from_an_unknown_user() {
    let mut server = usual();
    let sent = Sent { password: String::new(), ..challenged(&mut server, 0, home()) };
    let value = sent.value();
    let Examined::Claim(claim) = examine(&mut server, 1, &sent, &[&value]) else { panic!() };
    assert_eq!(server.settle(at(1).1, &claim, None), CredentialVerdict::Wrong);
    assert!(!format!("{:?}", Secret::Clear((*b"open sesame").into())).contains("sesame"));
}
