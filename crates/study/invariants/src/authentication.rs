//! Digest authentication: properties of any header and any sequence of requests.

use base::{Instant, UnixTime};
use core::time::Duration;
use digest_auth::{
    Algorithm, AuthRefusal, AuthRequest, AuthSettings, Authenticator, BanSettings, Bans, CredentialVerdict,
    Examined, NonceKey, NonceScope, NonceSettings, Nonces, Replays, Secret,
};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use wire::{AuthText, Challenge, Credentials};

const REALM: &[u8] = b"example.com";
const USER: &[u8] = b"alice";
const PASSWORD: &[u8] = b"open sesame";
const URI: &[u8] = b"sip:example.com";

/// Reads `data` as a header value, then as steps of clients and attackers at one server.
pub fn headers(data: &[u8]) {
    round_trip(data);
    steps(data);
}

/// A parsed value is written so that it parses to the same value.
fn round_trip(data: &[u8]) {
    let mut out = Vec::new();
    if let Ok(credentials) = Credentials::parse(data) {
        credentials.write(&mut out);
        let again = Credentials::parse(&out).expect("a written header can be parsed again");
        assert_eq!(again.username.text(), unfolded(&credentials.username.text()));
        assert_eq!((again.userhash, again.qop.is_some()), (credentials.userhash, credentials.qop.is_some()));
    }
    out.clear();
    if let Ok(challenge) = Challenge::parse(data) {
        challenge.write(&mut out);
        let again = Challenge::parse(&out).expect("a written header can be parsed again");
        assert_eq!(again.realm.text(), unfolded(&challenge.realm.text()));
        assert_eq!(again.stale, challenge.stale);
    }
    assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
}

fn unfolded(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }).collect()
}

/// Runs the steps. Each takes three bytes: the action, the time before it, and the nonce count, source or part of the
/// text.
fn steps(data: &[u8]) {
    let key = NonceKey { id: 3, key: [5; 16] };
    let settings = NonceSettings { lifetime: Duration::from_mins(1), scope: NonceScope::Source };
    let nonces = Nonces::new(key.into(), 9, settings);
    let bans = Bans::new(BanSettings::default(), [3, 4]);
    let mut server = Authenticator::new(AuthSettings::new(REALM), nonces, Replays::new(4), bans);
    let mut secs = 1_700_000_000;
    // Issued nonces with their time and client.
    let mut given: Vec<(Vec<u8>, u64, IpAddr)> = Vec::new();
    let mut passed = BTreeSet::new();
    for step in data.chunks_exact(3).take(64) {
        secs += u64::from(step[1] >> 4);
        let (now, date) = (Instant::from_millis(secs * 1000), UnixTime::from_secs(secs));
        let source: IpAddr = Ipv4Addr::new(192, 0, 2, step[2] & 1).into();
        if step[0] % 4 == 0 || given.is_empty() {
            let challenges = server.challenges(date, source, false);
            let first = Challenge::parse(&challenges[0]).expect("our own challenge");
            given.push((first.nonce.raw().to_vec(), secs, source));
            continue;
        }
        let which = usize::from(step[0] >> 2) % given.len();
        let (nonce, since, at) = given[which].clone();
        let (count, is_genuine) = (u32::from(step[1] & 15) + 1, step[0] % 4 != 1);
        let value = answer(&nonce, count, if is_genuine { PASSWORD } else { data });
        let request = AuthRequest { method: b"REGISTER", uri: URI, place: source.into() };
        let values = [data, &value];
        match server.examine(now, date, request, values) {
            Examined::Claim(claim) => {
                let verdict = server.settle(date, &claim, Some(&Secret::Clear(PASSWORD.into())));
                if let CredentialVerdict::Genuine { user, realm } = verdict {
                    assert!(is_genuine && *user == *USER && *realm == *REALM, "without the password");
                    assert!(source == at && secs - since <= 60, "a nonce of another source or time");
                    assert!(passed.insert((which, count)), "a replay");
                }
            }
            Examined::Limited(AuthRefusal::Banned | AuthRefusal::Busy, _)
            | Examined::Refused(AuthRefusal::Challenge { .. })
            | Examined::OtherIssuer => {}
            Examined::Exempt | Examined::Limited(..) | Examined::Refused(_) => {
                panic!("a REGISTER is not exempt, and only a user has a limit")
            }
        }
    }
}

fn answer(nonce: &[u8], count: u32, password: &[u8]) -> Vec<u8> {
    let algorithm = Algorithm::Md5;
    let ha1 = algorithm.hash(&[USER, REALM, password]).hex();
    let ha2 = algorithm.hash(&[b"REGISTER", URI]).hex();
    let digits = format!("{count:08x}").into_bytes();
    let response = algorithm.hash(&[&ha1, nonce, &digits, b"c", b"auth", &ha2]).hex();
    let credentials = Credentials {
        username: AuthText::quote(USER),
        realm: AuthText::quote(REALM),
        nonce: AuthText::quote(nonce),
        uri: AuthText::quote(URI),
        response: AuthText::quote(&response),
        algorithm: None,
        cnonce: Some(AuthText::quote(b"c")),
        opaque: None,
        qop: Some(AuthText::quote(b"auth")),
        nc: Some(AuthText::quote(&digits)),
        userhash: false,
    };
    let mut out = Vec::new();
    credentials.write(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    const PIECES: [&str; 16] = [
        "Digest ",
        "realm=",
        "\"example.com\"",
        ", ",
        "username=\"alice\"",
        "nonce=\"x\\\"",
        "uri=\"sip:example.com\"",
        "response=\"00\"",
        "qop=auth",
        "nc=00000001",
        "algorithm=SHA-256",
        "stale=TRUE",
        "\\",
        "\"",
        "\r\n ",
        "=",
    ];

    proptest! {
        #[test]
        fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..200)) {
            super::headers(&data);
        }

        #[test]
        fn pieces_of_headers(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..30)) {
            super::headers(pieces.concat().as_bytes());
        }
    }

    #[test]
    fn seeds() {
        for (_, seed) in crate::seeds("digest") {
            super::headers(&seed);
        }
    }
}
