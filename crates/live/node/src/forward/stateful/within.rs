//! Requests within dialogs that began with a transaction here (RFC 3261 §16.3 to §16.5). Each goes to the target that
//! the other party has named.

use super::dialogs::way;
use super::received::Received;
use super::targets::{Source, Targets, UriTarget};
use super::transactions::Stateful;
use crate::address::target::Target;
use crate::admission::{NEXT_HOP_OVERLOADED, class_in_dialog};
use crate::forward::contacts::anew;
use crate::forward::onward::{Onward, RecordRoute, Refresh, ViaBranch};
use crate::message::validate::check_extensions;
use crate::outcome::rejection::{Refused, Rejection, refused};
use crate::read::arrival::{Arrival, TokenProof};
use crate::site::Site;
use crate::site::remote_targets::{KnownTarget, refreshes_target};
use crate::step::Step;
use crate::token::branch::{BranchKind, Transaction};
use crate::token::dialog::{Kept, VerifiedToken};
use crate::token::owner::TokenOwner;
use ::dialog::Proof as TargetProof;
use balance::{Direction, PoolId, RequestFacts};
use base::{Flow, Peer};
use wire::Method;

/// How a request within a dialog is forwarded.
pub(crate) struct DialogHop {
    /// The token of the request.
    held: VerifiedToken,
    pub(crate) to: UriTarget,
    /// Whether the request goes to the target of its dialog. Only then does its response count for the dialog.
    proof: TargetProof,
    routing: u32,
    refresh: Refresh,
}

impl Stateful {
    /// Decides about a request with a valid token of a proxy (RFC 3261 §16.4 and §16.5). `None` if the request has no
    /// valid token. It is then handled like any other request, and may name only this proxy or a next hop.
    pub(crate) fn plan_within(
        &self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
    ) -> Result<Option<DialogHop>, Rejection> {
        let Some(held) = self.token_within(step.site, arrival)? else { return Ok(None) };
        let routing = step.site.routing(arrival.message, &arrival.route, Direction::ToPool, held.key)?;
        check_extensions(arrival.message)?;
        let to = self.way_within(step, arrival, &held)?;
        arrival.check_hop(to.hop)?;
        let refresh = refresh(step.site, arrival, &held);
        let proof = target_proof(step.site, arrival, &held);
        Ok(Some(DialogHop { held, to, proof, routing, refresh }))
    }

    pub(crate) fn forward_within(
        &mut self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        passage: DialogHop,
    ) -> Result<(), Rejection> {
        let Arrival { flow, message, call, .. } = *arrival;
        let DialogHop { held, proof, routing, refresh, .. } = passage;
        let hop = passage.to.hop;
        let keeps = held.token.kept != Kept::Nothing;
        if keeps {
            self.check_limit(step.site, message, true)?;
        }
        if !step.site.admission.overload.may_go(step.site.now, class_in_dialog(arrival.method), hop) {
            return Err(NEXT_HOP_OVERLOADED.into());
        }
        let ticket = step.site.admission.admit_proven(&held);
        let (mut tracked, mut noted) = (None, None);
        if keeps {
            if let Some(dialogs) = self.dialogs.as_mut().filter(|_| held.token.kept == Kept::Dialog) {
                tracked = dialogs.within(step.site, message, flow.peer, &held, proof)?;
            }
            noted = self.note_within(step, arrival, &passage);
        } else if let Some(sender) = refresh.sender {
            // No record keeps the sender's target until the response comes, so it is noted now.
            step.site.targets.note(sender);
        }
        // RFC 3261 §13.2.2.4: the ACK to a 2xx has no transaction, so no copy of it is kept.
        if !keeps || arrival.method == Method::Ack {
            let (target, by_initiator) = (refresh.receiver.unwrap_or_default(), refresh.by_initiator);
            let kind = BranchKind::Hop { target, by_initiator };
            let branch = ViaBranch::Stateless { kind, back: arrival.target };
            let onward = Onward::of(arrival, hop, RecordRoute::No);
            let onward = Onward { routing, branch, key: held.key, ..onward };
            if keeps {
                onward.send_uncharged(step.site, message, step.out, &ticket);
            } else {
                onward.send(step.site, message, step.out, &ticket);
            }
            ticket.pass();
            return Ok(());
        }
        let targets = Targets::new(Source::Uri(passage.to));
        let received = Received {
            routing,
            refresh,
            within: noted.map(Box::new),
            tracked,
            ..Received::new(step.site, call, flow, message, targets)
        };
        self.forward(step, message, arrival.key, received, ticket);
        Ok(())
    }

