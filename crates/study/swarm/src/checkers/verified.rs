//! Verification of callers, over all sites that share out authentication (docs/chain.md).

use crate::call::{COPIES, CallName, call_of, is_initial_invite};
use crate::credentials::proof;
use crate::plan::{FilePlan, PoolPlan, SITES, user_number};
use crate::watch::ServerId;
use crate::{RunRule, Sent};
use base::Instant;
use core::time::Duration;
use distribute::{Function, Mark, Notice};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use wire::{Challenge, Message};

/// Shortest time for which a neighbour's notice counts.
const NOTICE_VALIDITY: Duration = Duration::from_secs(3);
/// The Via parameter that proves a mark.
const VOUCH: &[u8] = b"vouch";

/// Facts about the messages that a site's process has sent and received since it started.
#[derive(Default)]
struct Life {
    /// Nonces of its challenges.
    nonces: BTreeSet<Vec<u8>>,
    /// Requests whose callers the process may treat as verified, and the time since when. Either a neighbour vouches
    /// for the caller, or the request answers a challenge of the process.
    verified: BTreeMap<ServerId, Instant>,
    /// Requests whose callers a neighbour has to verify.
    left: BTreeSet<ServerId>,
    /// Number of the last new notice of each neighbour about its room for authentication, and when it came.
    notices: BTreeMap<SocketAddr, (Instant, u64)>,
}

/// The callers of a run.
#[derive(Default)]
pub(super) struct Verified {
    lives: BTreeMap<u16, Life>,
    /// Calls whose callers sent valid credentials to any site, whether accepted or not.
    proved: BTreeSet<CallName>,
    /// All nonces of all sites.
    nonces: BTreeSet<Vec<u8>>,
}

fn is_site(at: SocketAddr) -> bool {
    at.ip() == IpAddr::from(SITES)
}

/// Returns the mark of the topmost Via, and whether it proves that the caller is verified.
fn mark_of(message: &Message<'_>) -> (Mark, bool) {
    let value = |name: &[u8]| {
        let mut params = message.top_via().params(message.bytes());
        params.find(|param| param.name == name).and_then(|param| param.value)
    };
    let mark = value(Mark::PARAMETER.as_bytes()).and_then(Mark::parse).unwrap_or_default();
    (mark, mark.has(Function::Authentication) && value(VOUCH).is_some())
}

fn nonces_of(response: &Message<'_>) -> Vec<Vec<u8>> {
    let challenges = response.headers("Proxy-Authenticate").filter_map(|value| Challenge::parse(value).ok());
    challenges.map(|challenge| challenge.nonce.text().into_owned()).collect()
}

impl Verified {
    /// A site with this file got `bytes` from `from`, and sent `sent` at once, or after a store answered.
    pub(super) fn datagram(
        &mut self,
        (now, site): (Instant, u16),
        file: &FilePlan,
        (from, bytes): (SocketAddr, &[u8]),
        sent: &[Sent],
    ) -> Result<(), String> {
        let Ok(message) = wire::scan(bytes) else { return Ok(()) };
        if message.status().is_some() {
            self.heard((now, site), from, &message);
        } else if is_initial_invite(&message) {
            self.request_received((now, site), &message, from);
            let challenges = sent.iter().filter_map(|one| wire::scan(&one.bytes).ok());
            for challenge in challenges.filter(|response| response.status() == Some(407)) {
                let made = nonces_of(&challenge);
                // A retransmission gets again the challenge that a proxy behind this site made.
                if made.iter().any(|nonce| self.nonces.contains(nonce)) {
                    continue;
                }
                self.challenged((now, site), file, (&message, from))?;
                self.lives.entry(site).or_default().nonces.extend(made.clone());
                self.nonces.extend(made);
            }
        }
        Ok(())
    }

    /// A request came in.
    fn request_received(&mut self, (now, site): (Instant, u16), request: &Message<'_>, from: SocketAddr) {
        let life = self.lives.entry(site).or_default();
        let proof = proof(request);
        let is_own = proof.as_ref().is_some_and(|(_, nonce)| life.nonces.contains(nonce));
        let is_vouched = is_site(from) && mark_of(request).1;
        if let Some(id) = ServerId::of(request).filter(|_| is_own || is_vouched) {
            life.verified.entry(id).or_insert(now);
        }
        if proof.is_some_and(|(_, nonce)| self.nonces.contains(&nonce)) {
            self.proved.insert(call_of(request));
        }
    }

