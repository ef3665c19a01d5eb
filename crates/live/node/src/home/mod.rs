//! The home domain: its registrar (RFC 3261 §10.3), the location of its users (§16.5), and their authentication (§22).
//!
//! Nothing here waits. A request that needs an answer from a store is kept, its [`Question`] leaves as an event, and the
//! request is taken up again from the beginning with what the answer says ([`Known`]).

mod authenticate;
mod locate;
mod place;
mod register;
mod repeats;
mod report;
mod waiting;

use crate::allowance::Sender;
use crate::begun::Begins;
use crate::examine::Facts;
use crate::queue::Waited;
use crate::reply::{Halt, Own};
use crate::route::RouteInfo;
use crate::validate::{Refused, refused, refused_until};
use crate::{Drop, Shard, ShardEvent};
use ::route::{Forward, Network};
pub use authenticate::WrongPassword;
use balance::PoolId;
use base::{Flow, Instant, Outbox, UnixTime};
use digest_auth::{
    Algorithm, Authenticator, BanSettings, Bans, NonceKeys, NonceSettings, Nonces, Replays, Secret,
};
use location::{Binding, Reach, Registrar, Reply, targets};
use repeats::Repeats;
pub use report::{HomeCounters, HomeReport, LogIns, LookUps};
use std::net::SocketAddr;
use transaction::Keys;
pub(crate) use waiting::Waiting;
use waiting::{Pending, Waiter};
use wire::{Message, Method};

/// What the home domain goes by.
#[derive(Clone, PartialEq, Debug)]
pub struct HomeSettings {
    /// The domains, and what their registrar allows.
    pub registrar: location::Settings,
    /// How users prove who they are; `None`: they do not, and everybody may register as anybody.
    pub authentication: Option<AuthenticationSettings>,
    /// How requests to users go on: without a transaction only to the contact that is preferred, since nobody would choose among
    /// the answers of several.
    pub forward: Forward,
    /// Networks of proxies in front of clients: they say where a request came from, and who the caller is.
    pub trusted: Box<[Network]>,
}

/// How users prove who they are.
#[derive(Clone, PartialEq, Debug)]
pub struct AuthenticationSettings {
    /// Realm and algorithms.
    pub digest: digest_auth::Settings,
    /// How long nonces live, and where.
    pub nonces: NonceSettings,
    /// Limits to guessing, over all shards.
    pub bans: BanSettings,
}

/// A question to a store, to be answered with [`ShardInput::Answer`](crate::ShardInput::Answer) and its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its number at this shard.
    pub number: u64,
    /// What is asked.
    pub about: Asked,
}

/// What a store is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// About bindings.
    Location(location::Ask),
    /// The secret of a user.
    User {
        /// The name to the letter.
        name: Box<[u8]>,
        /// The realm that it belongs to.
        realm: Box<[u8]>,
        /// What a hashed password has to be made with.
        algorithm: Algorithm,
    },
}

/// What a store answers.
#[derive(Clone, Debug)]
pub enum StoreAnswer {
    /// About bindings, and the date by the clock that all who share the store go by.
    Location(Reply, UnixTime),
    /// The secret of a user, `None` if there is no such user; or nobody can say.
    User(Result<Option<Secret>, UsersUnavailable>),
}

/// The users cannot be asked for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsersUnavailable;

/// What stores have said about a request.
#[derive(Default)]
pub(crate) struct Known {
    /// What it begins, for which its source has been charged.
    begins: Option<Begins>,
    /// Who has proved to send it.
    user: Option<User>,
    /// The bindings of the user whose name it gives have been looked up.
    has_looked_up: bool,
    /// Where its Request-URI leads.
    bindings: Option<Vec<Binding>>,
    /// It has waited in the queue of a pool.
    pub(crate) waited: Option<(PoolId, Waited)>,
    /// Its sender has got 100.
    pub(crate) is_told: bool,
}

impl Known {
    /// What it begins, if its source has been charged for that.
    pub(crate) fn begins(&self) -> Option<Begins> {
        self.begins
    }

    /// Who sends it, as far as that is proved.
    pub(crate) fn sender(&self) -> Sender {
        if self.user.is_some() { Sender::Genuine } else { Sender::Unproved }
    }

    pub(crate) fn admit(&mut self, begins: Begins) {
        self.begins = Some(begins);
    }
}

/// A user who has proved to know the password.
struct User {
    name: Box<[u8]>,
    realm: Box<[u8]>,
}

