//! Views of a shard: counters, balancer, reports.

use crate::admission::{NeighbourReport, OverloadReport, TicketCounts};
use crate::counters::{Drop, ShardCounters};
use crate::forward::stateful::ProxyReport;
use crate::home::HomeReport;
use crate::queue::QueueReport;
use crate::shard::Shard;
use crate::sharing::SharingReport;
use crate::token::Tokens;
use crate::topology::Topology;
use balance::{Balancer, CallKey};
use base::{Instant, Ledger};

impl Shard {
    /// The addresses in use.
    pub fn topology(&self) -> &Topology {
        &self.edge.topology
    }

    /// The tokens in use.
    pub fn tokens(&self) -> &Tokens {
        &self.edge.tokens
    }

    /// Sessions, leases and the policy.
    pub fn balancer(&self) -> &Balancer {
        &self.balancer
    }

    /// Counts of messages so far.
    pub fn counters(&self) -> ShardCounters {
        let mut counters = self.edge.counters.clone();
        counters.requests_forwarded += self.edge.relayed.requests;
        counters.responses_forwarded += self.edge.relayed.responses;
        let core = self.stateful.counters();
        counters.requests_forwarded += core.forwarded + core.retried + core.stateless;
        counters.responses_forwarded += core.relayed;
        if core.stray > 0 {
            *counters.drops.entry(Drop::ForeignResponse.reason()).or_default() += core.stray;
        }
        counters
    }

    /// Counts of the operations so far.
    pub fn ledger(&self) -> Ledger {
        self.edge.ledger + self.stateful.ledger()
    }

    /// Overload control as it is now.
    pub fn overload_report(&mut self, now: Instant) -> OverloadReport {
        self.edge.gate.overload.report(now)
    }

    /// Overload control with each neighbour, as it is now.
    pub fn neighbour_reports(&self, now: Instant) -> Vec<NeighbourReport> {
        self.edge.gate.overload.neighbours(now)
    }

    /// The rules of the queue in front of the shard, if there is to be one.
    pub fn triage(&self) -> Option<overload::Triage> {
        self.edge.gate.overload.triage()
    }

    /// The wait from which on a new request is late.
    pub fn late(&self) -> core::time::Duration {
        self.edge.gate.overload.late()
    }

    /// Whether the Resource-Priority of what comes by this flow counts: it is a member's or a neighbour's.
    pub fn may_have_priority(&self, flow: base::Flow) -> bool {
        let is_member = self.edge.topology.slot_at(flow.remote()).is_some();
        self.edge.gate.overload.may_have_priority(flow.peer.ip(), is_member)
    }

    /// New requests that overload control has refused.
    pub fn refused_by_overload(&self) -> u64 {
        self.edge.gate.overload.refused()
    }

    /// What is kept of transactions, if a pool is forwarded to with them, or has next hops.
    pub fn proxy_report(&self) -> Option<ProxyReport> {
        if !self.has_transactions() {
            return None;
        }
        let mut report = ProxyReport { sharing: self.sharing_report(), ..self.stateful.report() };
        report.counters.stateless += self.edge.relayed.requests;
        report.counters.relayed += self.edge.relayed.responses;
        Some(report)
    }

    /// Transactions without a final response. Of those that are kept and counted for a member as well, both know.
    pub fn open_transactions(&self) -> usize {
        let (noted, kept) = (self.balancer.open_transactions(), self.stateful.unanswered());
        let are_both = self.pools.has_counted_transactions();
        let at_home = self.home.as_ref().map_or(0, |home| home.waiting().requests().len());
        let waiting = at_home + self.queues.as_ref().map_or(0, |queues| queues.waiting().count());
        waiting + if are_both { noted.max(kept) } else { noted + kept }
    }

    /// The calls and transactions that are kept here, some more than once.
    pub fn calls(&self, mut visit: impl FnMut(CallKey)) {
        self.balancer.sessions(0, usize::MAX, |session| visit(session.key));
        let at_home = self.home.iter().flat_map(|home| home.waiting().requests());
        for request in at_home.chain(self.queues.iter().flat_map(|queues| queues.waiting())) {
            visit(self.edge.tokens.call_key(wire::peek_call_id(request).unwrap_or_default()));
        }
        self.stateful.calls(&self.edge).for_each(visit);
    }

    /// Checks that every load is the sum of its leases, and that each ticket that has not ended belongs to a request under way.
    ///
    /// # Errors
    /// Says which load or how many tickets differ.
    pub fn audit(&self) -> Result<(), String> {
        self.balancer.audit()?;
        let at_home = self.home.as_ref().map_or(0, |home| home.waiting().tickets());
        let in_queues = self.queues.as_ref().map_or(0, |queues| queues.tickets());
        let (held, open) = (at_home + in_queues + self.stateful.tickets(), self.edge.gate.tickets().open());
        if held as u64 == open {
            Ok(())
        } else {
            Err(format!("{open} tickets are open, and requests hold {held}"))
        }
    }

    /// The tickets that requests were given, and how they ended.
    pub fn tickets(&self) -> &TicketCounts {
        self.edge.gate.tickets()
    }

    /// How the home domain does, if there is one.
    pub fn home_report(&self) -> Option<HomeReport> {
        self.home.as_ref().map(|home| home.report())
    }

    /// How the queues of the pools do, by their number.
    pub fn queue_reports(&self) -> Vec<Option<QueueReport>> {
        self.queues.as_ref().map(|queues| queues.reports(self.edge.now)).unwrap_or_default()
    }

    pub(crate) fn sharing_report(&self) -> Option<SharingReport> {
        self.edge.sharing.as_ref().map(|sharing| sharing.report())
    }

    /// Whether it keeps transactions, which are to hear of datagrams that did not arrive ([`ShardInput::Unreachable`](crate::ShardInput::Unreachable)).
    pub fn has_transactions(&self) -> bool {
        self.stateful.is_in_use()
    }

    /// How often it has to hear of a period that is over ([`ShardInput::Period`](crate::ShardInput::Period)), where
    /// the state of calls is shared out.
    pub fn sharing_period(&self) -> Option<core::time::Duration> {
        self.edge.sharing.as_ref().map(|sharing| sharing.distributor.settings().period)
    }
}
