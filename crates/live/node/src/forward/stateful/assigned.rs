//! A request that goes to members of a pool: who has got it, and who may get it next.

use crate::forward::onward::RecordRoute;
use crate::routes::Routes;
use ::proxy::Attempt;
use arrayvec::ArrayVec;
use balance::{PoolId, Request, Slot};
use base::Instant;
use core::time::Duration;
use route::{Dialogs, Fork, Outcome, Pools};
use std::sync::Arc;

/// Most members that a request can be sent to: as many as it can have branches.
const MOST_FORKED: usize = 15;

/// A request that a member of a pool gets, and the next one if that fails.
pub(crate) struct Assigned {
    /// What it is to the balancer, but for the Call-ID, which is in the message.
    pub(crate) request: Request<'static>,
    pub(crate) dialogs: Dialogs,
    pub(crate) record_route: RecordRoute,
    /// Nobody else is to get it: it belongs to a dialog, or its Route names the member.
    pub(crate) is_fixed: bool,
    /// The rule that it goes by, as the table had it then.
    pub(crate) rule: Option<(Arc<Routes>, usize)>,
    /// To how many members at once.
    pub(crate) fork: Fork,
    /// How long a group of members rings before the next one does.
    pub(crate) ring_time: Duration,
    /// Who has got it, or does next. Without forking the present one is the last; with forking each has its branch.
    pub(crate) tried: ArrayVec<Slot, MOST_FORKED>,
    /// How many pools it was sent to.
    pub(crate) pools: u8,
    /// When it went to the present one.
    pub(crate) since: Instant,
    /// Which attempt has failed last, and how.
    pub(crate) failed: Option<(Attempt, Outcome)>,
    /// How long the first one may be silent before a second one gets it as well.
    pub(crate) patience: Option<Duration>,
    /// Whether a second one has.
    pub(crate) moved: Option<Moved>,
}

impl Assigned {
    fn pools(&self) -> Option<&Pools> {
        self.rule.as_ref().and_then(|(routes, rule)| routes.pools(*rule))
    }

    /// The pools that are tried after the present one.
    pub(super) fn others(&self) -> Vec<PoolId> {
        let order = self.pools().into_iter().flat_map(|pools| pools.order(self.request.key.0)).map(PoolId);
        let rest: Vec<_> = order.skip_while(|pool| *pool != self.request.pool).skip(1).collect();
        rest
    }

    /// The pools that a request may be tried in: the present one, and those after it that its rule lets it go on to.
    pub(super) fn pools_left(&self, outcome: Outcome) -> Vec<PoolId> {
        let present = self.request.pool;
        let others = if self.goes_on(outcome) { self.others() } else { Vec::new() };
        [present].into_iter().chain(others).collect()
    }

    /// Of a request that forks: the pools whose members may get it as the next group, the present one first where its
    /// members are tried one by one. What a member answers makes no difference: that is what they ring for.
    pub(super) fn pools_ahead(&self) -> impl Iterator<Item = PoolId> + use<> {
        let present = (self.fork == Fork::Sequential).then_some(self.request.pool);
        let may_go_on = self.pools().is_some_and(|pools| self.pools < pools.failover.attempts);
        let others = if may_go_on { self.others() } else { Vec::new() };
        present.into_iter().chain(others)
    }

    fn goes_on(&self, outcome: Outcome) -> bool {
        self.pools().is_some_and(|pools| pools.failover.goes_on(outcome, self.pools))
    }
}

/// The attempt that a request moves by.
pub(super) const SECOND: Attempt = Attempt { branch: 1, alternate: 0 };

/// A request that a second member has got because the first one was silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// When the first and the second one got it.
    pub(super) since: [Instant; 2],
    /// With whom it counts: the place among those tried.
    pub(super) holder: usize,
    /// The places of those that the second branch has tried, as bits.
    pub(super) by_second: u16,
}

impl Assigned {
    /// Whom an attempt has gone to. A request that forks has no alternates, one that does not has one branch, or two
    /// if it has moved.
    pub(super) fn slot_of(&self, attempt: Attempt) -> Option<Slot> {
        self.tried.get(self.place_of(attempt)?).copied()
    }

    pub(super) fn place_of(&self, attempt: Attempt) -> Option<usize> {
        let (branch, alternate) = (usize::from(attempt.branch), usize::from(attempt.alternate));
        let Some(moved) = &self.moved else { return Some(branch + alternate) };
        let is_of_it = |place: &usize| usize::from(moved.by_second >> place & 1) == branch;
        (0..self.tried.len()).filter(is_of_it).nth(alternate)
    }

    /// It goes to this member now, which counts it.
    pub(super) fn give(&mut self, now: Instant, attempt: Attempt, slot: Slot) {
        if let Some(moved) = &mut self.moved {
            moved.holder = self.tried.len();
            moved.by_second |= u16::from(attempt.branch == SECOND.branch) << self.tried.len();
        }
        self.tried.push(slot);
        self.since = now;
    }

    /// Whether the balancer counts it with this member.
    pub(super) fn counts_with(&self, slot: Slot) -> bool {
        self.moved.is_none_or(|moved| self.tried.get(moved.holder) == Some(&slot))
    }
}
