//! Who sends a request (RFC 3261 §22): challenges, claims and what they are worth.

use super::waiting::Pending;
use super::{Asked, AtHome, Known, User};
use crate::examine::Facts;
use crate::reply::{Halt, Own};
use crate::validate::{Refused, refused};
use crate::{Shard, ShardEvent};
use base::{Flow, Outbox};
use digest::{Claim, Examined, Refusal, Request, Role, Secret, Verdict};
use location::{Answer, Aor, Authorization};
use std::net::SocketAddr;
use wire::{Message, NameAddr};

const BANNED: Refused = refused(403, "Too Many Wrong Passwords");
const BUSY: Refused = Refused { retry_after: Some(1), ..refused(503, "Too Many Passwords At Once") };

impl Shard {
    /// Asks a request for credentials, or a store about those that it has. It goes on where nobody has to authenticate.
    pub(super) fn authenticate(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<AtHome, Halt> {
        let (now, date) = (self.edge.now, self.date());
        let authenticator = self.home.as_mut().and_then(|home| home.authenticator.as_mut());
        let Some(authenticator) = authenticator else { return Ok(AtHome::GoesOn) };
        // [22.1-1] A registrar is a user agent server, whose challenge is 401.
        let role = if facts.is_for_registrar { Role::Registrar } else { Role::Proxy };
        let method = message.cseq().method_name.of(message.bytes());
        let request = Request { method, uri: facts.route.uri(message), source: flow.peer.ip() };
        let values = message.headers(role.credentials_header());
        match authenticator.examine(now, date, request, values) {
            Examined::Exempt => return Ok(AtHome::GoesOn),
            Examined::Claim(claim) => {
                let needs = claim.needs();
                let (name, realm) = (needs.user.into(), needs.realm.into());
                let asked = Asked::User { name, realm, algorithm: needs.algorithm };
                let known = Known { begins: Some(facts.begins.0), ..Known::default() };
                self.ask(flow, message, (asked, Pending::User(claim, role), known), out)?;
            }
            Examined::Refused(Refusal::Challenge { stale }) => {
                self.count(|counters| {
                    counters.log_ins.stale += u64::from(stale);
                    counters.log_ins.challenged += u64::from(!stale);
                });
                self.challenge(flow, message, (role, stale), out);
            }
            Examined::Refused(Refusal::Banned) => {
                self.count(|counters| counters.log_ins.banned += 1);
                return Err(BANNED.into());
            }
            Examined::Refused(Refusal::Busy) => {
                self.count(|counters| counters.log_ins.busy += 1);
                return Err(BUSY.into());
            }
        }
        Ok(AtHome::Done)
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
        let authenticator = self.home.as_mut().and_then(|home| home.authenticator.as_mut());
        let Some(authenticator) = authenticator else { return };
        let values = authenticator.challenges(date, flow.peer.ip(), stale);
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
        let authenticator = self.home.as_mut().and_then(|home| home.authenticator.as_mut());
        // A reload has ended authentication meanwhile: the request is taken up as it would be now.
        let Some(authenticator) = authenticator else { return self.take_request(flow, message, known, out) };
        let stale = match authenticator.settle(date, claim, secret) {
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
            let wrong = WrongPassword::new(claim.needs().user, flow.peer);
            out.event(ShardEvent::WrongPassword(Box::new(wrong)));
        }
        // A repetition of these credentials is no other guess.
        let sent = out.transmits().len();
        self.challenge(flow, message, (role, stale), out);
        self.keep_answer(message, sent, out);
        Ok(())
    }

    /// Who calls as a user of ours has to be that user: whoever is called goes by From.
    pub(super) fn check_from(&self, message: &Message<'_>, known: &Known) -> Result<(), Refused> {
        let (Some(user), Some(home)) = (&known.user, &self.home) else { return Ok(()) };
        let settings = home.registrar.settings();
        let from = NameAddr::parse(message.from()).and_then(|from| Aor::of(from.uri));
        // Whoever is called does not look at the port.
        let is_domain = |host: &[u8]| settings.domains.iter().any(|domain| bare(domain) == bare(host));
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
    /// Who gave it.
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
