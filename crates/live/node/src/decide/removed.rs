//! Which requests of a removed node are still relayed: those of its calls and of its open transactions.

use crate::outcome::rejection::{Refused, refused};
use crate::read::arrival::Arrival;
use crate::step::Step;
use balance::{Balancer, CallKey, Direction, NodeId, Request, Response, Slot};
use base::{Instant, Recent};
use core::time::Duration;
use wire::Method;

/// Failures a generation. A node that is taken out has calls that ring, and fewer of them fail.
const FAILURES: usize = 4_096;

/// How long a failure may come again and want another ACK: Timer H (RFC 3261 §17.2.1).
const TIMER_H: Duration = Duration::from_secs(32);

/// INVITEs of nodes that are no members any more, by call, CSeq number and [`crate::Tokens::mark`], and when a
/// failure of them went back. To the balancer their transactions are over; their ACKs are still to come (RFC 3261
/// §17.1.1.3).
#[derive(Debug)]
pub(crate) struct Unacknowledged(Recent<(CallKey, u32, u32), Instant>);

impl Default for Unacknowledged {
    fn default() -> Self {
        Self(Recent::new(FAILURES))
    }
}

impl Unacknowledged {
    fn wants(&self, now: Instant, ack: &Request<'_>) -> bool {
        let failed = self.0.get(&(ack.key, ack.cseq, ack.branch));
        ack.method == Method::Ack && failed.is_some_and(|&at| now.saturating_since(at) <= TIMER_H)
    }
}

fn is_member(balancer: &Balancer, slot: Slot) -> bool {
    balancer.nodes()[slot.index()].member
}

impl Unacknowledged {
    /// A response goes back to a node, or comes from it.
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

    /// A member is trusted: what it sends goes wherever it says. One that was taken out may end what it had begun,
    /// and have requests of its dialogs sent to whom the other party has named, as the token says.
    pub(crate) fn check_removed(
        &self,
        step: &mut Step<'_>,
        arrival: &Arrival<'_>,
        request: &Request<'_>,
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
