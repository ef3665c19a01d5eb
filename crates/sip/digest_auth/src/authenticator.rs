//! The server's side of digest authentication: examine, settle, challenge.

use crate::claim::Form;
use crate::{Algorithm, Bans, Claim, Judgement, NonceState, Nonces, Offer, Place, Replays, Secret, UriRule};
use base::{Instant, UnixTime};
use std::net::IpAddr;
use wire::{AuthText, Challenge, Credentials};

/// Who asks for credentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A registrar, or another user agent server (RFC 3261 §22.2).
    Registrar,
    /// A proxy (RFC 3261 §22.3).
    Proxy,
}

impl Role {
    /// [22.1-1] The status of a challenge: a proxy MUST NOT use 401.
    pub fn status(self) -> u16 {
        match self {
            Self::Registrar => 401,
            Self::Proxy => 407,
        }
    }

    /// [22.2-1] [22.3-1] The header field that the challenges stand in.
    pub fn challenge_header(self) -> &'static str {
        match self {
            Self::Registrar => "WWW-Authenticate",
            Self::Proxy => "Proxy-Authenticate",
        }
    }

    /// The header field that credentials stand in.
    pub fn credentials_header(self) -> &'static str {
        match self {
            Self::Registrar => "Authorization",
            Self::Proxy => "Proxy-Authorization",
        }
    }
}

/// How requests are authenticated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Whose users they are (RFC 3261 §22.1: globally unique, with a host or domain name in it).
    pub realm: Box<[u8]>,
    /// What is offered.
    pub offer: Offer,
    /// Take responses without `qop`, as clients of RFC 2069 send them. Each such response costs a challenge, since
    /// only a count would tell a replay.
    pub without_qop: bool,
    /// What the `uri` of credentials has to be.
    pub uri: UriRule,
    /// Sent in challenges, and to be sent back; empty for none.
    pub opaque: Box<[u8]>,
}

impl Settings {
    /// All algorithms for this realm, `qop` needed.
    pub fn new(realm: &[u8]) -> Self {
        let (offer, uri, opaque) = (Offer::default(), UriRule::default(), Box::default());
        Self { realm: realm.into(), offer, without_qop: false, uri, opaque }
    }
}

/// What is known of a request before its credentials are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The method as it is written.
    pub method: &'a [u8],
    /// The Request-URI.
    pub uri: &'a [u8],
    /// Where the client is that sent it.
    pub place: Place,
}

/// What there is to do about a request.
#[derive(Debug)]
pub enum Examined {
    /// [22.1-3] [22.1-4] ACK and CANCEL are never challenged; they are taken as their INVITE was.
    Exempt,
    /// Look the user up, then [`Authenticator::settle`], or [`Authenticator::withdraw`] when that fails: one of them,
    /// once.
    Claim(Claim),
    /// Answer this.
    Refused(Refusal),
    /// They answer a nonce that another issuer made with one of our keys: that one can judge them. Whoever cannot
    /// leave the request to it answers [`Refusal::Challenge`] with `stale`.
    OfAnother,
    /// This user has no try left there: ask for the user's bindings, if [`Authenticator::may_ask`], and come back if
    /// one of them came from there ([`Authenticator::learn`]); else answer this.
    Limited(Refusal, Box<[u8]>),
}

/// What to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// 401 or 407 with [`Authenticator::challenges`].
    Challenge {
        /// The client may try again with the same password.
        stale: bool,
    },
    /// [22.1-5] 403, or nothing: too many wrong answers came from there, or about this user.
    Banned,
    /// 503 with Retry-After: too many look-ups are under way from there, or about this user.
    Busy,
}

/// What a claim is worth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The request is this user's.
    Genuine {
        /// The user name to the letter.
        user: Box<[u8]>,
        /// The realm that the name belongs to. The same name in another realm is another user.
        realm: Box<[u8]>,
    },
    /// Somebody used the same count meanwhile: challenge with `stale`.
    Replayed,
    /// No such user, or not the user's password: challenge again, without `stale`.
    Wrong,
    /// The secret at hand does not serve the algorithm that the client chose: challenge again. An error of the
    /// settings, which offer more than the secrets serve. Counts as wrong, else who is never banned would be known as
    /// a user.
    Unusable,
}

/// Credentials for one realm that are looked at in a request; more are passed over.
const VALUES_MAX: usize = 8;

/// Authenticates requests for one realm. One for each shard.
#[derive(Clone)]
pub struct Authenticator {
    settings: Settings,
    nonces: Nonces,
    replays: Replays,
    bans: Bans,
    /// What the other shards do not know yet.
    untold: Option<Judgement>,
}

impl Authenticator {
    /// From its parts.
    pub fn new(settings: Settings, nonces: Nonces, replays: Replays, bans: Bans) -> Self {
        Self { settings, nonces, replays, bans, untold: None }
    }

