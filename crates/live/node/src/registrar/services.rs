//! The registrar of one shard, and the requests that wait for answers of stores.

use super::report::{RegistrarCounters, RegistrarReport};
use super::verified::Verified;
use super::waiting::{Pending, PendingRequest, Waiting};
use crate::message::route_header::RouteHeader;
use crate::outcome::event::ShardEvent;
use crate::outcome::question::{StoreQuery, StoreQuestion};
use crate::outcome::rejection::{Refused, Rejection, refused};
use crate::read::arrival::Inbound;
use crate::read::progress::{Progress, Waiter};
use crate::seen::RequestPrint;
use crate::site::Site;
use crate::step::Step;
use base::Instant;
use digest_auth::{AuthRefusal, Authenticator, BanSettings, Bans, NonceKeys, NonceSettings, Nonces, Replays};
use location::Reach;
use route::{Forward, Network};
use std::net::SocketAddr;
use transaction::TransactionKey;
use wire::{Message, Method};

/// Settings of the registrar.
#[derive(Clone, PartialEq, Debug)]
pub struct RegistrarSettings {
    /// Domains and limits of the registrar.
    pub registrar: location::RegistrationSettings,
    /// Digest authentication of users. `None`: anyone may register any address-of-record.
    pub authentication: Option<AuthenticationSettings>,
    /// How requests to users are forwarded. Without a transaction they go only to the preferred contact, since the
    /// proxy could not choose among several responses.
    pub forward: Forward,
    /// Networks of trusted proxies in front of clients. They state the source of a request and the identity of the
    /// caller.
    pub trusted: Box<[Network]>,
}

/// Digest authentication of users.
#[derive(Clone, PartialEq, Debug)]
pub struct AuthenticationSettings {
    /// Realm and algorithms.
    pub digest: digest_auth::AuthSettings,
    /// Lifetime and scope of nonces.
    pub nonces: NonceSettings,
    /// Limits to password guessing, for all shards together.
    pub bans: BanSettings,
}

pub(crate) struct RegistrarSecrets {
    /// Keys of nonces, which all proxies of the site share.
    pub(crate) nonce_keys: NonceKeys,
    /// A random value that only this shard of this process has.
    pub(crate) random: [u8; 16],
    /// Key of the hash for bans, which all shards share.
    pub(crate) ban_hash: [u64; 2],
}

/// The registrar of one shard, with the authentication of its users.
pub(crate) struct Registrar {
    pub(super) decisions: location::Registrar,
    pub(super) authenticator: Option<Authenticator>,
    waiting: Waiting,
    pub(super) verified: Verified,
    /// How requests to users are forwarded.
    forward: Forward,
    pub(super) trusted: Box<[Network]>,
    pub(super) counters: RegistrarCounters,
}

/// Number of nonces whose use a shard records. A client uses one nonce for all its requests within five minutes.
const NONCES_MAX: usize = 65_536;

const TOO_MANY: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Requests Wait") };
pub(super) const USERS_SILENT: Refused =
    Refused { retry_after: Some(10), ..refused(503, "Users Cannot Be Looked Up") };
pub(crate) const STORE_SILENT: Refused =
    Refused { retry_after: Some(10), ..refused(503, "Store Does Not Answer") };

impl Registrar {
    /// Creates the registrar with these settings for one of `shards` shards. `kept` is the registrar before the change;
    /// its waiting requests, nonces, bans and counts are kept.
    pub(crate) fn set_up(
        kept: Option<Self>,
        settings: &RegistrarSettings,
        secrets: RegistrarSecrets,
        now: Instant,
        shards: usize,
    ) -> Self {
        let (mut kept, RegistrarSecrets { nonce_keys, random, ban_hash }) = (kept, secrets);
        let authenticator = settings.authentication.as_ref().map(|wanted| {
            let bans = wanted.bans.share(shards);
            if let Some(mut authenticator) =
                kept.as_mut().and_then(|registrar| registrar.authenticator.take())
            {
                authenticator.configure(wanted.digest.clone());
                authenticator.nonces_mut().configure(nonce_keys, wanted.nonces);
                authenticator.bans_mut().configure(bans);
                return authenticator;
            }
            let word = |at| u64::from_le_bytes(core::array::from_fn(|byte| random[at + byte]));
            // Each process has a new issuer, since a new process does not know which nonce counts were used.
            let issuer = (word(0) as u32).wrapping_add((now.as_nanos() / 1_000_000) as u32);
            let nonces = Nonces::new(nonce_keys, issuer, wanted.nonces);
            // All shards have the same key, since they exchange their results.
            let bans = Bans::new(bans, ban_hash);
            Authenticator::new(wanted.digest.clone(), nonces, Replays::new(NONCES_MAX), bans)
        });
        let anew = || (Waiting::new(now), Verified::default(), RegistrarCounters::default());
        let (waiting, verified, counters) =
            kept.map_or_else(anew, |registrar| (registrar.waiting, registrar.verified, registrar.counters));
        Self {
            decisions: location::Registrar::new(settings.registrar.clone()),
            authenticator,
            waiting,
            verified,
            forward: settings.forward,
            trusted: settings.trusted.clone(),
            counters,
        }
    }

