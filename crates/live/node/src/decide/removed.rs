//! Requests of a removed node that are still forwarded: those of its calls and of its open transactions.

use crate::outcome::rejection::{Refused, refused};
use crate::read::arrival::Arrival;
use crate::step::Step;
use balance::{Balancer, CallKey, Direction, NodeId, RequestFacts, Response, Slot};
use base::{Instant, Recent};
use core::time::Duration;
use wire::Method;

/// Number of failures in one generation. A removed node has only the calls that were ringing, and few of them fail.
const FAILURES: usize = 4_096;

/// Time in which a failure may be retransmitted, so that it needs another ACK: Timer H (RFC 3261 §17.2.1).
const TIMER_H: Duration = Duration::from_secs(32);

/// INVITEs of former members, by call, CSeq number and [`crate::Tokens::mark`], with the time when a failure response
/// went back. For the balancer their transactions have ended, but their ACKs have not come yet (RFC 3261 §17.1.1.3).
#[derive(Debug)]
pub(crate) struct Unacknowledged(Recent<(CallKey, u32, u32), Instant>);

impl Default for Unacknowledged {
    fn default() -> Self {
        Self(Recent::new(FAILURES))
    }
}

impl Unacknowledged {
    fn wants(&self, now: Instant, ack: &RequestFacts<'_>) -> bool {
        let failed = self.0.get(&(ack.key, ack.cseq, ack.branch));
        ack.method == Method::Ack && failed.is_some_and(|&at| now.saturating_since(at) <= TIMER_H)
    }
}

fn is_member(balancer: &Balancer, slot: Slot) -> bool {
    balancer.nodes()[slot.index()].member
}

impl Unacknowledged {
    /// Records a response to or from a node.
    pub(crate) fn note(&mut self, step: &Step<'_>, node: NodeId, response: &Response) {
        let Response { key, cseq, branch, .. } = *response;
        if response.direction == Direction::FromPool
            && response.method == Method::Invite
            && response.status >= 300
            && step.site.topology.slot(node).is_some_and(|slot| !is_member(step.balancer, slot))
        {
            self.0.insert((key, cseq, branch), step.site.now);
        }
    }

    /// Checks a request that a node sends out of the pool. A member may send it anywhere. A removed node may finish its
    /// transactions, and send requests of its dialogs to the target that the other party has named in the token.
    pub(crate) fn check_removed(
        &self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        request: &RequestFacts<'_>,
    ) -> Result<(), Refused> {
        let is_part = || step.balancer.is_open(request) || self.wants(step.site.now, request);
        if request.pinned.is_none_or(|slot| is_member(step.balancer, slot)) || is_part() {
            return Ok(());
        }
        let held = arrival.held().filter(|held| held.is_senders()).ok_or(refused(403, "Forbidden"))?;
        let target = arrival.route.target(arrival.message);
        let led = step.site.led(arrival.message, held, &target);
        led.map(drop).ok_or(refused(403, "Target Is Not Of This Dialog"))
    }
}
