//! A received request, kept until its final response.

use super::dialogs::Tracked;
use super::targets::{RequestRule, Targets};
use crate::address::client_flow::ClientFlow;
use crate::admission::Ticket;
use crate::forward::onward::{RecordRoute, Refresh};
use crate::message::route_header::max_breadth;
use crate::read::progress::AuthenticationMark;
use crate::site::Site;
use crate::site::allowance::allowance;
use crate::token::owner::TokenOwner;
use ::proxy::KeptRequest;
use balance::{CallKey, RequestFacts};
use base::{Flow, Instant};
use route::Dialogs;
use std::cell::Cell;
use std::sync::Arc;
use transaction::UNLIMITED_REPEATS;
use wire::{Message, Method};

/// A received request, kept until its final response.
pub(crate) struct Received {
    /// The bytes of the message. Forwarded copies share them.
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) call: CallKey,
    pub(crate) flow: Flow,
    /// Flow of the responses (§18.2.2).
    pub(crate) back: Flow,
    pub(crate) targets: Targets,
    /// The rule that determines the targets.
    pub(crate) rule: Option<RequestRule>,
    /// Time of the arrival; after a wait here, its end.
    pub(crate) arrived: Instant,
    /// Hash of the routing decision for this proxy's Via (RFC 5393 §4.2).
    pub(crate) routing: u32,
    /// Max-Breadth (RFC 5393 §5.3.2), kept since each request needs it.
    pub(crate) breadth: u8,
    /// Remote targets that the response may change.
    pub(crate) refresh: Refresh,
    /// The balancer's record of a request within a dialog. It has no Call-ID, since the Call-ID is in the message.
    pub(crate) within: Option<Box<RequestFacts<'static>>>,
    /// The call of the request, if dialogs are kept.
    pub(crate) tracked: Option<Box<Tracked>>,
    /// Whether the sender is authenticated.
    pub(crate) is_genuine: bool,
    /// Whether the sender over UDP is reached at its source address.
    pub(crate) is_at_source: bool,
    /// Statement to a neighbour about the authentication of the sender.
    pub(crate) proof: AuthenticationMark,
    /// Ticket of the gate, from forwarding until the final response.
    pub(super) ticket: Cell<Option<Ticket>>,
    /// Bytes of provisional responses sent back.
    pub(crate) provisional_bytes: Cell<u32>,
}

impl KeptRequest for Received {
    type Back = Flow;

    fn back(&self) -> Flow {
        self.back
    }
}

impl Received {
    /// Creates the record of a request from its message alone.
    pub(super) fn new(
        site: &Site,
        call: CallKey,
        flow: Flow,
        message: &Message<'_>,
        targets: Targets,
    ) -> Self {
        Self {
            bytes: message.bytes().into(),
            call,
            flow,
            // If no listener can reach the address in the Via, the source is used.
            back: site.topology.ports.way_back(message.top_via(), flow).unwrap_or(flow),
            targets,
            rule: None,
            arrived: site.now,
            routing: 0,
            breadth: max_breadth(message),
            refresh: Refresh::of(true),
            within: None,
            tracked: None,
            is_genuine: false,
            is_at_source: false,
            proof: AuthenticationMark::Nothing,
            ticket: Cell::default(),
            provisional_bytes: Cell::default(),
        }
    }

    /// Returns the balancer's record of the request, if there is one.
    pub(super) fn noted(&self) -> Option<&RequestFacts<'static>> {
        let of_pool = self.targets.pool().filter(|pool| pool.is_noted());
        self.within.as_deref().or(of_pool.map(|pool| &pool.request))
    }

    /// Returns the owner of the Record-Route's token. It is a pool if requests of a dialog go to the dialog's member.
    pub(super) fn element(&self) -> TokenOwner {
        let is_pools = self.targets.pool().is_some_and(|pool| pool.service.dialogs() == Dialogs::Member);
        if is_pools { TokenOwner::Pool } else { TokenOwner::Proxy }
    }

    /// Returns whether the request begins a transaction that one proxy of a chain keeps. The transaction of a call to a
    /// user is always kept by this proxy.
    pub(super) fn begins(&self) -> bool {
        let method = self.targets.pool().map(|pool| pool.request.method);
        method.is_some_and(|method| !matches!(method, Method::Ack | Method::Cancel))
    }

    /// Returns how this proxy stays on the path of the dialog that the request begins.
    pub(super) fn stay(&self) -> RecordRoute {
        match self.targets.pool() {
            Some(pool) => pool.record_route,
            None if self.tracked.is_some() => RecordRoute::WithDialogs,
            None => RecordRoute::WithTransactions,
        }
    }

    /// Returns whether the ticket has not ended.
    pub(super) fn holds_ticket(&self) -> bool {
        let ticket = self.ticket.take();
        let is_there = ticket.as_ref().is_some_and(Ticket::is_counted);
        self.ticket.set(ticket);
        is_there
    }

    /// Ends the ticket when the request gets its final response, from this proxy (`is_own`) or another element.
    pub(super) fn end(&self, is_own: bool) {
        match self.ticket.take() {
            Some(ticket) if is_own => ticket.refuse(),
            Some(ticket) => ticket.settle(),
            None => {}
        }
    }

    /// Records a response to `to`. Returns how often timers may repeat it.
    pub(super) fn tell(&self, site: &Site, to: Flow, status: u16, length: usize) -> u8 {
        let before = self.provisional_bytes.get();
        if status < 200 {
            self.provisional_bytes.set(before.saturating_add(length as u32));
        }
        if status < 300 {
            // No timer repeats a response below 300.
            return UNLIMITED_REPEATS;
        }
        allowance(site, self.flow, to, self.is_genuine, self.bytes.len()).repeats(before as usize, length)
    }

    /// Returns the flow of the sender and the flow of the responder at `source`, each if it is a client that is reached
    /// by this flow.
    pub(super) fn clients(&self, site: &Site, source: Flow) -> [Option<Flow>; 2] {
        let of = |flow, is_at_source| ClientFlow::of(flow, &site.topology, is_at_source).map(|_| flow);
        [of(self.flow, self.is_at_source), of(source, self.targets.is_client(source))]
    }

    pub(super) fn message(&self) -> Message<'_> {
        wire::scan(&self.bytes).expect("the request was parsed on arrival")
    }

    /// Returns whether the request begins a dialog with a member of a pool, with a Record-Route of this proxy.
    pub(super) fn begins_recorded(&self) -> bool {
        self.targets
            .pool()
            .is_some_and(|pool| !pool.request.in_dialog && pool.record_route != RecordRoute::No)
    }
}
