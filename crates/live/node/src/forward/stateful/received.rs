//! A request that came in, as it is kept until it is answered.

use super::dialogs::Tracked;
use super::targets::{RequestRule, Source, Targets};
use crate::address::client_flow::ClientFlow;
use crate::admission::Ticket;
use crate::forward::onward::{RecordRoute, Refresh};
use crate::message::route_header::max_breadth;
use crate::read::progress::AuthenticationMark;
use crate::site::Site;
use crate::site::allowance::allowance;
use crate::token::owner::TokenOwner;
use ::proxy::KeptRequest;
use balance::{CallKey, Request};
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
    pub(crate) targets: Targets,
    /// The rule that leads to its targets.
    pub(crate) rule: Option<RequestRule>,
    /// Hash of the routing decision, for our Via (RFC 5393 §4.2).
    pub(crate) routing: u32,
    /// Its Max-Breadth (RFC 5393 §5.3.2), kept since each request needs it.
    pub(crate) breadth: u8,
    /// The remote targets that its response may change.
    pub(crate) refresh: Refresh,
    /// The request within a dialog as the balancer has noted it, without the Call-ID, which is in the message.
    pub(crate) within: Option<Box<Request<'static>>>,
    /// Its call, where the state of dialogs is kept.
    pub(crate) tracked: Option<Box<Tracked>>,
    /// Whether its sender is authenticated.
    pub(crate) is_genuine: bool,
    /// Whether its sender has registered from where it came, over UDP.
    pub(crate) is_registered: bool,
    /// What a neighbour is told of its sender.
    pub(crate) proof: AuthenticationMark,
    /// The ticket of the gate, from when it is forwarded; ends with the final response.
    pub(super) ticket: Cell<Option<Ticket>>,
    /// Bytes of provisional responses that went back for it.
    pub(crate) told: Cell<u32>,
}

impl KeptRequest for Received {
    type Back = Flow;

    fn back(&self) -> Flow {
        self.back
    }
}

impl Received {
    /// A request of which nothing is known but the message.
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
            // If no listener can reach the address in its Via, it is the source.
            back: site.topology.ports.way_back(message.top_via(), flow).unwrap_or(flow),
            targets,
            rule: None,
            routing: 0,
            breadth: max_breadth(message),
            refresh: Refresh::of(true),
            within: None,
            tracked: None,
            is_genuine: false,
            is_registered: false,
            proof: AuthenticationMark::Nothing,
            ticket: Cell::default(),
            told: Cell::default(),
        }
    }

    /// The request as the balancer has noted it, if it has.
    pub(super) fn noted(&self) -> Option<&Request<'static>> {
        let of_pool = self.targets.pool().filter(|pool| pool.is_noted());
        self.within.as_deref().or(of_pool.map(|pool| &pool.request))
    }

    /// Whose token its Record-Route has: where the requests of a dialog go to the member that it began with, a pool's.
    pub(super) fn element(&self) -> TokenOwner {
        let is_pools = self.targets.pool().is_some_and(|pool| pool.service.dialogs() == Dialogs::Member);
        if is_pools { TokenOwner::Pool } else { TokenOwner::Proxy }
    }

    /// Whether it begins something, of which one proxy of a chain keeps the transaction. Whoever is behind us keeps no
    /// state of a call to a user: this one does.
    pub(super) fn begins(&self) -> bool {
        let method = self.targets.pool().map(|pool| pool.request.method);
        method.is_some_and(|method| !matches!(method, Method::Ack | Method::Cancel))
    }

    /// Whether we stay on the way of the dialog that it begins.
    pub(super) fn stay(&self) -> RecordRoute {
        match self.targets.pool() {
            Some(pool) => pool.record_route,
            None if self.tracked.is_some() => RecordRoute::WithDialogs,
            None => RecordRoute::WithTransactions,
        }
    }

    /// Whether its ticket has not ended.
    pub(super) fn holds_ticket(&self) -> bool {
        let ticket = self.ticket.take();
        let is_there = ticket.as_ref().is_some_and(Ticket::is_counted);
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
    pub(super) fn tell(&self, site: &Site, to: Flow, status: u16, length: usize) -> u8 {
        let told = self.told.get();
        if status < 200 {
            self.told.set(told.saturating_add(length as u32));
        }
        if status < 300 {
            // No timer repeats it.
            return UNLIMITED_REPEATS;
        }
        allowance(site, self.flow, to, self.is_genuine, self.bytes.len()).repeats(told as usize, length)
    }

    /// The flows of its sender and of who has answered by `source`, where these are clients that are reached by them.
    pub(super) fn clients(&self, site: &Site, source: Flow) -> [Option<Flow>; 2] {
        let of = |flow, is_registered| ClientFlow::of(flow, &site.topology, is_registered).map(|_| flow);
        let contacts =
            if let Source::Contacts(contacts) = &self.targets.source { &contacts[..] } else { &[] };
        let answers_registered =
            contacts.iter().any(|contact| contact.is_registered && contact.hop.meets(source));
        [of(self.flow, self.is_registered), of(source, answers_registered)]
    }

    /// The message again.
    pub(super) fn message(&self) -> Message<'_> {
        wire::scan(&self.bytes).expect("it was read when it came in")
    }

    /// Whether it begins a dialog with a member of a pool, with our Record-Route in it.
    pub(super) fn begins_recorded(&self) -> bool {
        self.targets
            .pool()
            .is_some_and(|pool| !pool.request.in_dialog && pool.record_route != RecordRoute::No)
    }
}
