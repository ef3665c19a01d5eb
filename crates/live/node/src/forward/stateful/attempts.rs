//! Which member of a pool a request goes to, and which one next when that has failed.

use super::editor::{Received, Way, Wire};
use super::moves::{Moved, SECOND};
use crate::Routes;
use crate::forward::Stay;
use crate::queue::Queues;
use ::proxy::{Attempt, ProxyEvent, ProxyRefusal, Router};
use ::route::{Budget, BudgetSettings, Dialogs, Failover, Fork, Outcome, Pools, Target};
use arrayvec::ArrayVec;
use balance::{Balancer, Decision, PoolId, Request, Slot};
use base::{Flow, Instant};
use core::time::Duration;
use std::sync::Arc;
use wire::Method;

/// How long a member that the network calls unreachable is the last to be asked.
const PAUSE: Duration = Duration::from_secs(32);

/// Most members that a request is sent to one after the other because they fail: nobody waits for more.
const MOST: usize = 8;

/// Most members that a request can be sent to: as many as it can have branches.
const MOST_FORKED: usize = 15;

/// How often a request is sent again to an address that is no next hop and that nothing came from: enough for a loss or
/// two, and what somebody else pays who was named there without being asked.
pub(super) const UNHEARD_REPEATS: u8 = 2;

/// A request that a member of a pool gets, and the next one if that fails.
pub(crate) struct Assigned {
    /// What it is to the balancer, but for the Call-ID, which is in the message.
    pub(crate) request: Request<'static>,
    pub(crate) dialogs: Dialogs,
    pub(crate) stay: Stay,
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
    fn others(&self) -> Vec<PoolId> {
        let order = self.pools().into_iter().flat_map(|pools| pools.order(self.request.key.0)).map(PoolId);
        let rest: Vec<_> = order.skip_while(|pool| *pool != self.request.pool).skip(1).collect();
        rest
    }

    /// The pools that a request may be tried in: the present one, and those after it that its rule lets it go on to.
    fn pools_left(&self, outcome: Outcome) -> Vec<PoolId> {
        let present = self.request.pool;
        let others = if self.goes_on(outcome) { self.others() } else { Vec::new() };
        [present].into_iter().chain(others).collect()
    }

    /// Of a request that forks: the pools whose members may get it as the next group, the present one first where its members
    /// are tried one by one. What a member answers makes no difference: that is what they ring for.
    fn pools_ahead(&self) -> impl Iterator<Item = PoolId> + use<> {
        let present = (self.fork == Fork::Sequential).then_some(self.request.pool);
        let may_go_on = self.pools().is_some_and(|pools| self.pools < pools.failover.attempts);
        let others = if may_go_on { self.others() } else { Vec::new() };
        present.into_iter().chain(others)
    }

    fn goes_on(&self, outcome: Outcome) -> bool {
        self.pools().is_some_and(|pools| pools.failover.goes_on(outcome, self.pools))
    }
}

/// How many requests may be tried again, by rule; last, for those without one.
pub(crate) struct Budgets(Vec<Budget>);

impl Default for Budgets {
    fn default() -> Self {
        Self(vec![Budget::new(BudgetSettings::default())])
    }
}

impl Budgets {
    /// Takes over those of the rules; `shards` share them.
    pub(crate) fn configure(&mut self, routes: &Routes, shards: usize) {
        let of_rule = |rule: &::route::Rule| match &rule.target {
            Target::Pools(pools) => pools.failover.budget,
            Target::RequestUri | Target::Location | Target::Answer(_) | Target::Silence => {
                BudgetSettings::default()
            }
        };
        let rules = routes.table.rules().iter().map(of_rule);
        let all = rules.chain([Failover::default().budget]).map(|budget| budget.share(shards));
        let mut kept = core::mem::take(&mut self.0).into_iter();
        self.0 = all
            .map(|settings| match kept.next() {
                Some(mut budget) => {
                    budget.configure(settings);
                    budget
                }
                None => Budget::new(settings),
            })
            .collect();
    }

    pub(crate) fn of(&mut self, rule: Option<usize>) -> &mut Budget {
        let last = self.0.len() - 1;
        &mut self.0[rule.map_or(last, |rule| rule.min(last))]
    }
}

/// Says where requests go: to the members that the balancer chooses.
pub(crate) struct Assigner<'a> {
    pub(crate) now: Instant,
    pub(crate) balancer: &'a mut Balancer,
    /// Who of a pool has room for what another member leaves unanswered.
    pub(crate) queues: Option<&'a mut Queues>,
    /// The ways to the members, by slot.
    pub(crate) members: &'a [Flow],
    pub(crate) budgets: &'a mut Budgets,
}

