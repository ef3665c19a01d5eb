//! Server side of digest authentication: examine, settle, challenge.

use crate::claim::Form;
use crate::{
    Algorithm, AttemptResult, Bans, Claim, ClientLocation, NonceState, Nonces, Offer, Replays, Secret,
    UriRule,
};
use base::{Instant, UnixTime};
use std::net::IpAddr;
use wire::{AuthText, Challenge, Credentials};

/// Role of the authenticating element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A registrar, or another user agent server (RFC 3261 §22.2).
    Registrar,
    /// A proxy (RFC 3261 §22.3).
    Proxy,
}

impl Role {
    /// [22.1-1] Status of a challenge: a proxy MUST NOT use 401.
    pub fn status(self) -> u16 {
        match self {
            Self::Registrar => 401,
            Self::Proxy => 407,
        }
    }

    /// [22.2-1] [22.3-1] Header field of the challenges.
    pub fn challenge_header(self) -> &'static str {
        match self {
            Self::Registrar => "WWW-Authenticate",
            Self::Proxy => "Proxy-Authenticate",
        }
    }

    /// Header field of the credentials.
    pub fn credentials_header(self) -> &'static str {
        match self {
            Self::Registrar => "Authorization",
            Self::Proxy => "Proxy-Authorization",
        }
    }
}

/// Settings of authentication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthSettings {
    /// Realm of the users (RFC 3261 §22.1: globally unique, with a host or domain name in it).
    pub realm: Box<[u8]>,
    /// Algorithms to offer.
    pub offer: Offer,
    /// Accept responses without `qop`, as clients of RFC 2069 send them. Each such response costs a challenge, since
    /// without a count a replay cannot be detected.
    pub without_qop: bool,
    /// Rule for the `uri` of credentials.
    pub uri: UriRule,
    /// Opaque text of challenges, which clients send back; empty for none.
    pub opaque: Box<[u8]>,
}

impl AuthSettings {
    /// All algorithms for this realm, with `qop` required.
    pub fn new(realm: &[u8]) -> Self {
        let (offer, uri, opaque) = (Offer::default(), UriRule::default(), Box::default());
        Self { realm: realm.into(), offer, without_qop: false, uri, opaque }
    }
}

/// Data of a request that are known before its credentials are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuthRequest<'a> {
    /// Method as written.
    pub method: &'a [u8],
    /// The Request-URI.
    pub uri: &'a [u8],
    /// Location of the client.
    pub place: ClientLocation,
}

/// Result of examining a request.
#[derive(Debug)]
pub enum Examined {
    /// [22.1-3] [22.1-4] ACK and CANCEL are never challenged; they are accepted like their INVITE.
    Exempt,
    /// Look the user up, then call [`Authenticator::settle`], or [`Authenticator::withdraw`] if the look-up fails:
    /// exactly one of them, once.
    Claim(Claim),
    /// Send this response.
    Refused(AuthRefusal),
    /// The nonce is from another issuer that uses one of our keys, and only that issuer can check it. If the request
    /// cannot be passed to that issuer, answer [`AuthRefusal::Challenge`] with `stale`.
    OtherIssuer,
    /// This user has no attempt left at this location. If [`Authenticator::may_look_up_bindings`] allows it, look up the user's
    /// bindings. If one of them came from this location, call [`Authenticator::note_binding`] and examine again. Otherwise
    /// send this response.
    Limited(AuthRefusal, Box<[u8]>),
}

/// Response to a refused request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthRefusal {
    /// 401 or 407 with [`Authenticator::challenges`].
    Challenge {
        /// Whether the client may try again with the same password.
        stale: bool,
    },
    /// [22.1-5] 403, or no response: too many wrong answers from this source, or for this user.
    Banned,
    /// 503 with Retry-After: too many look-ups in progress for this source, or for this user.
    Busy,
}

/// Result of verifying a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CredentialVerdict {
    /// The request is from this user.
    Genuine {
        /// User name as written.
        user: Box<[u8]>,
        /// Realm of the name. The same name in another realm is another user.
        realm: Box<[u8]>,
    },
    /// The same count was used meanwhile: challenge with `stale`.
    Replayed,
    /// The user is unknown, or the password is wrong: challenge again, without `stale`.
    Wrong,
    /// The secret does not serve the algorithm that the client chose: challenge again. The settings are wrong, as they
    /// offer more than the secrets serve. This verdict counts as a wrong answer; otherwise the absence of a ban would
    /// reveal that the user exists.
    Unusable,
}

