//! Rates of sources, overload control, and tickets: what the gate (`gate.rs`) uses.

mod feedback;
mod neighbours;
mod novelty;
mod overload;
mod ticket;

use crate::outcome::rejection::{Rejection, refuse};
use crate::seen::{Became, COPIES_LAST, Earlier};
use crate::token::Tokens;
use crate::token::dialog::VerifiedToken;
use balance::{Balancer, Request};
use base::Instant;
pub use neighbours::NeighbourReport;
pub(crate) use neighbours::{NEXT_HOP_OVERLOADED, class_in_dialog, class_of};
pub(crate) use novelty::{Challenger, Novelty};
use novelty::{Retries, RetryKey};
pub(crate) use overload::Overload;
pub use overload::{OverloadControl, OverloadCounts, OverloadReport};
use route::{Exceeded, RateLimits, RateSettings, Refusal};
use std::net::IpAddr;
pub(crate) use ticket::Ticket;
pub use ticket::TicketCounts;
use wire::{Message, Method};

/// Rates of sources, overload control, and the tickets of a shard.
pub(crate) struct Admission {
    rates: RateLimits,
    retries: Retries,
    pub(crate) tickets: TicketCounts,
    pub(crate) overload: Overload,
}

impl Admission {
    /// Without limits. `key` spreads the sources over the buckets.
    pub(crate) fn new(key: [u64; 2]) -> Self {
        let rates = RateLimits::new(RateSettings::default(), key);
        let overload = Overload::new(key[0] ^ key[1]);
        Self { rates, retries: Retries::default(), tickets: TicketCounts::default(), overload }
    }

    /// Changes how much each source may begin.
    pub(crate) fn configure(&mut self, rates: RateSettings) {
        self.rates.configure(rates);
    }

    /// Takes over, after a reload, whether requests are remembered: where copies do not count for `[access.rate]`, and
    /// where a pool has a queue (`has_queues`). Elsewhere the session store tells what is new.
    pub(crate) fn set_charging(&mut self, now: Instant, has_queues: bool) {
        let is_on = self.rates.spares_copies() || has_queues;
        self.retries.remember(is_on.then_some(now));
    }

    /// Whether requests are remembered, so that what is charged is known.
    pub(crate) fn is_charging(&self) -> bool {
        self.retries.since().is_some()
    }

    /// Whether a request is new. `earlier` is its first copy, if that is known.
    pub(crate) fn novelty(
        &self,
        now: Instant,
        tokens: &Tokens,
        message: &Message<'_>,
        request: &Request<'_>,
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
            Some(Became::Forwarded(_)) => return Novelty::Copy,
            Some(Became::Dropped) => return Novelty::CopyOfDropped,
            Some(Became::Refused(_)) | None => {}
        }
        if let Some(by) = self.retries.followed(&RetryKey::new(tokens, message, request)) {
            return Novelty::Retry(by);
        }
        // A reload has set a limit while this was under way already.
        let is_young = now.saturating_since(since) < COPIES_LAST;
        let session = if is_young { balancer.session_of(request) } else { None };
        if session.is_some_and(|session| session.created < since) { Novelty::Copy } else { Novelty::New }
    }

    /// Charges a source for what its request begins, before anything is done for the request. Overload control is asked
    /// after that, so that it does not refuse others for what one source sends.
    pub(crate) fn charge(&mut self, now: Instant, source: IpAddr, novelty: Novelty) -> Result<(), Rejection> {
        if novelty == Novelty::New { self.rates.pass(now, source).map_err(refuse) } else { Ok(()) }
    }

    /// The ticket of a request that may go on.
    pub(crate) fn give_ticket(
        &mut self,
        tokens: &Tokens,
        message: &Message<'_>,
        request: &Request<'_>,
        novelty: Novelty,
    ) -> Ticket {
        if self.is_charging() && novelty != Novelty::Part {
            self.retries.take(&RetryKey::new(tokens, message, request), novelty);
        }
        self.tickets.give(novelty)
    }

    /// The ticket of a request whose token proves its dialog: it is part of what was admitted.
    pub(crate) fn admit_proven(&mut self, _: &VerifiedToken) -> Ticket {
        self.tickets.give(Novelty::Part)
    }

    /// A response goes back, of this proxy or of a member or next hop.
    pub(crate) fn answered(&mut self, tokens: &Tokens, message: &Message<'_>, by: Challenger, status: u16) {
        self.retries.answered(tokens, message, by, status);
    }

    /// The limit that keeps a source from beginning more now.
    pub(crate) fn exceeded(&self, now: Instant, source: IpAddr) -> Option<(Exceeded, Refusal)> {
        self.rates.exceeded(now, source).map(|exceeded| (exceeded, self.rates.refusal()))
    }
}
