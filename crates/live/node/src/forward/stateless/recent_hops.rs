//! The next hop of each recent request that went on without a transaction. Its copies, CANCEL and ACK take the same
//! hop (RFC 3261 §16.11), even if the hop has been removed since.

use crate::arrival::Arrival;
use crate::edge::Edge;
use crate::step::Step;
use crate::token::copies::copies_key;
use balance::{Balancer, Request, Slot};
use base::{Instant, Recent};
use std::net::SocketAddr;
use wire::{Message, Method};

/// Requests that are remembered, in each of two generations: of 32 s (64*T1) at 2,000 a second.
const GENERATION: usize = 65_536;

/// The next hops of recent requests by the key of their copies, and when the first copy went there.
pub(crate) struct RecentHops(Recent<u64, (Slot, Instant)>);

impl Default for RecentHops {
    fn default() -> Self {
        Self(Recent::new(GENERATION))
    }
}

impl RecentHops {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next hop that a request without a token, or its INVITE, went to before its pool became another one.
    pub(crate) fn before(
        &self,
        step: &Step<'_>,
        arrival: &Arrival<'_>,
        request: &Request<'_>,
    ) -> Option<Slot> {
        let may_be = request.pinned.is_none() && (!request.in_dialog || request.method == Method::Ack);
        if self.is_empty() || !may_be {
            return None;
        }
        self.of(copies_key(&step.edge.tokens, arrival.message, arrival.flow.peer), step.balancer)
    }

    /// The next hop that a copy of the request with this key, or its INVITE, went to, as long as that is a node in
    /// use.
    pub(crate) fn of(&self, key: u64, balancer: &Balancer) -> Option<Slot> {
        let (slot, _) = self.0.get(&key).copied()?;
        balancer.nodes().get(slot.index()).filter(|node| node.member).map(|_| slot)
    }

    /// A request, or a copy of one, goes to a next hop.
    pub(crate) fn note(&mut self, now: Instant, key: u64, slot: Slot) {
        let since = self.0.get(&key).map_or(now, |(_, since)| *since);
        self.0.insert(key, (slot, since));
    }

    /// Whether the first copy of a request went on before the key of new tokens changed.
    pub(crate) fn is_older_than_key(&self, edge: &Edge, message: &Message<'_>, from: SocketAddr) -> bool {
        let Some(rekeyed) = edge.rekeyed else { return false };
        let passed = self.0.get(&copies_key(&edge.tokens, message, from));
        passed.is_some_and(|(_, since)| *since <= rekeyed)
    }
}
