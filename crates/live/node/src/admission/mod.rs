//! The gate: may a request begin something here?
//!
//! It is asked once a request. Access lists come first ([`lets_in`]): they look at the source alone. The rest is
//! asked when it is known where the request goes ([`Step::admit`](crate::step::Step::admit)): is the process about to
//! stop, is there time to serve the request, have the transactions room, has the source begun all that it may? A
//! request that may go on gets a [`Ticket`], and keeps it through all waits.

mod begun;
mod feedback;
mod neighbours;
mod overload;
mod ticket;

use crate::rejection::{Refuser, Rejection, refuse};
use crate::token::Tokens;
use balance::{Balancer, Request};
use base::{Flow, Instant};
pub(crate) use begun::{Asker, Begins};
use begun::{Begun, Fate, LATEST, RequestKeys};
pub use neighbours::NeighbourReport;
pub(crate) use neighbours::{NEXT_HOP_OVERLOADED, class_of};
pub(crate) use overload::Overload;
pub use overload::{Judged, OverloadControl, OverloadReport};
use route::{Access, Exceeded, RateLimits, RateSettings, Refusal};
use std::net::{IpAddr, SocketAddr};
pub(crate) use ticket::Ticket;
pub use ticket::TicketCounts;
use wire::{Message, Method};

/// Whether the access list of its listener lets a source send requests. It is not asked of members, nor within a
/// dialog whose token holds.
pub(crate) fn lets_in(access: &[Access], flow: Flow) -> Result<(), Rejection> {
    match access.get(usize::from(flow.listener)) {
        Some(access) if !access.admits(flow.peer.ip()) => Err(Refuser::Listener(flow.listener).into()),
        _ => Ok(()),
    }
}

/// What a request begins, and the keys by which it is remembered, where anybody is charged for what is begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) begins: Begins,
    keys: Option<RequestKeys>,
}

impl Charge {
    const NOTHING: Self = Self { begins: Begins::Nothing, keys: None };
}

/// What sources may begin, what was begun of late, and the tickets of a shard.
pub(crate) struct Gate {
    rates: RateLimits,
    begun: Begun,
    tickets: TicketCounts,
    pub(crate) overload: Overload,
}

impl Gate {
    /// Without limits. `key` spreads the sources over the buckets.
    pub(crate) fn new(key: [u64; 2]) -> Self {
        let rates = RateLimits::new(RateSettings::default(), key);
        let overload = Overload::new(key[0] ^ key[1]);
        Self { rates, begun: Begun::default(), tickets: TicketCounts::default(), overload }
    }

    /// Changes how much each source may begin.
    pub(crate) fn configure(&mut self, rates: RateSettings) {
        self.rates.configure(rates);
    }

    /// Takes over, after a reload, whether sources are charged: where `[access.rate]` says so, and where a pool has a
    /// queue (`has_queues`). Elsewhere no copies are remembered, and the session store tells what is new.
    pub(crate) fn set_charging(&mut self, now: Instant, has_queues: bool) {
        let is_on = !self.rates.is_open() || has_queues;
        self.begun.charge(is_on.then_some(now));
    }

    /// What a request begins whose responses go to `target`.
    pub(crate) fn charge(
        &self,
        now: Instant,
        tokens: &Tokens,
        (message, request, target): (&Message<'_>, &Request<'_>, SocketAddr),
        balancer: &Balancer,
    ) -> Charge {
        let is_part = matches!(request.method, Method::Ack | Method::Cancel)
            || request.in_dialog
            || request.pinned.is_some();
        if is_part {
            return Charge::NOTHING;
        }
        let Some(since) = self.begun.since() else {
            let is_known = request.method == Method::Invite && balancer.session_of(request).is_some();
            return Charge { begins: if is_known { Begins::Again } else { Begins::New }, keys: None };
        };
        let keys = RequestKeys::new(tokens, message, request, target);
        let mut begins = self.begun.of(now, &keys);
        // A reload has set a limit while this was under way already.
        if begins == Begins::New && now.saturating_since(since) < LATEST {
            let session = balancer.session_of(request);
            begins = session.filter(|session| session.created < since).map_or(begins, |_| Begins::Again);
        }
        Charge { begins, keys: Some(keys) }
    }

    /// Charges a source for what its request begins, before anything is done for the request.
    ///
    /// A ticket is for what is new: none is given to what is part of something, nor to the retransmission of a
    /// request that went on with one.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        source: IpAddr,
        charge: &Charge,
    ) -> Result<Option<Ticket>, Rejection> {
        if let Some(keys) = &charge.keys {
            if charge.begins == Begins::New {
                self.rates.pass(now, source).map_err(refuse)?;
            }
            self.begun.take(keys, charge.begins);
        }
        let is_new = matches!(charge.begins, Begins::New | Begins::Anew | Begins::Follows(_));
        Ok(is_new.then(|| self.tickets.give()))
    }

    /// A request goes on.
    pub(crate) fn goes_on(&mut self, now: Instant, charge: &Charge) {
        self.ends(now, charge, Fate::Forwarded);
    }

    /// A request is dropped, and its sender hears nothing: its retransmissions are not charged again.
    pub(crate) fn drops(&mut self, now: Instant, charge: &Charge) {
        self.ends(now, charge, Fate::Dropped);
    }

    fn ends(&mut self, now: Instant, charge: &Charge, fate: Fate) {
        if let Some(keys) = &charge.keys {
            self.begun.end(now, keys, charge.begins, fate);
        }
    }

    /// An answer of this proxy goes back.
    pub(crate) fn answered(&mut self, tokens: &Tokens, message: &Message<'_>, status: u16) {
        self.begun.answered(tokens, message, (Asker::Here, status));
    }

    /// A response of a member or next hop goes back.
    pub(crate) fn heard(&mut self, tokens: &Tokens, response: &Message<'_>) {
        self.begun.heard(tokens, response);
    }

    /// The limit that keeps a source from beginning more now.
    pub(crate) fn exceeded(&self, now: Instant, source: IpAddr) -> Option<(Exceeded, Refusal)> {
        self.rates.exceeded(now, source).map(|exceeded| (exceeded, self.rates.refusal()))
    }

    /// The tickets that were given, and how they ended.
    pub(crate) fn tickets(&self) -> &TicketCounts {
        &self.tickets
    }
}
