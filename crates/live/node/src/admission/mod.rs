//! Rates of sources, overload control and tickets, used by the gate (`gate.rs`).

mod feedback;
mod neighbours;
mod novelty;
mod overload;
mod ticket;

use crate::outcome::rejection::{Rejection, refuse};
use crate::seen::{COPIES_LAST, Earlier, RequestResult};
use crate::token::Tokens;
use crate::token::dialog::VerifiedToken;
use balance::{Balancer, RequestFacts};
use base::Instant;
pub use neighbours::NeighbourReport;
pub(crate) use neighbours::{NEXT_HOP_OVERLOADED, class_in_dialog, class_of};
pub(crate) use novelty::{Challenger, Novelty};
use novelty::{Retries, RetryKey};
pub(crate) use overload::Overload;
pub use overload::{OverloadControl, OverloadCounts, OverloadReport};
use route::{AccessRefusal, Exceeded, RateLimits, RateSettings};
use std::net::IpAddr;
pub(crate) use ticket::Ticket;
pub use ticket::TicketCounts;
use wire::{Message, Method};

/// Rates of sources, overload control, and the tickets of a shard. A [`Ticket`] is the permission to forward a request,
/// counted until the outcome of the request is known.
pub(crate) struct Admission {
    rates: RateLimits,
    retries: Retries,
    pub(crate) tickets: TicketCounts,
    pub(crate) overload: Overload,
}

impl Admission {
    /// Creates the state without limits. `key` distributes the sources over the buckets.
    pub(crate) fn new(key: [u64; 2]) -> Self {
        let rates = RateLimits::new(RateSettings::default(), key);
        let overload = Overload::new(key[0] ^ key[1]);
        Self { rates, retries: Retries::default(), tickets: TicketCounts::default(), overload }
    }

    /// Changes the rate limits of sources.
    pub(crate) fn configure(&mut self, rates: RateSettings) {
        self.rates.configure(rates);
    }

    /// Sets, after a reload, whether requests are remembered. They are remembered if copies do not count for
    /// `[access.rate]`, or if a pool has a queue (`has_queues`). Otherwise the session store shows which requests are
    /// new.
    pub(crate) fn set_charging(&mut self, now: Instant, has_queues: bool) {
        let is_on = self.rates.spares_copies() || has_queues;
        self.retries.remember(is_on.then_some(now));
    }

    /// Returns whether requests are remembered, so that charged requests are known.
    pub(crate) fn is_charging(&self) -> bool {
        self.retries.since().is_some()
    }

    /// Returns whether a request is new. `earlier` is its first copy, if known.
    pub(crate) fn novelty(
        &self,
        now: Instant,
        tokens: &Tokens,
        message: &Message<'_>,
        request: &RequestFacts<'_>,
        earlier: Option<&Earlier>,
        balancer: &Balancer,
    ) -> Novelty {
        let is_part = matches!(request.method, Method::Ack | Method::Cancel)
            || request.in_dialog
            || request.pinned.is_some();
        if is_part {
            return Novelty::Part;
        }
        let Some(since) = self.retries.since() else {
            let is_known = request.method == Method::Invite && balancer.session_of(request).is_some();
            return if is_known { Novelty::Copy } else { Novelty::New };
        };
        match earlier.filter(|earlier| earlier.is_free(now)).map(|earlier| &earlier.became) {
            Some(RequestResult::Forwarded(_)) => return Novelty::Copy,
            Some(RequestResult::Dropped) => return Novelty::CopyOfDropped,
            Some(RequestResult::Refused(_)) | None => {}
        }
        if let Some(by) = self.retries.followed(&RetryKey::new(tokens, message, request)) {
            return Novelty::Retry(by);
        }
        // The request may have started before a reload set the limit.
        let is_young = now.saturating_since(since) < COPIES_LAST;
        let session = if is_young { balancer.session_of(request) } else { None };
        if session.is_some_and(|session| session.created < since) { Novelty::Copy } else { Novelty::New }
    }

    /// Charges the source for a new request, before any work on it. Overload control comes afterwards, so that one
    /// source cannot make it refuse the requests of other sources.
    pub(crate) fn charge(&mut self, now: Instant, source: IpAddr, novelty: Novelty) -> Result<(), Rejection> {
        if novelty == Novelty::New { self.rates.pass(now, source).map_err(refuse) } else { Ok(()) }
    }

    /// Returns the ticket of an admitted request.
    pub(crate) fn give_ticket(
        &mut self,
        tokens: &Tokens,
        message: &Message<'_>,
        request: &RequestFacts<'_>,
        novelty: Novelty,
    ) -> Ticket {
        if self.is_charging() && novelty != Novelty::Part {
            self.retries.take(&RetryKey::new(tokens, message, request), novelty);
        }
        self.tickets.give(novelty)
    }

    /// Returns the ticket of a request whose token proves its dialog. The dialog was admitted before.
    pub(crate) fn admit_proven(&mut self, _: &VerifiedToken) -> Ticket {
        self.tickets.give(Novelty::Part)
    }

    /// Records a response of this proxy, a member or a next hop.
    pub(crate) fn answered(&mut self, tokens: &Tokens, message: &Message<'_>, by: Challenger, status: u16) {
        self.retries.answered(tokens, message, by, status);
    }

    /// Returns the limit that a source has reached now, if any.
    pub(crate) fn exceeded(&self, now: Instant, source: IpAddr) -> Option<(Exceeded, AccessRefusal)> {
        self.rates.exceeded(now, source).map(|exceeded| (exceeded, self.rates.refusal()))
    }
}
