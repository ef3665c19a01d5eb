//! Which member of a pool a request goes to, and which one next when that has failed.

use super::editor::{Received, Way, Wire};
use crate::Routes;
use ::proxy::{ProxyEvent, ProxyRefusal, Router};
use ::route::{Budget, BudgetSettings, Dialogs, Failover, Outcome, Pools, Target};
use arrayvec::ArrayVec;
use balance::{Balancer, Decision, PoolId, Request, Slot};
use base::{Flow, Instant};
use core::time::Duration;
use std::sync::Arc;
use wire::Method;

/// How long a member that the network calls unreachable is the last to be asked.
const PAUSE: Duration = Duration::from_secs(32);

/// Most members that a request is sent to: nobody waits for more.
const MOST: usize = 8;

/// How often a request is sent again to an address that is no next hop and that nothing came from: enough for a loss or
/// two, and what somebody else pays who was named there without being asked.
const UNHEARD_REPEATS: u8 = 2;

/// A request that a member of a pool gets, and the next one if that fails.
pub(crate) struct Assigned {
    /// What it is to the balancer, but for the Call-ID, which is in the message.
    pub(crate) request: Request<'static>,
    pub(crate) dialogs: Dialogs,
    /// Nobody else is to get it: it belongs to a dialog, or its Route names the member.
    pub(crate) is_fixed: bool,
    /// The rule that it goes by, as the table had it then.
    pub(crate) rule: Option<(Arc<Routes>, usize)>,
    /// Who has got it, the present one last.
    pub(crate) tried: ArrayVec<Slot, MOST>,
    /// How many pools it was sent to.
    pub(crate) pools: u8,
    /// When it went to the present one.
    pub(crate) since: Instant,
    /// How the present one has failed, if it has.
    pub(crate) failed: Option<Outcome>,
}

impl Assigned {
    pub(crate) fn slot(&self) -> Slot {
        self.tried[self.tried.len() - 1]
    }

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
    /// The ways to the members, by slot.
    pub(crate) members: &'a [Flow],
    pub(crate) budgets: &'a mut Budgets,
}

impl Assigner<'_> {
    /// The next one that a request is tried with, after the present one has failed.
    fn next(&mut self, assigned: &mut Assigned, is_noted: bool, call_id: &[u8]) -> Option<Slot> {
        // Whoever has answered anything else first has the request.
        let outcome = assigned.failed.take()?;
        let rule = assigned.rule.as_ref().map(|(_, rule)| *rule);
        let may_have_others = !assigned.is_fixed && !assigned.tried.is_full();
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
        assigned.tried.push(slot);
        assigned.since = self.now;
        Some(slot)
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
    fn next_hop(&mut self, request: &mut Received, attempt: u8) -> Result<Flow, ProxyRefusal> {
        let assigned = match &mut request.way {
            Way::There(flow, _) => return if attempt == 0 { Ok(*flow) } else { Err(ProxyRefusal(500)) },
            Way::Contacts(located) => {
                located.current = attempt.into();
                return located
                    .contacts
                    .get(located.current)
                    .map(|contact| contact.hop)
                    .ok_or(ProxyRefusal(500));
            }
            Way::Pool(assigned) => assigned,
        };
        if attempt == 0 {
            let rule = assigned.rule.as_ref().map(|(_, rule)| *rule);
            if !matches!(assigned.request.method, Method::Ack | Method::Cancel) {
                self.budgets.of(rule).first(self.now);
            }
            self.balancer.count_request(assigned.slot(), assigned.request.method);
            return Ok(self.members[assigned.slot().index()]);
        }
        let message = wire::scan(&request.bytes).expect("it was read when it came in");
        let is_noted = request.noted.is_some();
        let slot = self.next(assigned, is_noted, message.call_id()).ok_or(ProxyRefusal(500))?;
        self.balancer.count_request(slot, assigned.request.method);
        Ok(self.members[slot.index()])
    }

    fn has_alternate(&self, request: &Received, attempt: u8) -> bool {
        let assigned = match &request.way {
            Way::There(..) => return false,
            Way::Contacts(located) => return usize::from(attempt) + 1 < located.contacts.len(),
            Way::Pool(assigned) => assigned,
        };
        let mut others =
            self.balancer.members(assigned.request.pool).filter(|slot| !assigned.tried.contains(slot));
        !assigned.is_fixed
            && !assigned.tried.is_full()
            && (others.next().is_some() || !assigned.others().is_empty())
    }

    fn most_repeats(&self, request: &Received) -> Option<u8> {
        matches!(request.way, Way::There(_, false)).then_some(UNHEARD_REPEATS)
    }

    fn settled(&mut self, request: &mut Received, attempt: u8, event: ProxyEvent, _: bool) {
        let Way::Pool(assigned) = &mut request.way else { return };
        if usize::from(attempt) + 1 != assigned.tried.len() {
            // There was no other one to be tried: it has been told.
            return;
        }
        let slot = assigned.slot();
        match event {
            ProxyEvent::Response(503) => assigned.failed = Some(Outcome::Unavailable),
            ProxyEvent::Timeout | ProxyEvent::Unreachable => {
                // Whom nothing has reached has no work with it: going on is no retry.
                let is_silent = event == ProxyEvent::Timeout;
                assigned.failed = Some(if is_silent { Outcome::Timeout } else { Outcome::NoneAlive });
                self.balancer.unanswered(self.now, slot, assigned.since, request.noted.as_deref());
                if !is_silent {
                    self.balancer.unreachable(self.now, slot, self.now + PAUSE);
                }
            }
            ProxyEvent::Response(_) | ProxyEvent::TimerC | ProxyEvent::Cancelled => {}
        }
    }
}
