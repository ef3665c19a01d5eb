//! Authentication of requests (RFC 3261 §22): challenges and verification of credentials.

use super::place::client;
use super::services::{Registrar, keep_answer};
use super::waiting::Pending;
use crate::decide::destination::Destination;
use crate::decide::member::verifier;
use crate::outcome::event::{ShardEvent, WrongPassword};
use crate::outcome::failure::{FailureCause, WRONG_PASSWORD};
use crate::outcome::question::StoreQuery;
use crate::outcome::rejection::{OwnResponse, Refused, Rejection, refused};
use crate::read::arrival::{Arrival, Inbound};
use crate::read::progress::{Progress, Proof, Stage, User};
use crate::site::Site;
use crate::site::marks::{CredentialsFor, leaves_credentials, shares_state};
use crate::step::Step;

use digest_auth::{AuthRefusal, AuthRequest, Claim, CredentialVerdict, Examined, Role, Secret};
use location::{Aor, RegistrarResponse};
use wire::{Host, Message, NameAddr};

impl Registrar {
    /// Challenges a REGISTER, or asks a store about its credentials. The request proceeds if users need not
    /// authenticate.
    pub(crate) fn authenticate(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        progress: &mut Progress,
    ) -> Result<Stage, Rejection> {
        let examined = self.examine(step.site, arrival, Role::Registrar);
        self.act(step, arrival, Role::Registrar, examined, progress)
    }

    /// Authenticates a caller. If authentication is shared out, an earlier proxy may have done it already, or it may be
    /// left to a later proxy.
    pub(crate) fn authenticate_caller(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
        progress: &mut Progress,
    ) -> Result<Stage, Rejection> {
        let Arrival { flow, message, .. } = *arrival;
        if matches!(progress.proof, Proof::Here(_) | Proof::Behind) {
            return Ok(Stage::GoesOn);
        }
        let to = verifier(step, arrival, destination);
        // A proxy that does not share out authentication has its own users, whom a neighbour does not know.
        if matches!(progress.proof, Proof::Before)
            && leaves_credentials(step.site, message, flow.peer, to, CredentialsFor::Verified)
        {
            return Ok(Stage::GoesOn);
        }
        if let Some(user) = self.verified.user(step.site, arrival) {
            progress.proof = Proof::Here(user);
            return Ok(Stage::GoesOn);
        }
        let examined = self.examine(step.site, arrival, Role::Proxy);
        let credentials_for = match &examined {
            Examined::Exempt => return Ok(Stage::GoesOn),
            Examined::Claim(_) => CredentialsFor::Us,
            Examined::OtherIssuer => CredentialsFor::Another,
            Examined::Refused(AuthRefusal::Challenge { .. }) => CredentialsFor::FirstChallenger,
            Examined::Refused(_) | Examined::Limited(..) => {
                return self.act(step, arrival, Role::Proxy, examined, progress);
            }
        };
        if leaves_credentials(step.site, message, flow.peer, to, credentials_for) {
            progress.proof = Proof::Behind;
            return Ok(Stage::GoesOn);
        }
        self.act(step, arrival, Role::Proxy, examined, progress)
    }

    /// Examines the credentials of a request. Asks for none if users need not authenticate.
    fn examine(&mut self, site: &Site, arrival: &Arrival<'_>, role: Role) -> Examined {
        let Arrival { flow, message, .. } = *arrival;
        let (_, place) = client(flow, message, &self.trusted);
        let Some(authenticator) = &mut self.authenticator else { return Examined::Exempt };
        let method = message.cseq().method_name.of(message.bytes());
        let request = AuthRequest { method, uri: arrival.route.uri(message), place };
        authenticator.examine(site.now, site.date(), request, message.headers(role.credentials_header()))
    }

    fn act(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        role: Role,
        examined: Examined,
        progress: &mut Progress,
    ) -> Result<Stage, Rejection> {
        let stale = match examined {
            Examined::Exempt => return Ok(Stage::GoesOn),
            Examined::Claim(claim) => {
                let needs = claim.needs();
                let (name, realm) = (needs.user.into(), needs.realm.into());
                let asked = StoreQuery::User { name, realm, algorithm: needs.algorithm };
                self.ask(step, arrival.inbound(), asked, Pending::User(claim, role), progress)?;
                return Ok(Stage::Done);
            }
            Examined::Limited(refusal, user) => {
                let message = arrival.message;
                let name_addr = if role == Role::Registrar { message.to() } else { message.from() };
                return self.ask_for_home(step, arrival, refusal, user, name_addr, progress);
            }
            Examined::Refused(AuthRefusal::Challenge { stale }) => stale,
            Examined::OtherIssuer => true,
            Examined::Refused(refusal) => return Err(super::services::limited(refusal).into()),
        };
        self.counters.log_ins.stale += u64::from(stale);
        self.counters.log_ins.challenged += u64::from(!stale);
        self.challenge(step, arrival.inbound(), role, stale);
        progress.refuse();
        Ok(Stage::Done)
    }

