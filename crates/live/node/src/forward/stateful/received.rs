//! A request that came in, as it is kept until it is answered.

use super::assigned::Assigned;
use super::dialogs::Tracked;
use super::located::Located;
use crate::admission::Ticket;
use crate::edge::Edge;
use crate::forward::onward::{RecordRoute, Refresh};
use crate::route_header::max_breadth;
use crate::token::owner::TokenOwner;
use balance::{CallKey, Request, Slot};
use base::Flow;
use route::Dialogs;
use std::cell::Cell;
use std::sync::Arc;
use transaction::UNLIMITED_REPEATS;
use wire::{Message, Method};

/// A request that came in, as it is kept until it is answered.
pub(crate) struct Received {
    /// Exactly the message. What is forwarded shares it.
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) call: CallKey,
    /// What it came by.
    pub(crate) flow: Flow,
    /// Where its responses go (§18.2.2).
    pub(crate) back: Flow,
    pub(crate) way: TargetSet,
    /// Hash of the routing decision, for our Via (RFC 5393 §4.2).
    pub(crate) routing: u32,
    /// Its Max-Breadth (RFC 5393 §5.3.2): every request is asked for it, and need not be read again for that.
    pub(crate) breadth: u8,
    /// What its response may change in the dialog that it belongs to or begins.
    pub(crate) refresh: Refresh,
    /// What the balancer has taken note of it as, but for the Call-ID, which is in the message.
    pub(crate) noted: Option<Box<Request<'static>>>,
    /// What is known of its call, where the state of dialogs is kept.
    pub(crate) tracked: Option<Box<Tracked>>,
    /// Its sender has proved to know a password.
    pub(crate) is_genuine: bool,
    /// The leave that the gate gave it; ends with the final response.
    pub(crate) ticket: Cell<Option<Ticket>>,
    /// Bytes of provisional responses that went back for it.
    pub(crate) told: Cell<u32>,
}

/// Where a request goes.
pub(crate) enum TargetSet {
    /// Where its Route or Request-URI says, and whether that is known to want it.
    Uri(Flow, bool),
    /// To a member of a pool.
    Pool(Box<Assigned>),
    /// To the contacts of a user.
    Contacts(Box<Located>),
}

/// Where the responses to a request go (§18.2.2): to where it came from, if its Via leads out of every family that there is.
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
            way: TargetSet::Uri(flow, false),
            routing: 0,
            breadth: max_breadth(message),
            refresh: Refresh::of(true),
            noted: None,
            tracked: None,
            is_genuine: false,
            ticket: Cell::default(),
            told: Cell::default(),
        }
    }
}
