//! Where each recent request went without a transaction. Its copies, CANCEL and ACK go the same way (RFC 3261 §16.11),
//! even if the next hop has been removed since, or the user has registered another contact.

use crate::arrival::Arrival;
use crate::edge::Edge;
use crate::step::Step;
use crate::token::copies::copies_key;
use balance::{Balancer, Request, Slot};
use base::{Instant, Recent};
use std::net::SocketAddr;
use wire::{Message, Method};

/// Where recent requests went by the key of their copies, and when the first copy did.
pub(crate) struct RecentCopies<T>(Recent<u64, (T, Instant)>);

impl<T: Clone> RecentCopies<T> {
    /// At least so many requests are remembered.
    pub(super) fn new(generation: usize) -> Self {
        Self(Recent::new(generation))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where the request went that this is a copy of, or the CANCEL or ACK of.
    pub(crate) fn of(&self, edge: &Edge, message: &Message<'_>, from: SocketAddr) -> Option<T> {
        let known = |key: u64| self.0.get(&key).map(|(went, _)| went.clone());
        if self.is_empty() { None } else { known(copies_key(&edge.tokens, message, from)) }
    }

    /// A request, or a copy of one, goes there.
    pub(crate) fn note(&mut self, now: Instant, key: u64, went: T) {
        let since = self.0.get(&key).map_or(now, |(_, since)| *since);
        self.0.insert(key, (went, since));
    }

    /// Whether the first copy of a request went on before the key of new tokens changed.
    pub(crate) fn is_older_than_key(&self, edge: &Edge, message: &Message<'_>, from: SocketAddr) -> bool {
        let Some(rekeyed) = edge.rekeyed.filter(|_| !self.is_empty()) else { return false };
        let went = self.0.get(&copies_key(&edge.tokens, message, from));
        went.is_some_and(|(_, since)| *since <= rekeyed)
    }
}

impl RecentCopies<Slot> {
    /// The next hop that a request without a token, or its INVITE, went to before its pool became another one.
    pub(crate) fn before(
        &self,
        step: &Step<'_>,
        arrival: &Arrival<'_>,
        request: &Request<'_>,
    ) -> Option<Slot> {
        let may_be = request.pinned.is_none() && (!request.in_dialog || request.method == Method::Ack);
        let slot = may_be.then(|| self.of(step.edge, arrival.message, arrival.flow.peer))??;
        is_in_use(step.balancer, slot).then_some(slot)
    }

    /// The next hop that a copy of the request with this key, or its INVITE, went to, as long as that is a node in
    /// use.
    pub(crate) fn hop(&self, key: u64, balancer: &Balancer) -> Option<Slot> {
        let (slot, _) = self.0.get(&key).copied()?;
        is_in_use(balancer, slot).then_some(slot)
    }
}

fn is_in_use(balancer: &Balancer, slot: Slot) -> bool {
    balancer.nodes().get(slot.index()).is_some_and(|node| node.member)
}
