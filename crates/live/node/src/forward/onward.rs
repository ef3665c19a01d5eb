//! What a request is changed by on its way to a next hop or, with a transaction, to a member (RFC 3261 §16.6); the same with a
//! transaction and without.

use crate::client_flow::ClientFlow;
use crate::edge::Edge;
use crate::forward::contacts::Contact;
use crate::progress::ToldProof;
use crate::record::{initiator_target, record, wants_record_route};
use crate::remote_targets::TargetRefresh;
use crate::route_header::{RouteHeader, edit_hop, max_breadth};
use crate::token::Tokens;
use crate::token::dialog::{DialogToken, Kept};
use crate::token::owner::TokenOwner;
use crate::topology::node_id;
use base::Flow;
use core::ops::Range;
use route::Rule;
use wire::{Message, Method};

/// Whether we stay on the way of the dialog that a request begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordRoute {
    /// We do not.
    No,
    /// Its requests go on with transactions.
    WithTransactions,
    /// Of an INVITE the state of its dialogs is kept as well.
    WithDialogs,
    /// Its requests go on without.
    Stateless,
}

/// How a request goes on.
pub(crate) struct Onward<'a> {
    /// What it came by.
    pub(crate) from: Flow,
    /// What it leaves by, unless it is too long for UDP.
    pub(crate) hop: Flow,
    /// Whose token our Record-Route has.
    pub(crate) element: TokenOwner,
    pub(crate) rule: Option<&'a Rule>,
    /// Whose contact it is for, if it is for a user.
    pub(crate) contact: Option<&'a Contact>,
    /// Its part of Max-Breadth (RFC 5393 §5.3.3); `None`: all.
    pub(crate) breadth: Option<u8>,
    pub(crate) record_route: RecordRoute,
    /// Of a request that begins something: whether its transaction is kept here.
    pub(crate) keeps: Option<bool>,
    /// What a neighbour is told of its sender.
    pub(crate) proof: ToldProof,
}

impl Onward<'_> {
    /// As it came, from one hop to the other, for a proxy.
    pub(crate) fn of(from: Flow, hop: Flow, record_route: RecordRoute) -> Self {
        let (element, rule, contact, breadth, keeps) = (TokenOwner::Proxy, None, None, None, None);
        Self { from, hop, element, rule, contact, breadth, record_route, keeps, proof: ToldProof::Nothing }
    }
}

/// What the response to a request tells of where the parties of a dialog are reached.
#[derive(Clone, Copy)]
pub(crate) struct Refresh {
    /// Whether the side that began the dialog sent the request.
    pub(crate) by_initiator: bool,
    /// Where the request's sender is reached once it is accepted.
    pub(crate) sender: Option<TargetRefresh>,
    /// [`Tokens::target_hash`] of where its receiver is reached, as far as is known: by the Request-URI, or by the
    /// response before.
    pub(crate) receiver: Option<u32>,
    /// Whether two responses have named different places: the token of one of them does not lead to the other's.
    pub(crate) has_varied: bool,
}

impl Refresh {
    /// What changes nothing by itself.
    pub(crate) fn of(by_initiator: bool) -> Self {
        Self { by_initiator, sender: None, receiver: None, has_varied: false }
    }
}

/// Whether a token could lead the requests of a dialog. Of a proxy's, only the tags tell the sides apart: what a caller of RFC 2543
/// begins without a From tag goes on from end to end.
fn may_be_led(message: &Message<'_>, element: TokenOwner) -> bool {
    element == TokenOwner::Pool || message.from_tag().is_some()
}

impl Edge {
    /// Collects the edits of a request, with a Via whose branch `write` appends. Returns what it leaves by, and where the
    /// branch is in the scratch, which holds the Via.
    pub(crate) fn edit_onward(
        &mut self,
        message: &Message<'_>,
        onward: &Onward<'_>,
        write: impl FnOnce(&Tokens, &mut Vec<u8>),
    ) -> (Flow, Range<usize>) {
        self.edits.clear();
        let breadth = onward.breadth.unwrap_or_else(|| max_breadth(message));
        edit_hop(message, onward.from.peer, breadth, &mut self.edits);
        let route = RouteHeader::new(&self.topology, message, onward.element);
        match onward.contact {
            Some(contact) => self.edit_for_contact(message, &route, onward.rule, contact),
            None => self.edit_by_rule(message, &route, onward.rule, onward.from.listener),
        }
        // Whoever has to verify them needs them.
        if onward.proof != ToldProof::Asked {
            self.drop_credentials(message, onward.from);
        }
        if message.method() == Some(Method::Register) {
            self.add_path(message, onward);
        }
        if onward.record_route != RecordRoute::No
            && wants_record_route(message)
            && may_be_led(message, onward.element)
        {
            self.record_onward(message, onward);
        }
        // Step 8.
        let via = self.topology.ports[onward.hop.listener].via.as_bytes();
        self.scratch.clear();
        self.scratch.extend_from_slice(via);
        let start = self.scratch.len();
        write(&self.tokens, &mut self.scratch);
        let branch = start..self.scratch.len();
        if let Some(keeps) = onward.keeps {
            self.write_mark(message, onward, keeps, branch.clone());
        }
        self.gate.overload.offer(onward.hop, &mut self.scratch);
        self.push_own_via(message, onward.hop, branch)
    }

    /// Records us and a token, which leads the requests of the callee to whom the caller has named.
    fn record_onward(&mut self, message: &Message<'_>, onward: &Onward<'_>) {
        let Onward { from, hop, element, record_route, .. } = *onward;
        let (target, is_contact) = initiator_target(&self.topology, message, element);
        let flow = if is_contact { ClientFlow::of(from, &self.topology) } else { None };
        let is_stateless = record_route == RecordRoute::Stateless;
        let token = DialogToken {
            node: node_id(hop.remote()),
            outbound: false,
            kept: match record_route {
                RecordRoute::Stateless => Kept::Nothing,
                RecordRoute::WithDialogs if message.method() == Some(Method::Invite) => Kept::Dialog,
                RecordRoute::WithDialogs | RecordRoute::WithTransactions | RecordRoute::No => {
                    Kept::Transactions
                }
            },
            target: self.tokens.target_hash(&target, false),
            heard: element == TokenOwner::Proxy && target.is_at(from.peer),
            home: self.tokens.home_hash(is_contact.then_some(&target), flow, false),
            flow,
        };
        let (tokens, unix) = (&self.tokens, self.settings.unix(self.now));
        let unix = if is_stateless { tokens.coarse(unix) } else { unix };
        let write = |out: &mut Vec<u8>| tokens.write_route(element, token, message, unix, false, out);
        let (edits, scratch) = (&mut self.edits, &mut self.scratch);
        let listeners = [from.listener, hop.listener];
        record(message, &self.topology, listeners, edits, scratch, element, write);
    }
}
