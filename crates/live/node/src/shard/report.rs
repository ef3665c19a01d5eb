//! Reports of a shard: counters, balancer, registrar, queues.

use super::state::Shard;
use crate::address::topology::AddressTable;
use crate::admission::{NeighbourReport, OverloadReport, TicketCounts};
use crate::forward::stateful::ProxyReport;
use crate::outcome::counters::{Drop, ShardCounters};
use crate::outcome::failure::FailureCause;
use crate::queue::QueueReport;
use crate::registrar::RegistrarReport;
use crate::site::sharing::SharingReport;
use crate::token::Tokens;
use crate::trace::failed::FailedRequest;
use crate::trace::ring::KeptFailure;
use balance::{Balancer, CallKey};
use base::{Instant, Ledger, Peer};

impl Shard {
    /// Returns the addresses in use.
    pub fn topology(&self) -> &AddressTable {
        &self.site.topology
    }

    /// Returns the tokens in use.
    pub fn tokens(&self) -> &Tokens {
        &self.site.tokens
    }

    /// Returns the balancer, with sessions, leases and policies.
    pub fn balancer(&self) -> &Balancer {
        &self.balancer
    }

    /// Returns the counts of messages so far.
    pub fn counters(&self) -> ShardCounters {
        let mut counters = self.site.counters.clone();
        counters.requests_forwarded += self.site.relayed.requests;
        counters.responses_forwarded += self.site.relayed.responses;
        let core = self.stateful.counters();
        counters.requests_forwarded += core.forwarded + core.retried + core.stateless;
        counters.responses_forwarded += core.relayed;
        if core.stray > 0 {
            *counters.drops.entry(Drop::ForeignResponse.reason()).or_default() += core.stray;
        }
        counters
    }

    /// Returns the last failed requests: first those that were refused at once, then those that were sent to a target,
    /// each oldest first.
    pub fn failures(&self) -> impl Iterator<Item = &KeptFailure> {
        self.site.failures.entries()
    }

    /// Records a connection whose handshake failed.
    pub fn handshake_failed(&mut self, now: Instant, peer: Peer, reason: &'static str, error: &str) {
        let cause = FailureCause::Handshake(reason);
        self.site.failures.note(now, peer.address.ip(), cause, false, || {
            FailedRequest::connection(now, peer, cause, error)
        });
    }

    /// Returns the counts of operations so far.
    pub fn ledger(&self) -> Ledger {
        self.site.ledger + self.stateful.ledger()
    }

    /// Returns the present state of overload control.
    pub fn overload_report(&mut self, now: Instant) -> OverloadReport {
        self.site.admission.overload.report(now)
    }

    /// Returns the present state of overload control for each neighbour.
    pub fn neighbour_reports(&self, now: Instant) -> Vec<NeighbourReport> {
        self.site.admission.overload.neighbours(now)
    }

    /// Returns the rules of the queue in front of the shard.
    pub fn triage(&self) -> overload::Triage {
        self.site.admission.overload.triage()
    }

    /// Returns whether messages that wait are handled in the order of their classes.
    pub fn has_triage(&self) -> bool {
        self.site.admission.overload.has_triage()
    }

    /// Returns the waiting time from which on a new request counts as late.
    pub fn late(&self) -> core::time::Duration {
        self.site.admission.overload.late()
    }

    /// Returns whether Resource-Priority is honoured in messages from this flow, since they come from a member or a
    /// neighbour.
    pub fn may_have_priority(&self, flow: base::Flow) -> bool {
        let is_member = self.site.topology.slot_at(flow.remote()).is_some();
        self.site.admission.overload.may_have_priority(flow.peer.ip(), is_member)
    }

    /// Returns the report on transactions, if a pool keeps transactions or has next hops.
    pub fn proxy_report(&self) -> Option<ProxyReport> {
        if !self.has_transactions() {
            return None;
        }
        let mut report = ProxyReport { sharing: self.sharing_report(), ..self.stateful.report() };
        report.counters.stateless += self.site.relayed.requests;
        report.counters.relayed += self.site.relayed.responses;
        Some(report)
    }

    /// Returns the number of transactions without a final response. Transactions that are both kept here and counted
    /// for a member count once.
    pub fn open_transactions(&self) -> usize {
        let (noted, kept) = (self.balancer.open_transactions(), self.stateful.unanswered());
        let are_both = self.pools.has_counted_transactions();
        let of_stores = self.registrar.as_ref().map_or(0, |registrar| registrar.waiting().requests().len());
        let waiting = of_stores + self.queues.as_ref().map_or(0, |queues| queues.waiting().count());
        waiting + if are_both { noted.max(kept) } else { noted + kept }
    }

    /// Calls `visit` for the calls and transactions that are kept here, for some more than once.
    pub fn calls(&self, mut visit: impl FnMut(CallKey)) {
        self.balancer.sessions(0, usize::MAX, |session| visit(session.key));
        let of_stores = self.registrar.iter().flat_map(|registrar| registrar.waiting().requests());
        for request in of_stores.chain(self.queues.iter().flat_map(|queues| queues.waiting())) {
            visit(self.site.tokens.call_key(wire::peek_call_id(request).unwrap_or_default()));
        }
        self.stateful.calls(&self.site).for_each(visit);
    }

    /// Returns the calls in progress of pools with dialogs; `None` if there are no such pools.
    pub fn kept_calls(&self) -> Option<&dialog::Calls> {
        self.stateful.kept_calls()
    }

    /// Checks that every load is the sum of its leases, and that each open ticket belongs to a request in progress.
    ///
    /// # Errors
    /// The text says which load or how many tickets differ.
    pub fn audit(&self) -> Result<(), String> {
        self.balancer.audit()?;
        let of_stores = self.registrar.as_ref().map_or(0, |registrar| registrar.waiting().tickets());
        let in_queues = self.queues.as_ref().map_or(0, |queues| queues.tickets());
        let (held, open) =
            (of_stores + in_queues + self.stateful.tickets(), self.site.admission.tickets.open());
        if held as u64 == open {
            Ok(())
        } else {
            Err(format!("{open} tickets are open, and requests hold {held}"))
        }
    }

    /// Returns the counts of tickets, and of how they ended.
    pub fn tickets(&self) -> &TicketCounts {
        &self.site.admission.tickets
    }

    /// Returns the state of the registrar, if there is one.
    pub fn registrar_report(&self) -> Option<RegistrarReport> {
        self.registrar.as_ref().map(|registrar| registrar.report())
    }

    /// Returns the state of the queues, by number of the pool.
    pub fn queue_reports(&self) -> Vec<Option<QueueReport>> {
        self.queues.as_ref().map(|queues| queues.reports(self.site.now)).unwrap_or_default()
    }

    pub(crate) fn sharing_report(&self) -> Option<SharingReport> {
        self.site.sharing.as_ref().map(|sharing| sharing.report())
    }

    /// Returns whether the shard keeps transactions. Then it must be told of datagrams that did not arrive
    /// ([`ShardInput::Unreachable`](crate::ShardInput::Unreachable)).
    pub fn has_transactions(&self) -> bool {
        self.stateful.is_in_use()
    }

    /// Returns how often the shard needs [`ShardInput::Period`](crate::ShardInput::Period). `None`: the state of calls
    /// is not shared out.
    pub fn sharing_period(&self) -> Option<core::time::Duration> {
        self.site.sharing.as_ref().map(|sharing| sharing.distributor.settings().period)
    }
}