impl Assigner<'_> {
    /// The next one that a request is tried with, at this attempt, after the one before has failed.
    fn next(
        &mut self,
        assigned: &mut Assigned,
        attempt: Attempt,
        is_noted: bool,
        call_id: &[u8],
    ) -> Option<Slot> {
        // Whoever has answered anything else first has the request.
        let before = Attempt { alternate: attempt.alternate - 1, ..attempt };
        let (_, outcome) = assigned.failed.take().filter(|(failed, _)| *failed == before)?;
        let rule = assigned.rule.as_ref().map(|(_, rule)| *rule);
        let may_have_others = !assigned.is_fixed && assigned.tried.len() < MOST;
        let is_of_budget = outcome.was_sent();
        if !may_have_others || (is_of_budget && !self.budgets.of(rule).may_retry(self.now)) {
            return None;
        }
        let pools = assigned.pools_left(outcome);
        // Those whose members are known to live come first; else one may be alive though nobody knows.
        let (tried, method) = (&assigned.tried, assigned.request.method);
        let (live, doubtful): (Vec<_>, Vec<_>) =
            pools.into_iter().partition(|pool| self.balancer.takes(self.now, *pool, method, tried, false));
        let mut pools = live.into_iter().chain(doubtful);
        let chosen =
            pools.find_map(|pool| self.another(assigned, pool, is_noted, call_id).map(|slot| (pool, slot)));
        let (pool, slot) = chosen?;
        if is_of_budget {
            self.budgets.of(rule).retry(self.now);
        }
        assigned.pools += u8::from(pool != assigned.request.pool);
        assigned.request.pool = pool;
        assigned.patience = None;
        assigned.give(self.now, attempt, slot);
        Some(slot)
    }

    /// Chooses the members of the next group of a request that forks; those of the first group come after the one that is chosen
    /// already. Returns how many there are, at most `most`. Only such members as are known to live.
    fn group(&mut self, assigned: &mut Assigned, is_first: bool, most: u8, call_id: &[u8]) -> u8 {
        let (before, method) = (assigned.tried.len() - usize::from(is_first), assigned.request.method);
        if !is_first {
            let takes = |pool: &PoolId| self.balancer.takes(self.now, *pool, method, &assigned.tried, false);
            let Some(pool) = assigned.pools_ahead().find(takes) else { return 0 };
            assigned.pools += u8::from(pool != assigned.request.pool);
            assigned.request.pool = pool;
        }
        let pool = assigned.request.pool;
        let most = if assigned.fork == Fork::Parallel { usize::from(most) } else { 1 };
        while assigned.tried.len() - before < most
            && !assigned.tried.is_full()
            && self.balancer.takes(self.now, pool, method, &assigned.tried, false)
            && let Some(slot) = self.another(assigned, pool, false, call_id)
        {
            assigned.tried.push(slot);
        }
        (assigned.tried.len() - before) as u8
    }

    fn another(&mut self, assigned: &Assigned, pool: PoolId, is_noted: bool, call_id: &[u8]) -> Option<Slot> {
        let request = Request { pool, call_id, ..assigned.request };
        let decision = if is_noted {
            self.balancer.again(self.now, &request, &assigned.tried)
        } else {
            self.balancer.pick(self.now, &request, &assigned.tried)
        };
        if let Decision::Forward { slot, .. } = decision { Some(slot) } else { None }
    }
}