    /// Reports a request of a dialog to the balancer, if the balancer remembers this call or the calls of its next hop.
    fn note_within(
        &self,
        Step { site, balancer, .. }: &mut Step<'_>,
        arrival: &Arrival<'_>,
        passage: &DialogHop,
    ) -> Option<RequestFacts<'static>> {
        let held = &passage.held;
        let slot = site.topology.slot(held.token.node)?;
        if !self.counted.has(slot) && balancer.is_idle() {
            return None;
        }
        let message = arrival.message;
        let transaction = Transaction::new(message, message.top_via(), arrival.target);
        let direction = if held.by_initiator { Direction::ToPool } else { Direction::FromPool };
        let request = RequestFacts {
            key: arrival.call,
            call_id: &[],
            // Any pool: no member has to be chosen.
            pool: PoolId::default(),
            method: arrival.method,
            cseq: message.cseq().number,
            in_dialog: true,
            direction,
            pinned: Some(slot),
            by_token: true,
            started_by_peer: !held.by_initiator,
            branch: site.tokens.mark(&transaction, direction, passage.routing),
            tags: site.tokens.tags(message),
            has_priority: false,
        };
        // A call in the session table is counted until it ends, even if a reload has changed its pool.
        let is_noted = self.counted.has(slot) || balancer.session_of(&request).is_some();
        is_noted.then(|| {
            balancer.request(site.now, &request);
            request
        })
    }

    /// Returns the valid token of a proxy in a request. A request with an invalid token may name only this proxy or a
    /// next hop.
    fn token_within(&self, site: &Site, arrival: &Arrival<'_>) -> Result<Option<VerifiedToken>, Rejection> {
        let Arrival { message, ref route, .. } = *arrival;
        if let TokenProof::Proxy(held) = arrival.proof {
            return Ok(Some(held));
        }
        let has_token = route.owner == TokenOwner::Proxy && route.token.is_some();
        if has_token && message.to_tag().is_some() && !route.leads_to_us(&site.topology, message) {
            self.check_named(site, &route.target(message))?;
        }
        Ok(None)
    }

    /// Records that a BYE of a dialog with kept state was refused here with this status.
    pub(crate) fn refused_bye(&mut self, site: &mut Site, arrival: &Arrival<'_>, status: u16) {
        if arrival.method == Method::Bye
            && let TokenProof::Proxy(held) = &arrival.proof
            && held.token.kept == Kept::Dialog
            && let Some(dialogs) = &mut self.dialogs
        {
            dialogs.refused_bye(site, arrival.message, arrival.flow.peer, held, status);
        }
    }

    /// Returns the next hop of a request within a dialog (RFC 3261 §16.4 and §16.5): its remote target.
    fn way_within(
        &self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        held: &VerifiedToken,
    ) -> Result<UriTarget, Rejection> {
        let Arrival { flow, message, call, ref route, .. } = *arrival;
        let Step { site, out, .. } = step;
        if route.leads_to_us(&site.topology, message) {
            // If the Contact of the peer is an address or name of this proxy, the peer is behind the next hop of the
            // dialog.
            let hop = site.topology.slot(held.token.node).filter(|_| held.by_initiator);
            let hop = hop.ok_or(refused(404, "Not Found"))?;
            return Ok(UriTarget::new(site.topology.node(hop), true));
        }
        let target = route.target(message);
        let is_hop = matches!(target, Target::Address(at) if self.hop_at(site, at).is_some());
        // A client behind a NAT may use, in its own network, the address of a next hop.
        let led = (!is_hop || held.token.flow.is_some()).then(|| site.led(message, held, &target)).flatten();
        let led = led.or(is_hop.then_some(KnownTarget { heard: true, flow: None }));
        let led = led.ok_or(refused(403, "Target Is Not Of This Dialog"))?;
        let preferred = route.far_side.unwrap_or(flow.listener);
        let ports = &site.topology.ports;
        if let Some(by) = led.flow
            && let Some(hop) = by.way(ports, route.far_side.unwrap_or(u16::MAX))
        {
            return Ok(UriTarget {
                anew: anew(ports, hop, &target).map(Box::new),
                ..UriTarget::new(hop, true)
            });
        }
        let hop = site.names.next_hop(site.now, target, call, &site.topology, preferred, out)?;
        let is_wanted = led.heard || self.hop_at(site, hop.remote()).is_some();
        Ok(UriTarget::new(hop, is_wanted))
    }

    fn hop_at(&self, site: &Site, at: Peer) -> Option<Flow> {
        let slot = site.topology.slot_at(at).filter(|&slot| self.hops.has(slot))?;
        Some(site.topology.node(slot))
    }

    /// Checks that a request without a valid token names a next hop. It is then handled like any other request, since a
    /// To tag without a token proves no dialog.
    fn check_named(&self, site: &Site, target: &Target<'_>) -> Result<(), Refused> {
        // A request with an invented To tag and Route must not pass without a password.
        if site.realm.is_some() {
            return Err(refused(481, "Call/Transaction Does Not Exist"));
        }
        let is_hop = matches!(target, Target::Address(to) if self.hop_at(site, *to).is_some());
        is_hop.then_some(()).ok_or(refused(403, "Forbidden"))
    }
}

/// Returns the path of a request as a proof, if it goes to the target that the other party of its dialog has named.
/// Without this proof the responder need not belong to the dialog: a next hop accepts requests of any sender, and a
/// Route may lead further from there.
fn target_proof(site: &mut Site, arrival: &Arrival<'_>, held: &VerifiedToken) -> TargetProof {
    let Arrival { message, method, ref route, .. } = *arrival;
    let matters = matches!(method, Method::Bye | Method::Invite | Method::Update);
    if !matters || held.token.kept != Kept::Dialog || route.last.is_some() {
        return TargetProof::Tags;
    }
    let target = route.target(message);
    if site.led(message, held, &target).is_none() {
        return TargetProof::Tags;
    }
    TargetProof::Token(way(&site.tokens, route.behind(message), message.uri().unwrap_or_default()))
}

/// Returns the remote targets of the dialog that the response may change.
fn refresh(site: &Site, arrival: &Arrival<'_>, held: &VerifiedToken) -> Refresh {
    let Arrival { message, ref route, .. } = *arrival;
    let by_initiator = held.by_initiator;
    if !refreshes_target(arrival.method) {
        return Refresh::of(by_initiator);
    }
    let sender = site.targets.sender(&site.tokens, message, held, arrival.flow, &site.topology);
    let target = || site.tokens.target_hash(&route.target(message), held.key);
    let receiver = route.next.is_none().then(target);
    Refresh { sender, receiver, ..Refresh::of(by_initiator) }
}
