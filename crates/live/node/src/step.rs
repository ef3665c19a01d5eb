//! The parts of a shard that one step uses.

use crate::admission::Novelty;
use crate::outcome::event::ShardEvent;
use crate::outcome::rejection::{OwnResponse, Rejection};
use crate::queue::Queues;
use crate::read::arrival::Arrival;
use crate::seen::RequestKey;
use crate::site::Site;
use crate::site::pools::Pools;
use crate::site::reply::{answer, reject};
use crate::token::KeyIndex;
use balance::{Balancer, PoolId, RequestFacts};
use base::{Flow, Instant, Outbox};
use core::time::Duration;
use wire::{Message, Method};

/// Parts of a shard that every way of forwarding uses, and the outbox of the step.
pub(crate) struct Step<'a> {
    pub(crate) site: &'a mut Site,
    pub(crate) balancer: &'a mut Balancer,
    pub(crate) pools: &'a Pools,
    pub(crate) queues: Option<&'a mut Queues>,
    pub(crate) out: &'a mut Outbox<ShardEvent>,
}

impl Step<'_> {
    /// Answers a request from this process, statelessly (RFC 3261 §8.2.7).
    pub(crate) fn answer(&mut self, flow: Flow, message: &Message<'_>, own: OwnResponse<'_>) {
        answer(self.site, flow, message, own, self.out);
    }

    /// Answers or drops a request that is not forwarded. `seen` is its key, if already computed.
    pub(crate) fn reject(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        seen: Option<RequestKey>,
        rejection: Rejection,
    ) {
        reject(self.site, flow, message, seen, rejection, self.out);
    }

    /// Returns whether a request is new: it belongs to no dialog, session or other request.
    pub(crate) fn is_new(&self, request: &RequestFacts<'_>) -> bool {
        !request.in_dialog
            && request.pinned.is_none()
            && !matches!(request.method, Method::Ack | Method::Cancel)
            && self.balancer.session_of(request).is_none()
    }

    /// If the process is stopping and therefore refuses this request, returns the time when it ends. A BYE is never
    /// refused, because it ends a call.
    pub(crate) fn stops(&self, request: &RequestFacts<'_>) -> Option<Instant> {
        self.site.settings.stopping.filter(|_| request.method != Method::Bye && self.is_new(request))
    }

    /// Returns how long a member of `pool` may leave an INVITE of this rule without a response. `None`: no limit.
    pub(crate) fn invite_timeout(&self, rule: Option<usize>, pool: PoolId) -> Option<Duration> {
        let of_rule = rule.and_then(|rule| self.site.routes.pools(rule)?.failover.invite_timeout);
        let timeout = of_rule.unwrap_or_else(|| self.pools.invite_timeout(pool));
        (!timeout.is_zero()).then_some(timeout)
    }

    /// Returns whether a request is new, a copy of an earlier one, a retry with credentials, or part of a known call.
    pub(crate) fn novelty(&self, arrival: &Arrival<'_>, request: &RequestFacts<'_>) -> Novelty {
        let Site { admission, tokens, now, .. } = &*self.site;
        admission.novelty(*now, tokens, arrival.message, request, arrival.earlier.as_ref(), self.balancer)
    }

    /// Returns the key of a request's branch: the key of its token, or the key that was current when its session began.
    /// A CANCEL or a retransmission must have the branch that its node knows (RFC 3261 §16.11). A session that is not
    /// in the table counts as one that begins now.
    pub(crate) fn key(&self, arrival: &Arrival<'_>, request: &RequestFacts<'_>) -> KeyIndex {
        let created = || self.balancer.session_of(request).map_or(self.site.now, |session| session.created);
        arrival.held().map_or_else(|| self.site.key_since(created), |held| held.key)
    }
}