    /// [22.1-1] Sends a 401 of a registrar or a 407 of a proxy. If all challenges together are too long for an
    /// unverified sender, only the last one is sent, which every client supports.
    fn challenge(
        &mut self,
        step: &mut Step<'_>,
        Inbound { flow, message }: Inbound<'_>,
        role: Role,
        stale: bool,
    ) {
        let (_, place) = client(flow, message, &self.trusted);
        let Some(authenticator) = &mut self.authenticator else { return };
        let values = authenticator.challenges(step.site.date(), place.address, stale);
        let headers = values.into_iter().map(|value| (role.challenge_header(), value)).collect();
        let reason = match role {
            Role::Registrar => "Unauthorized",
            Role::Proxy => "Proxy Authentication Required",
        };
        let answer = RegistrarResponse { status: role.status(), reason, headers };
        step.answer(flow, message, OwnResponse::Challenge(&answer));
    }

    /// Verifies credentials with the user's secret; `None`: there is no such user.
    pub(super) fn settle(
        &mut self,
        step: &mut Step<'_>,
        inbound: Inbound<'_>,
        claim: &Claim,
        role: Role,
        secret: Option<&Secret>,
        progress: &mut Progress,
    ) -> Stage {
        let Inbound { flow, message } = inbound;
        let (from, _) = client(flow, message, &self.trusted);
        // A reload has meanwhile switched off authentication, so the request proceeds without it.
        let Some(authenticator) = &mut self.authenticator else { return Stage::GoesOn };
        let verdict = authenticator.settle(step.site.date(), claim, secret);
        if let Some(judgement) = authenticator.take_result() {
            step.out.event(ShardEvent::Judgement(Box::new(judgement)));
        }
        let stale = match verdict {
            CredentialVerdict::Genuine { user, realm } => {
                self.counters.log_ins.accepted += 1;
                let user = User { name: user, realm };
                if shares_state(step.site) {
                    self.verified.note(step.site, inbound, &user);
                }
                progress.proof = Proof::Here(user);
                return Stage::GoesOn;
            }
            CredentialVerdict::Replayed => true,
            CredentialVerdict::Wrong | CredentialVerdict::Unusable => false,
        };
        if stale {
            self.counters.log_ins.stale += 1;
        } else {
            self.counters.log_ins.refused += 1;
            let wrong = WrongPassword::new(claim.needs().user, from);
            step.out.event(ShardEvent::WrongPassword(Box::new(wrong)));
        }
        // A retransmission with these credentials must not count as another guess.
        let sent = step.out.transmits().len();
        self.challenge(step, inbound, role, stale);
        if !stale {
            step.site.failed(FailureCause::Refused { status: role.status(), reason: WRONG_PASSWORD });
        }
        progress.refuse();
        keep_answer(step, flow.peer, message, sent);
        Stage::Done
    }

    /// If the From of a caller names a user of this registrar, checks that the caller is this user. Callees trust From.
    pub(crate) fn check_from(
        &self,
        site: &Site,
        message: &Message<'_>,
        progress: &Progress,
    ) -> Result<(), Refused> {
        let Some(user) = progress.user() else { return Ok(()) };
        let settings = self.decisions.settings();
        let from = NameAddr::parse(message.from()).and_then(|from| Aor::of(from.uri));
        // Callees ignore the port. An address or name of this proxy counts as a domain of the registrar.
        let is_own = |host: &[u8]| Host::parse(host).is_some_and(|host| site.topology.is_our_host(host));
        let is_domain = |host: &[u8]| {
            settings.domains.iter().any(|domain| bare(domain) == bare(host)) || is_own(bare(host))
        };
        let ours = from.filter(|from| is_domain(from.host()));
        let is_right =
            ours.is_none_or(|from| user.authorization().covers(&from, settings.shared_realm.as_deref()));
        if is_right { Ok(()) } else { Err(refused(403, "From Of Another User")) }
    }
}

/// Returns a host without its port.
fn bare(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|&byte| byte == b':') {
        Some(colon) if !host.ends_with(b"]") => &host[..colon],
        _ => host,
    }
}
