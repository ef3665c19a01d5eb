//! A request that came in, as it is kept until it is answered.

use super::assigned::Assigned;
use super::dialogs::Tracked;
use super::located::Located;
use crate::admission::Ticket;
use crate::edge::Edge;
use crate::forward::onward::{RecordRoute, Refresh};
use crate::progress::ToldProof;
use crate::route_header::max_breadth;
use crate::token::owner::TokenOwner;
use ::proxy::KeptRequest;
use balance::{CallKey, Request, Slot};
use base::Flow;
use route::Dialogs;
use std::cell::Cell;
use std::sync::Arc;
use transaction::UNLIMITED_REPEATS;
use wire::{Message, Method};

/// A request that came in, as it is kept until it is answered.
pub(crate) struct Received {
    /// The bytes of the message. Forwarded copies share them.
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) call: CallKey,
    /// The flow that it came by.
    pub(crate) flow: Flow,
    /// The way of its responses (§18.2.2).
    pub(crate) back: Flow,
    pub(crate) way: TargetSet,
    /// Hash of the routing decision, for our Via (RFC 5393 §4.2).
    pub(crate) routing: u32,
    /// Its Max-Breadth (RFC 5393 §5.3.2), kept since each request needs it.
    pub(crate) breadth: u8,
    /// The remote targets that its response may change.
    pub(crate) refresh: Refresh,
    /// The request as the balancer has noted it, without the Call-ID, which is in the message.
    pub(crate) noted: Option<Box<Request<'static>>>,
    /// Its call, where the state of dialogs is kept.
    pub(crate) tracked: Option<Box<Tracked>>,
    /// Whether its sender is authenticated.
    pub(crate) is_genuine: bool,
    /// What a neighbour is told of its sender.
    pub(crate) proof: ToldProof,
    /// The ticket of the gate; ends with the final response.
    pub(crate) ticket: Cell<Option<Ticket>>,
    /// Bytes of provisional responses that went back for it.
    pub(crate) told: Cell<u32>,
}

impl KeptRequest for Received {
    type Back = Flow;

    fn back(&self) -> Flow {
        self.back
    }
}

/// The targets of a request.
pub(crate) enum TargetSet {
    /// The target of its Route or Request-URI.
    Uri(UriTarget),
    /// A member of a pool.
    Pool(Box<Assigned>),
    /// The contacts of a user.
    Contacts(Box<Located>),
}

/// The target that a Route or Request-URI names.
#[derive(Clone, Copy)]
pub(crate) struct UriTarget {
    pub(crate) hop: Flow,
    /// Whether its address is verified.
    pub(crate) is_wanted: bool,
    /// Where `hop` is the connection of a client: the way by a new one, if that is gone.
    pub(crate) anew: Option<Flow>,
}

/// The way of the responses to a request (§18.2.2). If no listener can reach the address in its Via, it is the
/// source.
pub(super) fn way_back(edge: &Edge, message: &Message<'_>, flow: Flow) -> Flow {
    edge.topology.ports.way_back(message.top_via(), flow).unwrap_or(flow)
}

impl Received {
    /// Whose token its Record-Route has: where the requests of a dialog go to the member that it began with, a pool's.
    pub(super) fn element(&self) -> TokenOwner {
        match &self.way {
            TargetSet::Pool(assigned) if assigned.dialogs == Dialogs::Member => TokenOwner::Pool,
            TargetSet::Pool(_) | TargetSet::Uri(..) | TargetSet::Contacts(_) => TokenOwner::Proxy,
        }
    }

    /// Whether it begins something, of which one proxy of a chain keeps the transaction.
    pub(super) fn begins(&self) -> bool {
        match &self.way {
            TargetSet::Pool(assigned) => !matches!(assigned.request.method, Method::Ack | Method::Cancel),
            // Whoever is behind us keeps no state of a call to a user: this one does.
            TargetSet::Uri(..) | TargetSet::Contacts(_) => false,
        }
    }

    /// Whether we stay on the way of the dialog that it begins.
    pub(super) fn stay(&self) -> RecordRoute {
        match &self.way {
            TargetSet::Pool(assigned) => assigned.record_route,
            TargetSet::Uri(..) | TargetSet::Contacts(_) if self.tracked.is_some() => RecordRoute::WithDialogs,
            TargetSet::Uri(..) | TargetSet::Contacts(_) => RecordRoute::WithTransactions,
        }
    }

    /// Whether its ticket has not ended.
    pub(super) fn holds_ticket(&self) -> bool {
        let ticket = self.ticket.take();
        let is_there = ticket.is_some();
        self.ticket.set(ticket);
        is_there
    }

    /// The request has its final response, of this proxy (`is_own`) or of whoever got the request: its ticket ends.
    pub(super) fn end(&self, is_own: bool) {
        match self.ticket.take() {
            Some(ticket) if is_own => ticket.refuse(),
            Some(ticket) => ticket.settle(),
            None => {}
        }
    }

    /// Takes note of a response that goes back to `to`; returns how often timers may repeat it.
    pub(super) fn tell(&self, edge: &Edge, to: Flow, status: u16, length: usize) -> u8 {
        let told = self.told.get();
        if status < 200 {
            self.told.set(told.saturating_add(length as u32));
        }
        if status < 300 {
            // No timer repeats it.
            return UNLIMITED_REPEATS;
        }
        edge.allowance(self.flow, to, self.is_genuine, self.bytes.len()).repeats(told as usize, length)
    }

    /// The message again.
    pub(super) fn message(&self) -> Message<'_> {
        wire::scan(&self.bytes).expect("it was read when it came in")
    }
}

impl Received {
    /// Whether what follows in the dialog that it begins does not come by here.
    pub(super) fn is_left(&self) -> bool {
        matches!(&self.way, TargetSet::Pool(assigned) if assigned.record_route == RecordRoute::No)
    }

    /// Whether what this member says of it is the balancer's affair.
    pub(super) fn counts_with(&self, slot: Option<Slot>) -> bool {
        match (&self.way, slot) {
            (TargetSet::Pool(assigned), Some(slot)) => assigned.counts_with(slot),
            _ => true,
        }
    }
}

impl Received {
    /// Whether it begins a dialog with a member of a pool, with our Record-Route in it.
    pub(super) fn begins_recorded(&self) -> bool {
        match &self.way {
            TargetSet::Pool(assigned) => {
                assigned.record_route != RecordRoute::No && !assigned.request.in_dialog
            }
            TargetSet::Uri(..) | TargetSet::Contacts(_) => false,
        }
    }

    /// A CANCEL of a transaction that is there goes nowhere: another one is made of what that has sent.
    pub(super) fn cancel(edge: &Edge, flow: Flow, message: &Message<'_>) -> Self {
        Self {
            bytes: message.bytes().into(),
            call: edge.tokens.call_key(message.call_id()),
            flow,
            back: way_back(edge, message, flow),
            way: TargetSet::Uri(UriTarget { hop: flow, is_wanted: false, anew: None }),
            routing: 0,
            breadth: max_breadth(message),
            refresh: Refresh::of(true),
            noted: None,
            tracked: None,
            is_genuine: false,
            proof: ToldProof::Nothing,
            ticket: Cell::default(),
            told: Cell::default(),
        }
    }
}
