//! The way of a response: pop our Via, follow the next one (RFC 3261 §16.7, §16.11).

use super::memory::Stateless;
use super::searches::Search;
use crate::counters::Drop;
use crate::edge::Edge;
use crate::event::ShardEvent;
use crate::pause::Pause;
use crate::record::{hand_over, is_unrecorded};
use crate::step::Step;
use crate::target::Target;
use crate::token::branch::{BranchToken, SEARCHED, Transaction};
use crate::token::owner::TokenOwner;
use balance::{Direction, Response, SessionState};
use base::{Flow, Operation};
use std::net::SocketAddr;
use wire::{Message, Method, Via, response_target};

impl Stateless {
    /// A response comes back from a member, or goes to one.
    pub(crate) fn response(&mut self, step: &mut Step<'_>, flow: Flow, message: &Message<'_>) {
        let (token, branch, way) = match self.way_back(step, message) {
            Ok(found) => found,
            Err(drop) => return step.edge.discard(drop),
        };
        look_for_record(step, flow.peer, message, token);
        self.note(step, message, token, branch);
        step.edge.hear_load(message, flow, step.out);
        step.edge.note_response(message);
        let Some(way) = way else { return step.edge.discard(Drop::NoTarget) };
        step.edge.edits.clear();
        step.edge.edits.pop_via(message);
        if token.direction == Direction::FromPool {
            step.edge.drop_identity(message, flow);
            lead_initiator(step, flow, message);
        }
        step.edge.send_edited(message, way, step.out);
        step.edge.counters.responses_forwarded += 1;
    }

    /// Verifies our Via, and finds the mark of the client's branch and the way back.
    fn way_back(
        &mut self,
        step: &mut Step<'_>,
        message: &Message<'_>,
    ) -> Result<(BranchToken, u32, Option<Flow>), Drop> {
        let (token, transaction, via, to) = read(step, message)?;
        let Edge { tokens, topology, now, .. } = &mut *step.edge;
        if token.direction == Direction::ToPool
            && let Some(slot) = topology.slot(token.node)
        {
            // A sign of life, also where nobody is to hear of it.
            step.balancer.answered(*now, slot);
            step.balancer.count_response(slot, message.status().unwrap_or_default());
        }
        let mark = tokens.mark(&transaction, token.direction, token.routing);
        if message.cseq().method == Method::Cancel && was_searched(message) {
            let call = tokens.call_key(message.call_id());
            self.searched(message, token, Search { call, cseq: message.cseq().number, branch: mark })?;
        }
        let way = topology.ports.way_back_by(token.asked, &via, to);
        Ok((token, mark, way))
    }

    /// Every node was asked; those that do not know the INVITE say so (481). Nobody needs to hear that before the last one.
    fn searched(&mut self, message: &Message<'_>, token: BranchToken, search: Search) -> Result<(), Drop> {
        match message.status() {
            Some(300..) if !self.searches.missed(search, token.node) => return Err(Drop::SearchMiss),
            Some(200..300) => self.searches.found(search),
            _ => {}
        }
        Ok(())
    }

    /// Tells the balancer: this is what moves its counters.
    pub(super) fn note(
        &mut self,
        step: &mut Step<'_>,
        message: &Message<'_>,
        token: BranchToken,
        branch: u32,
    ) {
        let (Some(status), cseq) = (message.status(), message.cseq()) else { return };
        let Edge { tokens, ledger, now, topology, .. } = &mut *step.edge;
        ledger.charge(Operation::Lookup);
        let response = Response {
            key: tokens.call_key(message.call_id()),
            method: cseq.method,
            cseq: cseq.number,
            status,
            direction: token.direction,
            branch,
            tags: tokens.tags(message),
        };
        step.balancer.response(*now, &response);
        if let Some(rest) = Pause::asked_by(message)
            && token.direction == Direction::ToPool
            && let Some(slot) = topology.slot(token.node)
        {
            step.balancer.pause(*now, slot, *now + rest.length, rest.asked);
        }
        self.unacknowledged.note(step, token.node, &response);
    }
}

/// Verifies that our Via is on top, with a token that fits; with the Via of the client, and the address in that. The token
/// stands in for RFC 3261 §18.1.2's check of the sent-by, and also holds for the Via of another balancer of the site.
pub(super) fn read<'a>(
    step: &mut Step<'_>,
    message: &Message<'a>,
) -> Result<(BranchToken, Transaction<'a>, Via<'a>, SocketAddr), Drop> {
    let branch = message.top_via().branch.ok_or(Drop::ForeignResponse)?;
    let via = message.second_via().ok_or(Drop::NoWayBack)?;
    let to = response_target(&via).ok_or(Drop::NoTarget)?;
    let Edge { tokens, ledger, .. } = &mut *step.edge;
    ledger.charge(Operation::VerifyToken);
    let transaction = Transaction::new(message, &via, to);
    let token = tokens.read_branch(branch, &transaction).ok_or(Drop::ForeignResponse)?;
    Ok((token, transaction, via, to))
}

/// Tells once that a node begins dialogs without our Record-Route.
fn look_for_record(step: &mut Step<'_>, source: SocketAddr, message: &Message<'_>, token: BranchToken) {
    if step.edge.is_unrecorded_told || token.direction != Direction::ToPool || !is_unrecorded(message) {
        return;
    }
    let tokens = &step.edge.tokens;
    let begun = tokens.call_key(message.call_id()).begun_by(tokens.tags(message).from);
    // An INVITE within a dialog has none to be copied.
    if step.balancer.session(begun).is_some_and(|session| session.state == SessionState::Invited) {
        step.edge.is_unrecorded_told = true;
        step.out.event(ShardEvent::NoRecordRoute(source));
    }
}

/// The node that began a dialog gets the token which leads to the other side: it will need that when it is no member any
/// more. The name of the other side is asked for, since an ACK does not come again.
fn lead_initiator(step: &mut Step<'_>, source: Flow, message: &Message<'_>) {
    let edge = &mut *step.edge;
    if let Some(Target::Name(name)) = hand_over(edge, message, source, TokenOwner::Pool) {
        edge.names.prepare(edge.now, name, step.out);
    }
}

/// Whether our Via says that its request was sent to every node. A node copies the Via as it was (RFC 3261 §8.2.6.2).
pub(super) fn was_searched(message: &Message<'_>) -> bool {
    let via = message.top_via().value.of(message.bytes());
    via.windows(SEARCHED.len()).any(|part| part.eq_ignore_ascii_case(SEARCHED))
}