/// What the home domain has done about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtHome {
    /// Nothing more: it goes on as any other.
    GoesOn,
    /// It waits, is answered, or is forwarded.
    Done,
}

/// The services of a home domain, of one shard.
pub(crate) struct Home {
    registrar: Registrar,
    authenticator: Option<Authenticator>,
    keys: Keys,
    waiting: Waiting,
    repeats: Repeats,
    /// How requests to users go on.
    forward: Forward,
    trusted: Box<[Network]>,
    counters: HomeCounters,
}

/// Nonces of a shard whose use is remembered: a client uses one for all its requests of five minutes.
const NONCES_MAX: usize = 65_536;

const TOO_MANY: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Requests Wait") };
const USERS_SILENT: Refused = Refused { retry_after: Some(10), ..refused(503, "Users Cannot Be Looked Up") };
const STORE_SILENT: Refused = Refused { retry_after: Some(10), ..refused(503, "Store Does Not Answer") };

impl Home {
    /// The services with these settings, for one of `shards`. What is `kept` of them before a change goes on: requests that
    /// wait, answers, nonces and bans.
    fn set_up(
        kept: Option<Self>,
        settings: &HomeSettings,
        (nonce_keys, random, shared): (NonceKeys, [u8; 16], [u64; 2]),
        (now, shards): (Instant, usize),
    ) -> Self {
        let mut kept = kept;
        let authenticator = settings.authentication.as_ref().map(|wanted| {
            let bans = wanted.bans.share(shards);
            if let Some(mut authenticator) = kept.as_mut().and_then(|home| home.authenticator.take()) {
                authenticator.configure(wanted.digest.clone());
                authenticator.nonces_mut().configure(nonce_keys, wanted.nonces);
                authenticator.bans_mut().configure(bans);
                return authenticator;
            }
            let word = |at| u64::from_le_bytes(core::array::from_fn(|byte| random[at + byte]));
            // Another issuer each time: whoever begins anew does not know which counts were used.
            let issuer = (word(0) as u32).wrapping_add((now.as_nanos() / 1_000_000) as u32);
            let nonces = Nonces::new(nonce_keys, issuer, wanted.nonces);
            // The same at all shards, which tell each other what they have found out.
            let bans = Bans::new(bans, shared);
            Authenticator::new(wanted.digest.clone(), nonces, Replays::new(NONCES_MAX), bans)
        });
        let anew = || (Waiting::new(now), Repeats::default(), HomeCounters::default());
        let (waiting, repeats, counters) =
            kept.map_or_else(anew, |home| (home.waiting, home.repeats, home.counters));
        Self {
            registrar: Registrar::new(settings.registrar.clone()),
            authenticator,
            keys: Keys::new(random),
            waiting,
            repeats,
            forward: settings.forward,
            trusted: settings.trusted.clone(),
            counters,
        }
    }

    pub(crate) fn report(&self) -> HomeReport {
        HomeReport { counters: self.counters.clone(), waiting: self.waiting.requests().len() }
    }

    /// Whether calls go to where a REGISTER came from.
    pub(crate) fn reaches_sources(&self) -> bool {
        self.registrar.settings().reach == Reach::Source
    }

    /// Whether a REGISTER is for the registrar: its Route and Request-URI lead here (RFC 3261 §10.2, §10.3 step 1).
    pub(crate) fn serves(&self, message: &Message<'_>, route: &RouteInfo<'_>) -> bool {
        message.method() == Some(Method::Register)
            && route.next.is_none()
            && self.registrar.serves(route.uri(message))
    }

    /// The realm whose credentials end here.
    pub(crate) fn realm(&self) -> Option<&[u8]> {
        self.authenticator.as_ref().map(|authenticator| &*authenticator.settings().realm)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting.deadline()
    }

    /// The requests that wait.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// What was asked about a request is not used.
    fn withdraw(&mut self, pending: &Pending) {
        if let (Pending::User(claim, _), Some(authenticator)) = (pending, &mut self.authenticator) {
            authenticator.withdraw(claim);
        }
    }
}

