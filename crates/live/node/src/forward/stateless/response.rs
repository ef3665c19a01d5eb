//! Responses: removes this proxy's Via and follows the next one (RFC 3261 §16.7, §16.11).

use super::memory::Stateless;
use super::searches::Search;
use crate::address::client_flow::ClientFlow;
use crate::address::target::Target;
use crate::outcome::counters::Drop;
use crate::outcome::event::ShardEvent;
use crate::outcome::failure::FailureCause;
use crate::outcome::pause::Pause;
use crate::site::Site;
use crate::site::edit::drop_identity;
use crate::site::marks::{hear_load, hear_notice, tell_notice};
use crate::site::record::{hand_over, is_unrecorded};
use crate::site::remote_targets::{Side, TargetRefresh, refreshes_target};
use crate::site::reply::note_response;
use crate::step::Step;
use crate::token::branch::{Branch, BranchKind, SEARCHED, Transaction, is_hop_branch};
use crate::token::owner::TokenOwner;
use crate::trace::failed::TriedResult;
use balance::{Direction, NodeId, Response, SessionState, Slot};
use base::{Flow, Operation};
use std::net::SocketAddr;
use wire::{Message, Method, response_target};

/// The path back of a response to a request without a transaction.
pub(super) struct WayBack<'a> {
    /// Content of this proxy's branch.
    pub(super) branch: Branch,
    transaction: Transaction<'a>,
    /// The flow by which the response leaves; `None` if no port fits.
    pub(super) way: Option<Flow>,
}

impl<'a> WayBack<'a> {
    /// Verifies that the topmost Via is this proxy's and has a valid branch. Finds the flow by the Via below it
    /// (§18.1.2, §18.2.2). For a branch of a pool, the sent-by is not checked: the branch is also valid in the Via of
    /// another balancer of the site.
    pub(super) fn find(site: &mut Site, message: &Message<'a>) -> Result<Self, Drop> {
        let Site { tokens, topology, ledger, .. } = site;
        let own = message.top_via();
        let branch = own.branch.ok_or(Drop::ForeignResponse)?;
        // An ACK has no response (§17.1.1.3).
        if is_hop_branch(branch) && (!topology.ports.wrote(own) || message.cseq().method == Method::Ack) {
            return Err(Drop::ForeignResponse);
        }
        let via = message.second_via().ok_or(Drop::NoWayBack)?;
        let to = response_target(&via).ok_or(Drop::NoTarget)?;
        ledger.charge(Operation::VerifyToken);
        let transaction = Transaction::new(message, &via, to);
        let branch = Branch::read(tokens, branch, &transaction).ok_or(Drop::ForeignResponse)?;
        let way = topology.ports.way_back_by(branch.ingress, &via, to);
        Ok(Self { branch, transaction, way })
    }

    /// Returns the response as the balancer needs it.
    pub(super) fn response(&self, site: &Site, message: &Message<'_>, direction: Direction) -> Response {
        let (tokens, cseq) = (&site.tokens, message.cseq());
        Response {
            key: tokens.call_key(message.call_id()),
            method: cseq.method,
            cseq: cseq.number,
            status: message.status().unwrap_or_default(),
            direction,
            branch: tokens.mark(&self.transaction, direction, self.branch.routing),
            tags: tokens.tags(message),
        }
    }
}

impl Stateless {
    pub(crate) fn response(&mut self, step: &mut Step<'_>, flow: Flow, message: &Message<'_>) {
        let sent = WayBack::find(step.site, message).and_then(|back| match back.branch.kind {
            BranchKind::Pool { node, direction } => {
                self.response_of_pool(step, flow, message, &back, node, direction)
            }
            BranchKind::Hop { target, by_initiator } => {
                let way = back.way.ok_or(Drop::NoTarget)?;
                response_of_hop(step, flow, message, way, target, by_initiator);
                Ok(())
            }
        });
        if let Err(drop) = sent {
            step.site.discard(drop);
        }
    }

    /// Handles a response from a member or to one.
    fn response_of_pool(
        &mut self,
        step: &mut Step<'_>,
        flow: Flow,
        message: &Message<'_>,
        back: &WayBack<'_>,
        node: NodeId,
        direction: Direction,
    ) -> Result<(), Drop> {
        let site = &mut *step.site;
        let to_pool = direction == Direction::ToPool;
        let slot = if to_pool { site.topology.slot(node) } else { None };
        if let Some(slot) = slot {
            // The response shows that the node is alive, even if no receiver is left for it.
            step.balancer.answered(site.now, slot);
            step.balancer.count_response(slot, message.status().unwrap_or_default());
        }
        let response = back.response(site, message, direction);
        if response.method == Method::Cancel && was_searched(message) {
            self.searched(&response, node)?;
        }
        report_missing_record_route(step, flow.peer, message, &response);
        self.note(step, node, &response);
        if let Some(slot) = slot {
            pause(step, message, slot);
        }
        hear_load(step.site, message, flow, step.out);
        note_response(step.site, message);
        let way = back.way.ok_or(Drop::NoTarget)?;
        failed_there(step.site, flow, message, way);
        step.site.edits.clear();
        step.site.edits.pop_via(message);
        if !to_pool {
            drop_identity(step.site, message, flow);
            give_token_to_initiator(step, flow, message);
        }
        step.site.send_edited(message, way, step.out);
        step.site.counters.responses_forwarded += 1;
        Ok(())
    }