/// Credentials for our realm that are checked in a request; further ones are ignored.
const VALUES_MAX: usize = 8;

/// Authentication of requests for one realm, in one shard.
#[derive(Clone)]
pub struct Authenticator {
    settings: AuthSettings,
    nonces: Nonces,
    replays: Replays,
    bans: Bans,
    /// Result that other shards have not got so far.
    unshared: Option<AttemptResult>,
}

impl Authenticator {
    /// Makes an authenticator from its parts.
    pub fn new(settings: AuthSettings, nonces: Nonces, replays: Replays, bans: Bans) -> Self {
        Self { settings, nonces, replays, bans, unshared: None }
    }

    /// Settings of authentication.
    pub fn settings(&self) -> &AuthSettings {
        &self.settings
    }

    /// Changes the settings; nonces stay valid.
    pub fn configure(&mut self, settings: AuthSettings) {
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

    /// Checks the credentials of a request: `values` are the values of all fields of [`Role::credentials_header`].
    ///
    /// [22.3-3] Credentials for other realms belong to other servers, and unreadable credentials may: both are ignored.
    /// [22-1] [22.4-1] [2.6-1] Every scheme but Digest, such as Basic, is ignored, too.
    pub fn examine<'v>(
        &mut self,
        now: Instant,
        date: UnixTime,
        request: AuthRequest<'_>,
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
            let nonce = match self.nonces.check(date, request.place.address, credentials.nonce.raw()) {
                NonceState::Fresh(nonce) if is_ours && self.replays.may_use(nonce, form.count) => nonce,
                // Another opaque is from before a change of the settings: the password may be right.
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
        if of_another { Examined::OtherIssuer } else { Examined::Refused(AuthRefusal::Challenge { stale }) }
    }

    /// Verifies a claim. `None` is for an unknown user. It takes as long as any other claim and counts as a wrong
    /// password, so that neither the time nor a ban reveals names.
    pub fn settle(&mut self, date: UnixTime, claim: &Claim, secret: Option<&Secret>) -> CredentialVerdict {
        match claim.holds(secret) {
            None => {
                self.unshared = Some(self.bans.failed(claim.attempt));
                CredentialVerdict::Unusable
            }
            Some(false) => {
                self.unshared = Some(self.bans.failed(claim.attempt));
                CredentialVerdict::Wrong
            }
            Some(true) => {
                self.unshared = self.bans.succeeded(claim.attempt);
                if self.replays.record(date, self.nonces.lifetime(), claim.nonce, claim.count) {
                    CredentialVerdict::Genuine { user: claim.user.clone(), realm: claim.realm.clone() }
                } else {
                    CredentialVerdict::Replayed
                }
            }
        }
    }

    /// Takes the result of the last claim, which the other shards must [`apply_shared`](Self::apply_shared) once.
    pub fn take_result(&mut self) -> Option<AttemptResult> {
        self.unshared.take()
    }

    /// Takes a result from another shard of this process.
    pub fn apply_shared(&mut self, judgement: AttemptResult) {
        self.bans.apply_shared(judgement);
    }

    /// Whether the bindings of a user without attempts left may be looked up for this location now.
    pub fn may_look_up_bindings(&mut self, now: Instant, place: ClientLocation) -> bool {
        self.bans.may_look_up_bindings(now, place)
    }

    /// Notes that a live binding of the user came from this address.
    pub fn note_binding(&mut self, address: IpAddr, user: &[u8]) {
        self.bans.note_binding(address, user);
    }

    /// Ends a claim whose look-up failed, without counting it. Answer 500 or 503.
    pub fn withdraw(&mut self, claim: &Claim) {
        self.bans.withdrawn(claim.attempt);
    }

    /// [22.2-1] [22.3-1] [2.3-1] [2.3-2] Values of [`Role::challenge_header`], one field each and in this order: one
    /// for each algorithm, the most preferred first. All have the same nonce.
    pub fn challenges(&mut self, date: UnixTime, source: IpAddr, stale: bool) -> Vec<Vec<u8>> {
        let nonce = self.nonces.issue(date, source);
        let settings = &self.settings;
        let value = |algorithm: &Algorithm| {
            let challenge = Challenge {
                realm: AuthText::quote(&settings.realm),
                nonce: AuthText::quote(&nonce),
                opaque: (!settings.opaque.is_empty()).then(|| AuthText::quote(&settings.opaque)),
                algorithm: Some(AuthText::quote(algorithm.name().as_bytes())),
                // [22.4-6] [2.6-9] `qop` MUST always be sent.
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
