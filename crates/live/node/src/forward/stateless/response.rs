//! The way of a response: pop our Via, follow the next one (RFC 3261 §16.7, §16.11).

use super::search::Search;
use crate::pause::Pause;
use crate::record::{hand_over, is_unrecorded};
use crate::route::Target;
use crate::token::branch::{BranchToken, SEARCHED, Transaction};
use crate::token::route::TokenOwner;
use crate::{Drop, Shard, ShardEvent};
use balance::{Direction, Response, SessionState};
use base::{Flow, Operation, Outbox};
use std::net::SocketAddr;
use wire::{Message, Method, response_target};

impl Shard {
    pub(crate) fn response(&mut self, flow: Flow, message: &Message<'_>, out: &mut Outbox<ShardEvent>) {
        match self.way_back(message) {
            Err(drop) => self.edge.discard(drop),
            Ok((token, branch, to)) => {
                self.look_for_record(flow.peer, message, token, out);
                self.note(message, token, branch);
                self.edge.heed(message);
                // RFC 3261 §18.2.2: responses leave from where the request came in.
                let asked = u16::from(token.listener);
                let Some(way) = self.edge.topology.way_to(asked, to) else {
                    return self.edge.discard(Drop::NoTarget);
                };
                self.edge.edits.clear();
                self.edge.edits.pop_via(message);
                if token.direction == Direction::FromPool {
                    self.edge.drop_identity(message, flow.peer);
                    self.hand_over(flow.peer, message, out);
                }
                self.edge.send_edited(message, way, out);
                self.edge.counters.responses_forwarded += 1;
            }
        }
    }

    /// Tells once that a node begins dialogs without our Record-Route.
    fn look_for_record(
        &mut self,
        source: SocketAddr,
        message: &Message<'_>,
        token: BranchToken,
        out: &mut Outbox<ShardEvent>,
    ) {
        if self.edge.is_unrecorded_told || token.direction != Direction::ToPool || !is_unrecorded(message) {
            return;
        }
        let tags = self.edge.tokens.tags(message);
        let session = self.balancer.session(self.edge.tokens.call_key(message.call_id()).begun_by(tags.from));
        // An INVITE within a dialog has none to be copied.
        if session.is_some_and(|session| session.state == SessionState::Invited) {
            self.edge.is_unrecorded_told = true;
            out.event(ShardEvent::NoRecordRoute(source));
        }
    }

    /// The node that began a dialog gets the token which leads to the other side: it will need that when it is no member any
    /// more. The name of the other side is asked for, since an ACK does not come again.
    fn hand_over(&mut self, source: SocketAddr, message: &Message<'_>, out: &mut Outbox<ShardEvent>) {
        let of = (&*self.edge.topology, &self.edge.tokens);
        let to_edit = (&mut self.edge.edits, &mut self.edge.scratch);
        if let Some(Target::Name(host, port)) = hand_over(message, source, TokenOwner::Pool, of, to_edit) {
            self.edge.names.prepare(self.edge.now, (host, port), out);
        }
    }

    /// Verifies that our Via is on top, with a token that fits, and finds the mark of the client's branch and where the next Via
    /// leads.
    /// The token stands in for RFC 3261 §18.1.2's check of the sent-by, and also holds for a sister's Via.
    fn way_back(&mut self, message: &Message<'_>) -> Result<(BranchToken, u32, SocketAddr), Drop> {
        let branch = message.top_via().branch.ok_or(Drop::ForeignResponse)?;
        let via = message.second_via().ok_or(Drop::NoWayBack)?;
        let to = response_target(&via).ok_or(Drop::NoTarget)?;
        self.edge.ledger.charge(Operation::VerifyToken);
        let transaction = Transaction::new(message, &via, to);
        let token = self.edge.tokens.read_branch(branch, &transaction).ok_or(Drop::ForeignResponse)?;
        if token.direction == Direction::ToPool
            && let Some(slot) = self.edge.topology.slot(token.node)
        {
            // A sign of life, also where nobody is to hear of it.
            self.balancer.answered(self.edge.now, slot);
            self.balancer.count_response(slot, message.status().unwrap_or_default());
        }
        let mark = self.edge.tokens.mark(&transaction, token.direction, token.routing);
        if message.cseq().method == Method::Cancel && was_searched(message) {
            self.searched(message, token, mark)?;
        }
        Ok((token, mark, to))
    }

    /// Every node was asked; those that do not know the INVITE say so (481). Nobody needs to hear that before the last one.
    fn searched(&mut self, message: &Message<'_>, token: BranchToken, branch: u32) -> Result<(), Drop> {
        let call = self.edge.tokens.call_key(message.call_id());
        let search = Search { call, cseq: message.cseq().number, branch };
        match message.status() {
            Some(300..) if !self.searches.missed(search, token.node) => return Err(Drop::SearchMiss),
            Some(200..300) => self.searches.found(search),
            _ => {}
        }
        Ok(())
    }

    /// Tells the balancer: this is what moves its counters.
    fn note(&mut self, message: &Message<'_>, token: BranchToken, branch: u32) {
        let (Some(status), cseq) = (message.status(), message.cseq()) else { return };
        self.edge.ledger.charge(Operation::Lookup);
        let response = Response {
            key: self.edge.tokens.call_key(message.call_id()),
            method: cseq.method,
            cseq: cseq.number,
            status,
            direction: token.direction,
            branch,
            tags: self.edge.tokens.tags(message),
        };
        self.balancer.response(self.edge.now, &response);
        self.note_failure(token.node, &response);
        if let Some(rest) = Pause::asked_by(message)
            && token.direction == Direction::ToPool
            && let Some(slot) = self.edge.topology.slot(token.node)
        {
            self.balancer.pause(self.edge.now, slot, self.edge.now + rest.length, rest.asked);
        }
    }
}

/// Whether our Via says that its request was sent to every node. A node copies the Via as it was (RFC 3261 §8.2.6.2).
fn was_searched(message: &Message<'_>) -> bool {
    let via = message.top_via().value.of(message.bytes());
    via.windows(SEARCHED.len()).any(|part| part.eq_ignore_ascii_case(SEARCHED))
}
