//! Who sends a request (RFC 3261 §22): challenges, claims and what they are worth.

use super::place::client;
use super::waiting::Pending;
use super::{Asked, AtHome, Home, Known, User};
use crate::examine::Facts;
use crate::reply::{Halt, Own};
use crate::validate::{Refused, refused};
use crate::{Shard, ShardEvent};
use ::route::Network;
use base::{Flow, Outbox};
use digest_auth::{Authenticator, Claim, Examined, Refusal, Request, Role, Secret, Verdict};
use location::{Answer, Aor, Authorization};
use std::net::SocketAddr;
use wire::{Host, Message, NameAddr};

const BANNED: Refused = refused(403, "Too Many Wrong Passwords");
const BUSY: Refused = Refused { retry_after: Some(1), ..refused(503, "Too Many Passwords At Once") };

/// The answer to a claim that is not looked at.
pub(super) fn limited(refusal: Refusal) -> Refused {
    if refusal == Refusal::Busy { BUSY } else { BANNED }
}

impl Shard {
    /// Asks a request for credentials, or a store about those that it has. It goes on where nobody has to authenticate.
    pub(super) fn authenticate(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        known: &mut Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<AtHome, Halt> {
        let (now, date) = (self.edge.now, self.date());
        let Some((home, authenticator)) = self.authenticator() else { return Ok(AtHome::GoesOn) };
        // [22.1-1] A registrar is a user agent server, whose challenge is 401.
        let role = if facts.is_for_registrar { Role::Registrar } else { Role::Proxy };
        let method = message.cseq().method_name.of(message.bytes());
        let (_, place) = client(flow, message, home);
        let request = Request { method, uri: facts.route.uri(message), place };
        let values = message.headers(role.credentials_header());
        match authenticator.examine(now, date, request, values) {
            Examined::Exempt => return Ok(AtHome::GoesOn),
            Examined::Claim(claim) => {
                let needs = claim.needs();
                let (name, realm) = (needs.user.into(), needs.realm.into());
                let asked = Asked::User { name, realm, algorithm: needs.algorithm };
                let known = Known { begins: Some(facts.begins.0), ..core::mem::take(known) };
                self.ask(flow, message, (asked, Pending::User(claim, role), known), out)?;
            }
            Examined::Refused(Refusal::Challenge { stale }) => {
                self.count(|counters| {
                    counters.log_ins.stale += u64::from(stale);
                    counters.log_ins.challenged += u64::from(!stale);
                });
                self.challenge(flow, message, (role, stale), out);
            }
            Examined::Limited(refusal, user) => {
                return self.ask_for_home((flow, message), facts, (refusal, user), known, out);
            }
            Examined::Refused(refusal) => return Err(limited(refusal).into()),
        }
        Ok(AtHome::Done)
    }

    /// What authenticates here, and the networks of trusted proxies.
    fn authenticator(&mut self) -> Option<(&[Network], &mut Authenticator)> {
        let Home { trusted, authenticator, .. } = &mut **self.home.as_mut()?;
        Some((trusted, authenticator.as_mut()?))
    }

    /// Counts a claim that was not looked at.
    pub(super) fn count_limited(&mut self, refusal: Refusal) {
        self.count(|counters| {
            counters.log_ins.busy += u64::from(refusal == Refusal::Busy);
            counters.log_ins.banned += u64::from(refusal == Refusal::Banned);
        });
    }

    /// 401 or 407. Where all challenges together are too long for a stranger, the last goes alone, which every client knows.
    fn challenge(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        (role, stale): (Role, bool),
        out: &mut Outbox<ShardEvent>,
    ) {
        let date = self.date();
        let Some((trusted, authenticator)) = self.authenticator() else { return };
        let (_, place) = client(flow, message, trusted);
        let values = authenticator.challenges(date, place.address, stale);
        let headers = values.into_iter().map(|value| (role.challenge_header(), value)).collect();
        let reason = match role {
            Role::Registrar => "Unauthorized",
            Role::Proxy => "Proxy Authentication Required",
        };
        let answer = Answer { status: role.status(), reason, headers };
        self.edge.answer(flow, message, Own::Challenge(&answer), out);
    }

    /// A user's secret is known, or that there is no such user.
    pub(super) fn settle(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        (claim, role, secret): (&Claim, Role, Option<&Secret>),
        known: Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        let date = self.date();
        // A reload has ended authentication meanwhile: the request is taken up as it would be now.
        let Some((trusted, authenticator)) = self.authenticator() else {
            return self.take_request(flow, message, known, out);
        };
        let (from, _) = client(flow, message, trusted);
        let verdict = authenticator.settle(date, claim, secret);
        if let Some(judgement) = authenticator.take_judgement() {
            out.event(ShardEvent::Judged(Box::new(judgement)));
        }
        let stale = match verdict {
            Verdict::Genuine { user, realm } => {
                self.count(|counters| counters.log_ins.accepted += 1);
                let user = Some(User { name: user, realm });
                return self.take_request(flow, message, Known { user, ..known }, out);
            }
            Verdict::Replayed => true,
            Verdict::Wrong | Verdict::Unusable => false,
        };
        if stale {
            self.count(|counters| counters.log_ins.stale += 1);
        } else {
            self.count(|counters| counters.log_ins.refused += 1);
            let wrong = WrongPassword::new(claim.needs().user, from);
            out.event(ShardEvent::WrongPassword(Box::new(wrong)));
        }
        // A repetition of these credentials is no other guess.
        let sent = out.transmits().len();
        self.challenge(flow, message, (role, stale), out);
        self.keep_answer(flow.peer, message, sent, out);
        Ok(())
    }

    /// Who calls as a user of ours has to be that user: whoever is called goes by From.
    pub(super) fn check_from(&self, message: &Message<'_>, known: &Known) -> Result<(), Refused> {
        let (Some(user), Some(home)) = (&known.user, &self.home) else { return Ok(()) };
        let settings = home.registrar.settings();
        let from = NameAddr::parse(message.from()).and_then(|from| Aor::of(from.uri));
        // Whoever is called does not look at the port; and an address or name of ours is as good as a domain.
        let is_own = |host: &[u8]| Host::parse(host).is_some_and(|host| self.edge.topology.is_our_host(host));
        let is_domain = |host: &[u8]| {
            settings.domains.iter().any(|domain| bare(domain) == bare(host)) || is_own(bare(host))
        };
        let ours = from.filter(|from| is_domain(from.host()));
        let is_right =
            ours.is_none_or(|from| user.authorization().covers(&from, settings.shared_realm.as_deref()));
        if is_right { Ok(()) } else { Err(refused(403, "From Of Another User")) }
    }
}

/// Somebody has given a wrong password, or the name of no user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongPassword {
    /// The user name that was given; of a long one the beginning.
    pub user: Box<str>,
    /// Who gave it; behind a trusted proxy the client, if the proxy says where it is.
    pub from: SocketAddr,
}

impl WrongPassword {
    fn new(user: &[u8], from: SocketAddr) -> Self {
        /// Most bytes of a name that are told.
        const LONGEST: usize = 64;
        Self { user: String::from_utf8_lossy(&user[..user.len().min(LONGEST)]).into(), from }
    }
}

/// A host without its port.
fn bare(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|&byte| byte == b':') {
        Some(colon) if !host.ends_with(b"]") => &host[..colon],
        _ => host,
    }
}

impl User {
    /// What the user may do.
    pub(super) fn authorization(&self) -> Authorization {
        Authorization::As { user: self.name.clone(), realm: self.realm.clone() }
    }
}
