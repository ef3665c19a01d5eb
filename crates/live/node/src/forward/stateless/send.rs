//! A request on its way to a member, or from one to others (RFC 3261 §16.6, §16.11).

use crate::examine::Facts;
use crate::record::{initiator_target, record, wants_record_route};
use crate::route::{self as ways, edit_hop, max_breadth};
use crate::token::branch::{self, BranchToken, Transaction};
use crate::token::route::{Kept, RouteToken, TokenOwner};
use crate::{Shard, ShardEvent};
use balance::{Direction, Slot};
use base::{Flow, Operation, Outbox};
use std::sync::Arc;
use wire::Message;

impl Shard {
    /// RFC 3261 §16.6: the edits of a forwarded request.
    pub(crate) fn send_to(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        slot: Slot,
        search: bool,
        out: &mut Outbox<ShardEvent>,
    ) {
        // To the pool, always to the node: whatever Route or Request-URI say, no other address can be reached.
        let node = self.edge.topology.node(slot);
        let way = facts.outside.and_then(Result::ok).unwrap_or(node);
        self.edge.edits.clear();
        edit_hop(message, flow.peer, max_breadth(message), &mut self.edge.edits);
        let rule = facts.rule.map(|rule| (Arc::clone(&self.edge.routes), rule));
        let rule = rule.as_ref().map(|(routes, rule)| routes.rule(*rule));
        self.edge.edit_by_rule(message, &facts.route, (rule, flow.listener));
        self.edge.drop_credentials(message, flow.peer);
        if wants_record_route(message) {
            self.record_route(message, facts, slot, [flow.listener, way.listener]);
        }
        // Step 8.
        let token = BranchToken {
            node: self.balancer.nodes()[slot.index()].id,
            direction: facts.request.direction,
            listener: flow.listener as u8,
            routing: facts.routing,
        };
        self.edge.ledger.charge(Operation::MakeToken);
        let transaction = Transaction::new(message, message.top_via(), facts.target);
        self.edge.scratch.clear();
        self.edge
            .scratch
            .extend_from_slice(self.edge.topology.listeners[usize::from(way.listener)].via.as_bytes());
        let older = self.is_older_than_key(&facts.request);
        self.edge.tokens.write_branch(token, &transaction, older, &mut self.edge.scratch);
        if search {
            self.edge.scratch.extend_from_slice(branch::SEARCHED);
        }
        self.edge.edits.push_via(message, &self.edge.scratch);
        self.edge.send_edited(message, way, out);
        self.edge.counters.requests_forwarded += 1;
        if facts.request.direction == Direction::ToPool {
            self.balancer.count_request(self.edge.now, slot, &facts.request);
        }
    }

    /// §16.6 step 4.
    fn record_route(&mut self, message: &Message<'_>, facts: &Facts<'_>, slot: Slot, listeners: [u16; 2]) {
        self.edge.ledger.charge(Operation::MakeToken);
        // §16.11: the same in a retransmission, so nothing of this moment may be in it.
        let begun = self.balancer.session_of(&facts.request).map_or(self.edge.now, |session| session.created);
        let (unix, older) = (self.edge.settings.unix(begun), self.is_older_than_key(&facts.request));
        let outbound = facts.request.direction == Direction::FromPool;
        // Towards a node its token leads, whatever the target.
        let nowhere = (ways::Target::Nowhere, false);
        let (target, is_contact) =
            if outbound { nowhere } else { initiator_target(&self.edge.topology, message, TokenOwner::Pool) };
        let token = RouteToken {
            node: self.balancer.nodes()[slot.index()].id,
            outbound,
            kept: Kept::Transactions,
            target: self.edge.tokens.target_hash(&target, older),
            heard: false,
            home: self.edge.tokens.home_hash(is_contact.then_some(&target), older),
        };
        let (edits, scratch, tokens) = (&mut self.edge.edits, &mut self.edge.scratch, &self.edge.tokens);
        let write = |out: &mut Vec<u8>| {
            tokens.write_route(TokenOwner::Pool, token, message, unix, older, out);
        };
        record(message, &self.edge.topology, listeners, edits, scratch, (TokenOwner::Pool, write));
    }
}