impl Router<Wire> for Assigner<'_> {
    fn next_group(&mut self, request: &mut Received, group: u8, most: u8) -> u8 {
        let is_first = group == 0;
        match &mut request.way {
            Way::Pool(assigned) if assigned.fork != Fork::None => {
                let message = wire::scan(&request.bytes).expect("it was read when it came in");
                self.group(assigned, is_first, most, message.call_id())
            }
            Way::Contacts(located) => located.next_group(most),
            Way::Pool(_) | Way::There(..) => u8::from(is_first),
        }
    }

    fn has_group(&self, request: &Received, _: u8) -> bool {
        let assigned = match &request.way {
            Way::There(..) => return false,
            Way::Contacts(located) => return located.has_group(),
            Way::Pool(assigned) => assigned,
        };
        let method = assigned.request.method;
        let takes = |pool| self.balancer.takes(self.now, pool, method, &assigned.tried, false);
        assigned.fork != Fork::None && !assigned.tried.is_full() && assigned.pools_ahead().any(takes)
    }

    fn ring_time(&self, request: &Received) -> Option<Duration> {
        let assigned = match &request.way {
            Way::There(..) => return None,
            Way::Contacts(located) => return Some(located.ring_time),
            Way::Pool(assigned) => assigned,
        };
        (assigned.fork != Fork::None).then_some(assigned.ring_time)
    }

    fn next_hop(&mut self, request: &mut Received, attempt: Attempt) -> Result<Flow, ProxyRefusal> {
        let is_first = attempt == Attempt::default();
        let assigned = match &mut request.way {
            Way::There(flow, _) => return if is_first { Ok(*flow) } else { Err(ProxyRefusal(500)) },
            Way::Contacts(located) => return located.hop(attempt).ok_or(ProxyRefusal(500)),
            Way::Pool(assigned) => assigned,
        };
        if attempt == SECOND && assigned.fork == Fork::None {
            let message = wire::scan(&request.bytes).expect("it was read when it came in");
            let slot = self.second(assigned, message.call_id()).ok_or(ProxyRefusal(500))?;
            self.balancer.count_request(self.now, slot, &assigned.request);
            return Ok(self.members[slot.index()]);
        }
        if attempt.alternate == 0 {
            let rule = assigned.rule.as_ref().map(|(_, rule)| *rule);
            if is_first && !matches!(assigned.request.method, Method::Ack | Method::Cancel) {
                self.budgets.of(rule).first(self.now);
            }
            let slot = assigned.slot_of(attempt).ok_or(ProxyRefusal(500))?;
            self.balancer.count_request(self.now, slot, &assigned.request);
            return Ok(self.members[slot.index()]);
        }
        let message = wire::scan(&request.bytes).expect("it was read when it came in");
        let is_noted = request.noted.is_some();
        let slot = self.next(assigned, attempt, is_noted, message.call_id()).ok_or(ProxyRefusal(500))?;
        self.balancer.count_request(self.now, slot, &assigned.request);
        Ok(self.members[slot.index()])
    }

    fn has_alternate(&self, request: &Received, _: Attempt) -> bool {
        let Way::Pool(assigned) = &request.way else { return false };
        let mut others =
            self.balancer.members(assigned.request.pool).filter(|slot| !assigned.tried.contains(slot));
        !assigned.is_fixed
            && assigned.fork == Fork::None
            && assigned.tried.len() < MOST
            && (others.next().is_some() || !assigned.others().is_empty())
    }

    fn patience(&self, request: &Received) -> Option<Duration> {
        match &request.way {
            Way::Pool(assigned) => assigned.patience,
            Way::There(..) | Way::Contacts(_) => None,
        }
    }

    fn won(&mut self, request: &mut Received, attempt: Attempt, is_cancelled: bool) {
        if let Way::Pool(assigned) = &mut request.way {
            let message = wire::scan(&request.bytes).expect("it was read when it came in");
            self.answers_first(assigned, attempt, is_cancelled, message.call_id());
        }
    }

    fn most_repeats(&self, request: &Received) -> Option<u8> {
        matches!(request.way, Way::There(_, false)).then_some(UNHEARD_REPEATS)
    }

    fn settled(&mut self, request: &mut Received, attempt: Attempt, event: ProxyEvent, _: bool) {
        let Way::Pool(assigned) = &mut request.way else { return };
        // Where there was no other one to be tried, it has been told.
        let Some(slot) = assigned.slot_of(attempt) else { return };
        match event {
            ProxyEvent::Response(503) => assigned.failed = Some((attempt, Outcome::Unavailable)),
            ProxyEvent::Timeout | ProxyEvent::Unreachable => {
                // Whom nothing has reached has no work with it: going on is no retry.
                let is_silent = event == ProxyEvent::Timeout;
                let outcome = if is_silent { Outcome::Timeout } else { Outcome::NoneAlive };
                assigned.failed = Some((attempt, outcome));
                // What a request has moved away from is watched by the balancer.
                if assigned.counts_with(slot) {
                    let since = assigned.since;
                    self.balancer.unanswered(self.now, slot, since, request.noted.as_deref());
                }
                if !is_silent {
                    self.not_sent(assigned, attempt);
                    self.balancer.unreachable(self.now, slot, self.now + PAUSE);
                }
            }
            ProxyEvent::Response(_) | ProxyEvent::TimerC | ProxyEvent::Cancelled => {}
        }
    }
}
