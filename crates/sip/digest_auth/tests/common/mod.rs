//! A client, and its server.

use base::{Instant, UnixTime};
use digest_auth::{
    Algorithm, AuthRefusal, AuthRequest, AuthSettings, Authenticator, BanSettings, Bans, Claim,
    CredentialVerdict, Examined, Needs, NonceKey, NonceScope, NonceSettings, Nonces, Replays, Secret,
};
use std::net::IpAddr;
use std::time::Duration;
use wire::{AuthText, Challenge, Credentials};

pub(crate) const REALM: &str = "example.com";
pub(crate) const KEY: NonceKey = NonceKey { id: 1, key: *b"0123456789abcdef" };
pub(crate) const NONCES: NonceSettings =
    NonceSettings { lifetime: Duration::from_mins(5), scope: NonceScope::Source };

pub(crate) fn at(secs: u64) -> (Instant, UnixTime) {
    (Instant::from_millis(secs * 1000), UnixTime::from_secs(1_700_000_000 + secs))
}

pub(crate) fn home() -> IpAddr {
    std::net::Ipv4Addr::new(192, 0, 2, 1).into()
}

pub(crate) fn server(settings: AuthSettings) -> Authenticator {
    let nonces = Nonces::new(KEY.into(), 7, NONCES);
    Authenticator::new(settings, nonces, Replays::new(100), Bans::new(BanSettings::default(), [1, 2]))
}

pub(crate) fn usual() -> Authenticator {
    server(AuthSettings::new(REALM.as_bytes()))
}

/// A request with its credentials as a client writes them; tests change the attacked parts.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) source: IpAddr,
    pub(crate) user: String,
    pub(crate) realm: String,
    pub(crate) password: String,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) nonce: String,
    pub(crate) count: u32,
    pub(crate) qop: Option<String>,
    /// The `uri` of the credentials.
    pub(crate) digest_uri: String,
}

impl Sent {
    /// A client's answer to the first of these challenges that it supports (RFC 8760 §2.4).
    pub(crate) fn answer(challenges: &[Vec<u8>], known: &[Algorithm]) -> Self {
        let read = challenges.iter().map(|value| Challenge::parse(value).expect("our own"));
        let named = |c: &Challenge<'_>| Algorithm::of(c.algorithm.as_ref().map(AuthText::raw));
        let chosen =
            read.into_iter().find(|c| named(c).is_some_and(|a| known.contains(&a))).expect("one is known");
        Self {
            method: "REGISTER".into(),
            uri: "sip:example.com".into(),
            source: home(),
            user: "alice".into(),
            realm: String::from_utf8(chosen.realm.text().into_owned()).expect("text"),
            password: "open sesame".into(),
            algorithm: named(&chosen),
            nonce: String::from_utf8(chosen.nonce.raw().into()).expect("text"),
            count: 1,
            qop: Some("auth".into()),
            digest_uri: "sip:example.com".into(),
        }
    }

    /// Digest (RFC 7616 §3.4.1), without the code under test but for the hash, which has its own test.
    pub(crate) fn response(&self) -> String {
        let algorithm = self.algorithm.unwrap_or(Algorithm::Md5);
        let hash = |text: String| String::from_utf8(algorithm.hash(&[text.as_bytes()]).hex()).expect("text");
        let ha1 = hash(format!("{}:{}:{}", self.user, self.realm, self.password));
        let ha2 = hash(format!("{}:{}", self.method, self.digest_uri));
        match &self.qop {
            Some(qop) => hash(format!("{ha1}:{}:{:08x}:0a4f113b:{qop}:{ha2}", self.nonce, self.count)),
            None => hash(format!("{ha1}:{}:{ha2}", self.nonce)),
        }
    }

    /// Header value.
    pub(crate) fn value(&self) -> Vec<u8> {
        let count = format!("{:08x}", self.count);
        let response = self.response();
        let credentials = Credentials {
            username: AuthText::quote(self.user.as_bytes()),
            realm: AuthText::quote(self.realm.as_bytes()),
            nonce: AuthText::quote(self.nonce.as_bytes()),
            uri: AuthText::quote(self.digest_uri.as_bytes()),
            response: AuthText::quote(response.as_bytes()),
            algorithm: self.algorithm.map(|a| AuthText::quote(a.name().as_bytes())),
            cnonce: self.qop.as_ref().map(|_| AuthText::quote(b"0a4f113b")),
            opaque: None,
            qop: self.qop.as_ref().map(|qop| AuthText::quote(qop.as_bytes())),
            nc: self.qop.as_ref().map(|_| AuthText::quote(count.as_bytes())),
            userhash: false,
        };
        let mut out = Vec::new();
        credentials.write(&mut out);
        out
    }
}

pub(crate) fn challenged(server: &mut Authenticator, secs: u64, source: IpAddr) -> Sent {
    let challenges = server.challenges(at(secs).1, source, false);
    Sent { source, ..Sent::answer(&challenges, &Algorithm::ALL) }
}

pub(crate) fn examine(server: &mut Authenticator, secs: u64, sent: &Sent, values: &[&[u8]]) -> Examined {
    let request =
        AuthRequest { method: sent.method.as_bytes(), uri: sent.uri.as_bytes(), place: sent.source.into() };
    let (now, date) = at(secs);
    server.examine(now, date, request, values.iter().copied())
}

/// Final result. Only Alice's password is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Refused(AuthRefusal),
    Judged(CredentialVerdict),
}

pub(crate) const STALE: End = End::Refused(AuthRefusal::Challenge { stale: true });
pub(crate) const REFUSED: End = End::Refused(AuthRefusal::Challenge { stale: false });
pub(crate) const BANNED: End = End::Refused(AuthRefusal::Banned);
pub(crate) const WRONG: End = End::Judged(CredentialVerdict::Wrong);

pub(crate) fn genuine() -> End {
    End::Judged(CredentialVerdict::Genuine { user: (*b"alice").into(), realm: REALM.as_bytes().into() })
}

pub(crate) fn secret_of(claim: &Claim) -> Option<Secret> {
    let Needs { user, realm, .. } = claim.needs();
    (user == b"alice" && realm == REALM.as_bytes()).then(|| Secret::Clear((*b"open sesame").into()))
}

pub(crate) fn receive_value(server: &mut Authenticator, secs: u64, sent: &Sent, value: &[u8]) -> End {
    match examine(server, secs, sent, &[value]) {
        Examined::Exempt => panic!("{} is not exempt", sent.method),
        Examined::Refused(refusal) | Examined::Limited(refusal, _) => End::Refused(refusal),
        Examined::OtherIssuer => End::Refused(AuthRefusal::Challenge { stale: true }),
        Examined::Claim(claim) => {
            let secret = secret_of(&claim);
            End::Judged(server.settle(at(secs).1, &claim, secret.as_ref()))
        }
    }
}

pub(crate) fn receive(server: &mut Authenticator, secs: u64, sent: &Sent) -> End {
    receive_value(server, secs, sent, &sent.value())
}
