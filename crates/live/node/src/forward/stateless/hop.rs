//! Requests to next hops without a transaction, and their responses: the stateless proxy of RFC 3261 §16.11 where requests go by
//! route.

use crate::client_flow::ClientFlow;
use crate::counters::Drop;
use crate::edge::Edge;
use crate::forward::onward::{Onward, Refresh};
use crate::pause::Pause;
use crate::ports::Ingress;
use crate::record::hand_over;
use crate::remote_targets::{Side, TargetRefresh, refreshes_target};
use crate::step::Step;
use crate::target::Target;
use crate::token::branch::{HopBranch, Transaction};
use crate::token::owner::TokenOwner;
use base::{Flow, Operation};
use wire::{Message, Method, request_source_target, response_target};

/// Sends a request on and forgets it. `refresh` is what the request and its response tell of where the parties of its dialog are
/// reached; where the sender is counts at once, since nobody will remember it until the response comes. `older`: the first copy of
/// the request went on before the key of new tokens changed.
pub(crate) fn pass(
    step: &mut Step<'_>,
    message: &Message<'_>,
    onward: &Onward<'_>,
    routing: u32,
    refresh: &Refresh,
    older: bool,
) {
    let edge = &mut *step.edge;
    if let Some(sender) = refresh.sender {
        edge.targets.note(sender);
    }
    let from = onward.from;
    let target = request_source_target(message.top_via(), from.peer).unwrap_or(from.peer);
    let transaction = Transaction::new(message, message.top_via(), target);
    let branch = HopBranch {
        asked: Ingress::by(from),
        routing,
        receiver: refresh.receiver.unwrap_or_default(),
        by_initiator: refresh.by_initiator,
    };
    edge.ledger.charge(Operation::MakeToken);
    let (way, _) = edge.edit_onward(message, onward, |tokens, via| {
        tokens.write_hop_branch_again(branch, &transaction, older, via);
    });
    edge.send_edited(message, way, step.out);
    edge.relayed.requests += 1;
}

/// A response to what went on without a transaction (§16.7 steps 3, 8 and 9, §16.11).
pub(crate) fn relay(step: &mut Step<'_>, flow: Flow, message: &Message<'_>) {
    let edge = &mut *step.edge;
    let (branch, way) = match edge.hop_way_back(message) {
        Ok(found) => found,
        Err(drop) => return edge.discard(drop),
    };
    edge.hear_notice(message, flow.peer);
    edge.hear_load(message, flow, step.out);
    if let Some(slot) = edge.topology.slot_of(flow) {
        step.balancer.answered(edge.now, slot);
        step.balancer.count_response(slot, message.status().unwrap_or_default());
        if let Some(rest) = Pause::asked_by(message) {
            step.balancer.pause(edge.now, slot, edge.now + rest.length, rest.asked);
        }
    }
    edge.note_response(message);
    edge.edits.clear();
    edge.edits.pop_via(message);
    edge.drop_identity(message, flow);
    edge.tell_notice(message, way.peer);
    let led = hand_over(edge, message, flow, TokenOwner::Proxy);
    if let Some(Target::Name(name)) = led.or(edge.receiver_moved(flow, message, branch)) {
        // The ACK to this response goes there, and does not come again.
        edge.names.prepare(edge.now, name, step.out);
    }
    edge.send_edited(message, way, step.out);
    edge.relayed.responses += 1;
}

impl Edge {
    /// Verifies that our Via is on top, with a token that fits, and finds the way back (§18.1.2, §18.2.2).
    pub(super) fn hop_way_back(&mut self, message: &Message<'_>) -> Result<(HopBranch, Flow), Drop> {
        // §18.1.2; and nobody answers an ACK (§17.1.1.3).
        if !self.topology.ports.wrote(message.top_via()) || message.cseq().method == Method::Ack {
            return Err(Drop::ForeignResponse);
        }
        let branch = message.top_via().branch.ok_or(Drop::ForeignResponse)?;
        let via = message.second_via().ok_or(Drop::NoWayBack)?;
        let to = response_target(&via).ok_or(Drop::NoTarget)?;
        self.ledger.charge(Operation::VerifyToken);
        let transaction = Transaction::new(message, &via, to);
        let branch = self.tokens.read_hop_branch(branch, &transaction).ok_or(Drop::ForeignResponse)?;
        let way = self.topology.ports.way_back_by(branch.asked, &via, to).ok_or(Drop::NoTarget)?;
        Ok((branch, way))
    }

    /// Takes note of where the receiver of a request within a dialog is reached from now on, if that is elsewhere than before
    /// (§12.2.1.2).
    fn receiver_moved<'a>(
        &mut self,
        source: Flow,
        response: &Message<'a>,
        request: HopBranch,
    ) -> Option<Target<'a>> {
        let accepted = response.status().is_some_and(|status| (200..300).contains(&status));
        if request.receiver == 0 || !accepted || !refreshes_target(response.cseq().method) {
            return None;
        }
        let target = response.contact().map(Target::of)?;
        if self.tokens.target_hash(&target, false) == request.receiver {
            return None;
        }
        let (by_initiator, side) = (request.by_initiator, Side::of(!request.by_initiator));
        let (heard, flow) = (target.is_at(source.peer), ClientFlow::of(source, &self.topology));
        let refreshed = TargetRefresh::new(&self.tokens, response, side, by_initiator, &target);
        self.targets.note(refreshed.seen(heard, flow));
        Some(target)
    }
}