    /// Records a neighbour's notice about its room for authentication. An older number says nothing new.
    fn heard(&mut self, (now, site): (Instant, u16), from: SocketAddr, response: &Message<'_>) {
        let name = Function::Authentication.notice_parameter().as_bytes();
        let mut params = response.top_via().params(response.bytes());
        let notice = params.find(|param| param.name == name).and_then(|param| Notice::parse(param.value?));
        let Some(notice) = notice else { return };
        let notices = &mut self.lives.entry(site).or_default().notices;
        if notices.get(&from).is_none_or(|(_, number)| notice.sequence > *number) {
            notices.insert(from, (now, notice.sequence));
        }
    }

    /// Checks a challenge that this site made. A caller must not be challenged if an earlier proxy vouches for it, or
    /// if it has answered a challenge of this site. If every next hop has lately sent a notice about authentication,
    /// two more kinds of callers must not be challenged. These are callers that answered another live site, and callers
    /// that this site left to the next hops before.
    fn challenged(
        &self,
        (now, site): (Instant, u16),
        file: &FilePlan,
        (request, from): (&Message<'_>, SocketAddr),
    ) -> Result<(), String> {
        let Some(life) = self.lives.get(&site) else { return Ok(()) };
        let id = ServerId::of(request);
        let since = id.as_ref().and_then(|id| life.verified.get(id));
        let was_left = id.as_ref().is_some_and(|id| life.left.contains(id));
        let is_verified = since.is_some_and(|since| now < *since + COPIES);
        let of_others = |nonce: &Vec<u8>| self.lives.values().any(|life| life.nonces.contains(nonce));
        let is_answered =
            proof(request).is_some_and(|(_, nonce)| of_others(&nonce) && !life.nonces.contains(&nonce));
        let mut hops =
            file.pools_of(is_site(from), user_number(request)).flat_map(PoolPlan::addresses).peekable();
        let has_told =
            |hop: SocketAddr| life.notices.get(&hop).is_some_and(|(at, _)| now < *at + NOTICE_VALIDITY);
        let may_leave_it = hops.peek().is_some() && hops.all(has_told);
        if is_verified || (is_answered || was_left) && may_leave_it {
            let call = request.call_id().escape_ascii();
            return Err(RunRule::ChallengedAgain.broken(format_args!("call {call} at {site}")));
        }
        Ok(())
    }

    /// Checks the marks of forwarded requests: the next proxy learns whether the caller is verified, and no request of
    /// an unverified caller leaves the network.
    pub(super) fn sent(&mut self, site: u16, sent: &[Sent]) -> Result<(), String> {
        for one in sent {
            let Ok(request) = wire::scan(&one.bytes) else { continue };
            if !is_initial_invite(&request) {
                continue;
            }
            let life = self.lives.entry(site).or_default();
            let id = ServerId::of_sent(&request);
            let is_verified = id.as_ref().is_some_and(|id| life.verified.contains_key(id));
            life.left.extend(id.filter(|_| !is_verified));
            let (mark, says_so) = mark_of(&request);
            let broken = if !is_site(one.to) {
                let is_proved = self.proved.contains(&call_of(&request));
                let rule = if is_proved { RunRule::FalselyVerified } else { RunRule::Unverified };
                (!is_verified).then_some(rule)
            } else if says_so {
                (!is_verified).then_some(RunRule::FalselyVerified)
            } else {
                (is_verified || !mark.requires_authentication()).then_some(RunRule::VerificationUnclear)
            };
            if let Some(rule) = broken {
                let call = request.call_id().escape_ascii();
                return Err(rule.broken(format_args!("call {call} of {site} to {}: {mark}", one.to)));
            }
        }
        Ok(())
    }

    /// The process of a site ended. The next one accepts no answers to its challenges.
    pub(super) fn ended(&mut self, site: u16) {
        self.lives.remove(&site);
    }
}
