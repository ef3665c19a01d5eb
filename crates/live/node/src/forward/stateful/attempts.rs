//! Which member of a pool a request goes to, and which one next when that has failed.

use super::assigned::{Assigned, SECOND};
use super::form::{Assigner, UNHEARD_REPEATS, Wire};
use super::received::{Received, TargetSet};
use ::proxy::{Attempt, ProxyEvent, ProxyRefusal, Router};
use balance::{Decision, PoolId, Request, Slot};
use base::Flow;
use core::time::Duration;
use route::{Fork, Outcome};
use wire::Method;

/// How long a member that the network calls unreachable is the last to be asked.
const PAUSE: Duration = Duration::from_secs(32);

/// Most members that a request is sent to one after the other because they fail: nobody waits for more.
const MOST: usize = 8;

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
        let may_have_others = !assigned.is_fixed && assigned.tried.len() < MOST;
        let is_of_budget = outcome.was_sent();
        if !may_have_others || (is_of_budget && !self.budgets.of(assigned.rule.as_ref()).may_retry(self.now))
        {
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
            self.budgets.of(assigned.rule.as_ref()).retry(self.now);
        }
        assigned.pools += u8::from(pool != assigned.request.pool);
        assigned.request.pool = pool;
        assigned.patience = None;
        assigned.give(self.now, attempt, slot);
        Some(slot)
    }

    /// Chooses the members of the next group of a request that forks; those of the first group come after the one
    /// that is chosen already. Returns how many there are, at most `most`. Only such members as are known to live.
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
            TargetSet::Pool(assigned) if assigned.fork != Fork::None => {
                let message = wire::scan(&request.bytes).expect("it was read when it came in");
                self.group(assigned, is_first, most, message.call_id())
            }
            TargetSet::Contacts(located) => located.next_group(most),
            TargetSet::Pool(_) | TargetSet::Uri(..) => u8::from(is_first),
        }
    }

    fn has_group(&self, request: &Received, _: u8) -> bool {
        let assigned = match &request.way {
            TargetSet::Uri(..) => return false,
            TargetSet::Contacts(located) => return located.has_group(),
            TargetSet::Pool(assigned) => assigned,
        };
        let method = assigned.request.method;
        let takes = |pool| self.balancer.takes(self.now, pool, method, &assigned.tried, false);
        assigned.fork != Fork::None && !assigned.tried.is_full() && assigned.pools_ahead().any(takes)
    }

    fn ring_time(&self, request: &Received) -> Option<Duration> {
        let assigned = match &request.way {
            TargetSet::Uri(..) => return None,
            TargetSet::Contacts(located) => return Some(located.ring_time),
            TargetSet::Pool(assigned) => assigned,
        };
        (assigned.fork != Fork::None).then_some(assigned.ring_time)
    }

    fn next_hop(&mut self, request: &mut Received, attempt: Attempt) -> Result<Flow, ProxyRefusal> {
        let is_first = attempt == Attempt::default();
        let assigned = match &mut request.way {
            TargetSet::Uri(target) if is_first => return Ok(target.hop),
            TargetSet::Uri(target) => return target.anew.take().ok_or(ProxyRefusal(500)),
            TargetSet::Contacts(located) => return located.hop(attempt).ok_or(ProxyRefusal(500)),
            TargetSet::Pool(assigned) => assigned,
        };
        if attempt == SECOND && assigned.fork == Fork::None {
            let message = wire::scan(&request.bytes).expect("it was read when it came in");
            let slot = self.second(assigned, message.call_id()).ok_or(ProxyRefusal(500))?;
            self.balancer.count_request(self.now, slot, &assigned.request);
            return Ok(self.members[slot.index()]);
        }
        if attempt.alternate == 0 {
            if is_first && !matches!(assigned.request.method, Method::Ack | Method::Cancel) {
                self.budgets.of(assigned.rule.as_ref()).first(self.now);
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

    fn has_alternate(&self, request: &Received, attempt: Attempt) -> bool {
        let assigned = match &request.way {
            TargetSet::Uri(target) => return target.anew.is_some(),
            TargetSet::Contacts(located) => return located.has_spare(attempt),
            TargetSet::Pool(assigned) => assigned,
        };
        let mut others =
            self.balancer.members(assigned.request.pool).filter(|slot| !assigned.tried.contains(slot));
        !assigned.is_fixed
            && assigned.fork == Fork::None
            && assigned.tried.len() < MOST
            && (others.next().is_some() || !assigned.others().is_empty())
    }

    fn patience(&self, request: &Received) -> Option<Duration> {
        match &request.way {
            TargetSet::Pool(assigned) => assigned.patience,
            TargetSet::Uri(..) | TargetSet::Contacts(_) => None,
        }
    }

    fn won(&mut self, request: &mut Received, attempt: Attempt, is_cancelled: bool) {
        if let TargetSet::Pool(assigned) = &mut request.way {
            let message = wire::scan(&request.bytes).expect("it was read when it came in");
            self.answers_first(assigned, attempt, is_cancelled, message.call_id());
        }
    }

    fn most_repeats(&self, request: &Received) -> Option<u8> {
        let is_unheard = matches!(request.way, TargetSet::Uri(target) if !target.is_wanted);
        is_unheard.then_some(UNHEARD_REPEATS)
    }

    fn settled(&mut self, request: &mut Received, attempt: Attempt, event: ProxyEvent, _: bool) {
        let assigned = match &mut request.way {
            TargetSet::Pool(assigned) => assigned,
            // A client that has got the request is not asked again.
            TargetSet::Uri(target) if event != ProxyEvent::FlowFailed => {
                target.anew = None;
                return;
            }
            // RFC 5626 §7: nor is one that an edge proxy has a flow of.
            TargetSet::Contacts(located)
                if !matches!(event, ProxyEvent::FlowFailed | ProxyEvent::Response(430)) =>
            {
                return located.reached(attempt);
            }
            TargetSet::Uri(_) | TargetSet::Contacts(_) => return,
        };
        // Where there was no other one to be tried, it has been told.
        let Some(slot) = assigned.slot_of(attempt) else { return };
        match event {
            ProxyEvent::Response(503) => assigned.failed = Some((attempt, Outcome::Unavailable)),
            ProxyEvent::Timeout | ProxyEvent::Unreachable | ProxyEvent::FlowFailed => {
                // Whom nothing has reached has no work with it: going on is no retry.
                let is_silent = event == ProxyEvent::Timeout;
                if is_silent {
                    self.silent.push(self.members[slot.index()]);
                }
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