    /// Handles a response to a CANCEL that went to every node. Nodes that do not know the INVITE answer 481. Only the
    /// last 481 goes back.
    fn searched(&mut self, response: &Response, node: NodeId) -> Result<(), Drop> {
        let search = Search { call: response.key, cseq: response.cseq, branch: response.branch };
        match response.status {
            300.. if !self.searches.missed(search, node) => return Err(Drop::SearchMiss),
            200..300 => self.searches.found(search),
            _ => {}
        }
        Ok(())
    }

    /// Reports a response to the balancer, which counts it.
    pub(super) fn note(&mut self, step: &mut Step<'_>, node: NodeId, response: &Response) {
        step.site.ledger.charge(Operation::Lookup);
        step.balancer.response(step.site.now, response);
        self.unacknowledged.note(step, node, response);
    }
}

/// Stops new calls to a node for as long as its response asks.
fn pause(step: &mut Step<'_>, response: &Message<'_>, slot: Slot) {
    if let Some(rest) = Pause::asked_by(response) {
        let now = step.site.now;
        step.balancer.pause(now, slot, now + rest.length, rest.asked);
    }
}

/// Handles a response to a request that went to a next hop, or to the `target` of a dialog (§16.7 steps 3, 8 and 9).
fn response_of_hop(
    step: &mut Step<'_>,
    flow: Flow,
    message: &Message<'_>,
    way: Flow,
    target: u32,
    by_initiator: bool,
) {
    let site = &mut *step.site;
    hear_notice(site, message, flow.peer);
    hear_load(site, message, flow, step.out);
    if let Some(slot) = site.topology.slot_of(flow) {
        step.balancer.answered(site.now, slot);
        step.balancer.count_response(slot, message.status().unwrap_or_default());
        pause(step, message, slot);
    }
    let site = &mut *step.site;
    note_response(site, message);
    failed_there(site, flow, message, way);
    site.edits.clear();
    site.edits.pop_via(message);
    drop_identity(site, message, flow);
    tell_notice(site, message, way.peer);
    let led = hand_over(site, message, flow, TokenOwner::Proxy);
    if let Some(Target::Name(name)) =
        led.or(receiver_moved(site, flow, message, target, Side::of(by_initiator)))
    {
        // The ACK to this response goes to this name, and is not retransmitted.
        site.names.prepare(site.now, name, step.out);
    }
    site.send_edited(message, way, step.out);
    site.relayed.responses += 1;
}

/// Records a failure response from `source` as the failure of its request.
fn failed_there(site: &mut Site, source: Flow, response: &Message<'_>, back: Flow) {
    if let Some(status) = response.status().filter(|status| *status >= 400) {
        let (cause, result) = (FailureCause::Answered { status }, TriedResult::Answered(status));
        site.failed_there(response, cause, source, result, back);
    }
}

/// Records the new target of the receiver of a request within a dialog, if it differs from `before` (§12.2.1.2). `by`
/// sent the request.
fn receiver_moved<'a>(
    site: &mut Site,
    source: Flow,
    response: &Message<'a>,
    before: u32,
    by: Side,
) -> Option<Target<'a>> {
    let accepted = response.status().is_some_and(|status| (200..300).contains(&status));
    if before == 0 || !accepted || !refreshes_target(response.cseq().method) {
        return None;
    }
    let target = response.contact().map(Target::of)?;
    if site.tokens.is_target(&target, before) {
        return None;
    }
    let (heard, flow) = (target.is_at(source.peer), ClientFlow::seen(source, &site.topology));
    let refreshed = TargetRefresh::new(&site.tokens, response, by.other(), by, &target);
    site.targets.note(refreshed.seen(heard, flow));
    Some(target)
}

/// Reports once that a node begins dialogs without this proxy's Record-Route.
fn report_missing_record_route(
    step: &mut Step<'_>,
    source: SocketAddr,
    message: &Message<'_>,
    response: &Response,
) {
    if step.site.has_reported_unrecorded || response.direction != Direction::ToPool || !is_unrecorded(message)
    {
        return;
    }
    let session_key = response.key.with_initiator(response.tags.from);
    // An INVITE within a dialog has no Record-Route to be copied.
    if step.balancer.session(session_key).is_some_and(|session| session.state == SessionState::Invited) {
        step.site.has_reported_unrecorded = true;
        step.out.event(ShardEvent::NoRecordRoute(source));
    }
}

/// Gives the token that leads to the other side to the node that began a dialog. The node needs this token after it has
/// left the pool. The name of the other side is looked up now, since an ACK is not retransmitted.
fn give_token_to_initiator(step: &mut Step<'_>, source: Flow, message: &Message<'_>) {
    let site = &mut *step.site;
    if let Some(Target::Name(name)) = hand_over(site, message, source, TokenOwner::Pool) {
        site.names.prepare(site.now, name, step.out);
    }
}

/// Returns whether this proxy's Via says that its request went to every node. A node copies the Via unchanged (RFC 3261
/// §8.2.6.2).
pub(super) fn was_searched(message: &Message<'_>) -> bool {
    let via = message.top_via().value.of(message.bytes());
    via.windows(SEARCHED.len()).any(|part| part.eq_ignore_ascii_case(SEARCHED))
}