impl Shard {
    /// Takes over the services of the home domain, or that there are none; of so many shards.
    pub(crate) fn set_home(&mut self, settings: Option<&HomeSettings>, shards: usize) {
        let tokens = &self.edge.tokens;
        let secrets = (tokens.nonce_keys(), self.home_secret, tokens.call_hash().words());
        let kept = self.home.take().map(|home| *home);
        self.home =
            settings.map(|settings| Box::new(Home::set_up(kept, settings, secrets, (self.edge.now, shards))));
        self.edge.realm = self.home.as_ref().and_then(|home| home.realm()).map(Into::into);
        self.edge.trusted = settings.map(|settings| settings.trusted.clone()).unwrap_or_default();
        self.stateful.serve_home(self.home.is_some());
        self.remember_refusals();
    }

    /// How the home domain does, if there is one.
    pub fn home_report(&self) -> Option<HomeReport> {
        self.home.as_ref().map(|home| home.report())
    }

    fn count(&mut self, count: impl FnOnce(&mut HomeCounters)) {
        if let Some(home) = &mut self.home {
            count(&mut home.counters);
        }
    }

    /// The date by the clock of the tokens, for nonces.
    pub(crate) fn date(&self) -> UnixTime {
        let since = self.edge.now.saturating_since(Instant::ZERO);
        UnixTime::from_secs(self.edge.settings.epoch_unix) + since
    }

    /// What is a repetition of a request that waits, or that was answered here, goes no further; nor does the CANCEL of one
    /// that waits.
    pub(crate) fn is_repeated(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        out: &mut Outbox<ShardEvent>,
    ) -> bool {
        let Some(home) = &mut self.home else { return false };
        match message.method() {
            _ if message.fault().is_some() => false,
            Some(Method::Ack) => false,
            Some(Method::Cancel) => {
                let is_waiting = home.waiting.cancel(home.keys.cancelled(message).key);
                if is_waiting {
                    self.edge.answer(flow, message, Own::Cancelled, out);
                }
                is_waiting
            }
            _ => {
                let key = home.keys.request(message).key;
                let of = (key, message.bytes().len(), flow.peer);
                if let Some((flow, answer)) = home.repeats.get(self.edge.now, of) {
                    if let Some(answer) = answer {
                        out.send(flow, |buffer| buffer.extend_from_slice(answer));
                    }
                    return true;
                }
                home.waiting.has(key)
            }
        }
    }