    pub(crate) fn report(&self) -> RegistrarReport {
        RegistrarReport { counters: self.counters.clone(), waiting: self.waiting.requests().len() }
    }

    /// Returns whether calls go to the source of a REGISTER.
    pub(crate) fn reaches_sources(&self) -> bool {
        self.decisions.settings().reach == Reach::Source
    }

    /// Returns whether a REGISTER is for the registrar, by its Route and Request-URI (RFC 3261 §10.2, §10.3 step 1).
    pub(crate) fn serves(&self, message: &Message<'_>, route: &RouteHeader<'_>) -> bool {
        message.method() == Some(Method::Register)
            && route.next.is_none()
            && self.decisions.serves(route.uri(message))
    }

    /// Returns the realm whose credentials are verified here.
    pub(crate) fn realm(&self) -> Option<&[u8]> {
        self.authenticator.as_ref().map(|authenticator| &*authenticator.settings().realm)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting.deadline()
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub(crate) fn forward(&self) -> Forward {
        self.forward
    }

    pub(super) fn withdraw(&mut self, pending: &Pending) {
        if let (Pending::User(claim, _), Some(authenticator)) = (pending, &mut self.authenticator) {
            authenticator.withdraw(claim);
        }
    }

    /// Refuses a request whose question no store has answered.
    pub(super) fn unanswered(&mut self, pending: &Pending, refused: Refused) -> Rejection {
        self.withdraw(pending);
        match pending {
            Pending::User(..) | Pending::Place(_) => self.counters.log_ins.failed += 1,
            Pending::Register(_) => self.counters.registered(None, refused.status),
            Pending::Location => self.counters.look_ups.failed += 1,
            Pending::Name(_) | Pending::Caller => {}
        }
        refused.into()
    }

    /// Lets a request wait for the answer to a question, with its progress.
    pub(super) fn ask(
        &mut self,
        step: &mut Step<'_>,
        Inbound { flow, message }: Inbound<'_>,
        about: StoreQuery,
        pending: Pending,
        progress: &mut Progress,
    ) -> Result<(), Rejection> {
        let number = self.wait(step, Inbound { flow, message }, pending, progress)?;
        step.out.event(ShardEvent::Ask(Box::new(StoreQuestion { number, about })));
        Ok(())
    }

    /// Lets a request wait, with its progress. Returns the number of the question.
    pub(super) fn wait(
        &mut self,
        step: &Step<'_>,
        Inbound { flow, message }: Inbound<'_>,
        pending: Pending,
        progress: &mut Progress,
    ) -> Result<u64, Rejection> {
        if !self.waiting.has_room(message.bytes().len()) {
            return Err(self.unanswered(&pending, TOO_MANY));
        }
        let key = step.site.seen.key(&step.site.tokens, message, None, flow.peer);
        let waiter = Waiter { flow, bytes: message.bytes().into(), progress: core::mem::take(progress) };
        Ok(self.waiting.insert(step.site.now, key, waiter, pending))
    }

    /// Returns the request that waits for the answer with this number, or the next one that has waited too long.
    pub(crate) fn take(&mut self, now: Instant, number: Option<u64>) -> Option<PendingRequest> {
        match number {
            Some(number) => self.waiting.take(number),
            None => self.waiting.expired(now),
        }
    }

    /// Marks the request of this transaction as cancelled. Returns `false` if it does not wait.
    pub(crate) fn cancel(&mut self, key: TransactionKey) -> bool {
        self.waiting.cancel(key)
    }

    /// Counts and returns the refusal of unchecked credentials.
    pub(super) fn limited(&mut self, refusal: AuthRefusal) -> Rejection {
        self.counters.log_ins.busy += u64::from(refusal == AuthRefusal::Busy);
        self.counters.log_ins.banned += u64::from(refusal == AuthRefusal::Banned);
        limited(refusal).into()
    }
}

const BANNED: Refused = refused(403, "Too Many Wrong Passwords");
const BUSY: Refused = Refused { retry_after: Some(1), ..refused(503, "Too Many Passwords At Once") };

pub(super) fn limited(refusal: AuthRefusal) -> Refused {
    if refusal == AuthRefusal::Busy { BUSY } else { BANNED }
}

/// Keeps the response for retransmissions of its request from this source. In the outbox the response follows `sent`
/// other messages.
pub(crate) fn keep_answer(step: &mut Step<'_>, from: SocketAddr, message: &Message<'_>, sent: usize) {
    let Site { seen, tokens, now, .. } = &mut *step.site;
    if let Some(answer) = step.out.transmits().get(sent) {
        let key = seen.key(tokens, message, None, from);
        let of = RequestPrint::new(key, message.bytes().len(), from);
        seen.answers.keep(*now, of, answer.flow, step.out.message(answer));
    }
}