    /// How requests are authenticated.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Other settings; nonces stay good.
    pub fn configure(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The nonces, to change their keys.
    pub fn nonces_mut(&mut self) -> &mut Nonces {
        &mut self.nonces
    }

    /// The limits, to change them.
    pub fn bans_mut(&mut self) -> &mut Bans {
        &mut self.bans
    }

    /// Looks at the credentials of a request: `values` are those of all fields of [`Role::credentials_header`].
    ///
    /// [22.3-3] Those for other realms are another server's, and what cannot be read may be: both are passed over.
    /// [22-1] [22.4-1] [2.6-1] So is every scheme but Digest, Basic among them.
    pub fn examine<'v>(
        &mut self,
        now: Instant,
        date: UnixTime,
        request: Request<'_>,
        values: impl IntoIterator<Item = &'v [u8]>,
    ) -> Examined {
        if matches!(request.method, b"ACK" | b"CANCEL") {
            return Examined::Exempt;
        }
        let (mut stale, mut of_another) = (false, false);
        let own = values.into_iter().filter_map(|value| Credentials::parse(value).ok());
        let own = own.filter(|credentials| *credentials.realm.text() == *self.settings.realm);
        for credentials in own.take(VALUES_MAX) {
            let Some(form) =
                Form::of(&credentials, self.settings.offer.algorithms(), self.settings.without_qop)
            else {
                continue;
            };
            let opaque = credentials.opaque.as_ref().map(AuthText::text);
            let is_ours = opaque.is_none_or(|opaque| *opaque == *self.settings.opaque);
            if !self.settings.uri.allows(credentials.uri.raw(), request.uri) {
                continue;
            }
            let nonce = match self.nonces.judge(date, request.place.address, credentials.nonce.raw()) {
                NonceState::Fresh(nonce) if is_ours && self.replays.may_use(nonce, form.count) => nonce,
                // With another opaque it is from before a change of the settings: the password may be right.
                NonceState::Fresh(_) | NonceState::Stale => {
                    stale = true;
                    continue;
                }
                NonceState::Another => {
                    of_another = true;
                    continue;
                }
                NonceState::Unknown => continue,
            };
            return match self.bans.attempt(now, request.place, &form.user) {
                Ok(attempt) => Examined::Claim(form.claim(request.method, nonce, attempt)),
                Err(refusal) => Examined::Limited(refusal, form.user.into()),
            };
        }
        if of_another { Examined::OfAnother } else { Examined::Refused(Refusal::Challenge { stale }) }
    }

    /// Judges a claim. `None` is for a user whom nobody knows: it takes as long as any other and counts as a wrong
    /// password, so that neither the time nor a ban tells names.
    pub fn settle(&mut self, date: UnixTime, claim: &Claim, secret: Option<&Secret>) -> Verdict {
        match claim.holds(secret) {
            None => {
                self.untold = Some(self.bans.failed(claim.attempt));
                Verdict::Unusable
            }
            Some(false) => {
                self.untold = Some(self.bans.failed(claim.attempt));
                Verdict::Wrong
            }
            Some(true) => {
                self.untold = self.bans.succeeded(claim.attempt);
                if self.replays.record(date, self.nonces.lifetime(), claim.nonce, claim.count) {
                    Verdict::Genuine { user: claim.user.clone(), realm: claim.realm.clone() }
                } else {
                    Verdict::Replayed
                }
            }
        }
    }

    /// What the other shards have to [`hear`](Self::hear) of the claim that was settled last, once.
    pub fn take_judgement(&mut self) -> Option<Judgement> {
        self.untold.take()
    }

    /// Takes what another shard of this process has found out.
    pub fn hear(&mut self, judgement: Judgement) {
        self.bans.hear(judgement);
    }

    /// Whether the bindings of a user who has no try left may be looked up for this place now.
    pub fn may_ask(&mut self, now: Instant, place: Place) -> bool {
        self.bans.may_ask(now, place)
    }

    /// A live binding of the user came from this address: the user is known there.
    pub fn learn(&mut self, address: IpAddr, user: &[u8]) {
        self.bans.learn(address, user);
    }

    /// The look-up failed: nothing is known, and the try counts for nothing. Answer 500 or 503.
    pub fn withdraw(&mut self, claim: &Claim) {
        self.bans.withdrawn(claim.attempt);
    }

    /// [22.2-1] [22.3-1] [2.3-1] [2.3-2] The values of [`Role::challenge_header`], one field each and in this order:
    /// each with another algorithm, the most preferred first. All have one nonce.
    pub fn challenges(&mut self, date: UnixTime, source: IpAddr, stale: bool) -> Vec<Vec<u8>> {
        let nonce = self.nonces.issue(date, source);
        let settings = &self.settings;
        let value = |algorithm: &Algorithm| {
            let challenge = Challenge {
                realm: AuthText::quote(&settings.realm),
                nonce: AuthText::quote(&nonce),
                opaque: (!settings.opaque.is_empty()).then(|| AuthText::quote(&settings.opaque)),
                algorithm: Some(AuthText::quote(algorithm.name().as_bytes())),
                // [22.4-6] [2.6-9] MUST always be sent.
                qop: Some(AuthText::quote(b"auth")),
                stale,
            };
            let mut out = Vec::with_capacity(256);
            challenge.write(&mut out);
            out
        };
        settings.offer.algorithms().iter().map(value).collect()
    }
}