    /// What the home domain has to do with a request, before it may go on.
    pub(crate) fn at_home(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        facts: &mut Facts<'_>,
        known: &mut Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<AtHome, Halt> {
        let is_located = facts.rule.is_some_and(|rule| self.edge.routes.is_located(rule));
        let is_new = message.to_tag().is_none() && facts.token.is_none();
        let method = facts.request.method;
        // [22.1-3] Neither is challenged. What belongs to a transaction or dialog of ours has been taken already.
        let is_about = matches!(method, Method::Ack | Method::Cancel);
        // A To tag that somebody made up would stand for a password.
        let from_member = self.member_at(flow.peer).is_some();
        let is_doubtful = self.edge.realm.is_some() && facts.token.is_none() && !from_member;
        let is_stateless = self.home.as_ref().is_some_and(|home| home.forward == Forward::Stateless);
        if is_about && is_located && is_stateless {
            // Nobody remembers where the INVITE went: the same question has the same answer.
            self.locate(flow, message, facts, known, out)?;
            return Ok(AtHome::Done);
        }
        if !is_new || is_about {
            return match method {
                Method::Ack if is_located => Err(Halt::Dropped(Drop::Orphan)),
                _ if is_located || (is_doubtful && !is_about) => {
                    Err(refused(481, "Call/Transaction Does Not Exist").into())
                }
                _ => Ok(AtHome::GoesOn),
            };
        }
        let asks = facts.rule.is_some_and(|rule| self.edge.routes.rule(rule).authenticate);
        let authenticates = facts.is_for_registrar || (asks && !from_member);
        if !(authenticates || is_located) {
            return Ok(AtHome::GoesOn);
        }
        if !facts.is_admitted {
            if let Some(end) = self.edge.settings.stopping {
                return Err(refused_until(end, self.edge.now).into());
            }
            self.charge(flow, facts)?;
            known.admit(facts.begins.0);
            facts.is_admitted = true;
        }
        if authenticates
            && known.user.is_none()
            && self.authenticate(flow, message, facts, known, out)? == AtHome::Done
        {
            return Ok(AtHome::Done);
        }
        if facts.is_for_registrar {
            self.register(flow, message, known, out)?;
        } else {
            self.check_from(message, known)?;
            if !is_located {
                return Ok(AtHome::GoesOn);
            }
            self.locate(flow, message, facts, known, out)?;
        }
        Ok(AtHome::Done)
    }

    /// Has a request wait for the answer to a question.
    fn ask(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        (about, pending, known): (Asked, Pending, Known),
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        let now = self.edge.now;
        let Some(home) = &mut self.home else { return Err(STORE_SILENT.into()) };
        if !home.waiting.has_room(message.bytes().len()) {
            return Err(self.unanswered(&pending, TOO_MANY));
        }
        let key = home.keys.request(message).key;
        let number = home.waiting.insert(now, (key, flow, message.bytes().into()), pending, known);
        out.event(ShardEvent::Ask(Box::new(Question { number, about })));
        Ok(())
    }

    /// Takes a store's answer to the question with this number ([`ShardEvent::Ask`]).
    pub(crate) fn answered(&mut self, number: u64, answer: StoreAnswer, out: &mut Outbox<ShardEvent>) {
        if let Some(waiter) = self.home.as_mut().and_then(|home| home.waiting.take(number)) {
            self.resume(waiter, Some(answer), out);
        }
    }

    /// Gives up what has waited too long.
    pub(crate) fn expire_waiting(&mut self, out: &mut Outbox<ShardEvent>) {
        let now = self.edge.now;
        while let Some(waiter) = self.home.as_mut().and_then(|home| home.waiting.expired(now)) {
            self.resume(waiter, None, out);
        }
    }

    /// A request waits no more: it has its answer, or none.
    fn resume(&mut self, waiter: Waiter, answer: Option<StoreAnswer>, out: &mut Outbox<ShardEvent>) {
        let Waiter { flow, bytes, pending, known, is_cancelled, .. } = waiter;
        let message = wire::scan(&bytes).expect("it was read when it came in");
        let sent = out.transmits().len();
        let outcome = match (pending, answer) {
            (pending, _) if is_cancelled => {
                self.withdraw(&pending);
                Err(refused(487, "Request Terminated").into())
            }
            (Pending::User(claim, role), Some(StoreAnswer::User(Ok(secret)))) => {
                self.settle(flow, &message, (&claim, role, secret.as_ref()), known, out)
            }
            (Pending::Register(registration), Some(StoreAnswer::Location(reply, date))) => {
                self.go_on_registering(flow, &message, (registration, reply, date), known, out)
            }
            (Pending::Location, Some(StoreAnswer::Location(Reply::Read(Ok(record)), date))) => {
                let bindings = record.map(|record| targets(&record, date)).unwrap_or_default();
                self.count(|counters| {
                    counters.look_ups.found += u64::from(!bindings.is_empty());
                    counters.look_ups.not_found += u64::from(bindings.is_empty());
                });
                self.take_request(flow, &message, Known { bindings: Some(bindings), ..known }, out)
            }
            (Pending::Place(user), Some(StoreAnswer::Location(Reply::Read(Ok(record)), date))) => {
                self.learn_home((flow, &message), (&user, record, date), known, out)
            }
            (pending @ Pending::User(..), _) => Err(self.unanswered(&pending, USERS_SILENT)),
            (pending, _) => Err(self.unanswered(&pending, STORE_SILENT)),
        };
        if let Err(halt) = outcome {
            self.edge.halt(flow, &message, halt, out);
            self.keep_answer(flow.peer, &message, sent, out);
        }
        self.edge.tell(flow, Some(&message), out);
    }

    /// Refuses a request whose question no store has answered.
    fn unanswered(&mut self, pending: &Pending, refused: Refused) -> Halt {
        self.withdraw(pending);
        self.count(|counters| match pending {
            Pending::User(..) | Pending::Place(_) => counters.log_ins.failed += 1,
            Pending::Register(_) => counters.registered(None, refused.status),
            Pending::Location => counters.look_ups.failed += 1,
        });
        refused.into()
    }

    fn withdraw(&mut self, pending: &Pending) {
        if let Some(home) = &mut self.home {
            home.withdraw(pending);
        }
    }

    /// Keeps the answer that was sent after so many other messages, for repetitions of its request from there.
    fn keep_answer(
        &mut self,
        from: SocketAddr,
        message: &Message<'_>,
        sent: usize,
        out: &Outbox<ShardEvent>,
    ) {
        if let (Some(home), Some(answer)) = (&mut self.home, out.transmits().get(sent)) {
            let key = home.keys.request(message).key;
            let length = message.bytes().len();
            home.repeats.keep(self.edge.now, (key, length, from), answer.flow, out.message(answer));
        }
    }
}
