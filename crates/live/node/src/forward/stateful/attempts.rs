//! Chooses the next hop of each attempt of a request, and records the results.
//!
//! A call that its member has left unanswered for `invite_timeout` goes to another member as well, as after a timeout.
//! The proxy's core decides between the members ([`Router::patience`]). The balancer counts the call at the last
//! member. It moves the call to the first member that answers, and finally to the member that sends the first 2xx.

use super::form::{Assigner, UNVERIFIED_REPEATS, Wire};
use super::received::Received;
use super::targets::{Candidate, Fate, Reason, Source, Targets, UriTarget};
use ::proxy::{Attempt, ProxyEvent, ProxyRefusal, Router};
use balance::{NodeDecision, PoolId, RequestFacts};
use base::Flow;
use core::time::Duration;
use route::{FailoverCause, Fork, RING_TIME};
use wire::Method;

/// Time during which an unreachable member is the last choice.
const PAUSE: Duration = Duration::from_secs(32);

impl Assigner<'_> {
    /// Chooses another member for a request. Returns its index among the candidates. Each retry uses the retry budget,
    /// so that retries never multiply load.
    fn choose(&mut self, request: &mut Received, reason: Reason) -> Option<usize> {
        let message = wire::scan(&request.bytes).expect("the request was parsed on arrival");
        let tried = request.targets.slots();
        let Targets { candidates, source: Source::Pool(pool) } = &mut request.targets else {
            return None;
        };
        let (rule, present) = (request.rule.as_ref(), pool.request.pool);
        let is_silent = reason == Reason::Silent;
        let is_retry = reason.failure().is_some_and(FailoverCause::was_sent);
        if tried.len() >= pool.most() || is_retry && !self.budgets.of(rule).may_retry(self.now) {
            return None;
        }
        let last = candidates.last_mut()?;
        let takes = |id: PoolId| self.balancer.takes(self.now, id, pool.request.method, &tried, false);
        let mut pools = pool.pools(rule, reason);
        if let Reason::Failed(_) = reason {
            // Pools that take the request now come first. The other pools follow, since a member of theirs may be alive
            // again.
            pools.sort_by_key(|id| !takes(*id));
        } else {
            pools.retain(|id| takes(*id));
        }
        let chosen = pools.into_iter().find_map(|id| {
            let request = RequestFacts { pool: id, call_id: message.call_id(), ..pool.request };
            let decision = match reason {
                Reason::Silent if pool.is_noted() => self.balancer.move_on(self.now, &request, &tried),
                Reason::Failed(_) if pool.is_noted() => self.balancer.again(self.now, &request, &tried),
                _ => self.balancer.pick(self.now, &request, &tried),
            };
            if let NodeDecision::Forward { slot, .. } = decision { Some((id, slot)) } else { None }
        });
        let (id, slot) = chosen?;
        if is_silent {
            last.fate = Fate::Silent;
            if !pool.is_noted() {
                self.balancer.watch(last.slot(), last.since);
            }
            if let Some(queues) = self.queues.as_deref_mut() {
                queues.moved(present, last.slot(), last.since);
            }
        }
        if is_retry {
            self.budgets.of(rule).retry(self.now);
        }
        pool.pools += u8::from(id != present);
        pool.request.pool = id;
        candidates.push(Candidate::new(slot.0));
        Some(candidates.len() - 1)
    }

    /// Returns whether there are other members for a request in case one fails or is silent.
    fn has_others(&self, request: &Received) -> bool {
        let Targets { candidates, source: Source::Pool(pool) } = &request.targets else { return false };
        let is_new = |slot| candidates.iter().all(|candidate| candidate.slot() != slot);
        pool.fork() == Fork::None
            && candidates.len() < pool.most()
            && (self.balancer.members(pool.request.pool).any(is_new)
                || !pool.others(request.rule.as_ref()).is_empty())
    }

    /// Returns the next candidate in the branch of an attempt, after the previous one has failed.
    fn alternate(&mut self, request: &mut Received, attempt: Attempt) -> Option<usize> {
        let before = request.targets.find(Attempt { alternate: attempt.alternate - 1, ..attempt })?;
        let candidate = request.targets.candidates[before];
        if let Source::Contacts(contacts) = &mut request.targets.source {
            contacts[usize::from(candidate.target)].go_by_spare()?;
            let at = request.targets.planned().next().unwrap_or(request.targets.candidates.len());
            request.targets.candidates.insert(at, Candidate::new(candidate.target));
            return Some(at);
        }
        let Fate::Settled(event) = candidate.fate else { return None };
        let outcome = match event {
            // RFC 3263 §4.3: a 503 is a failure of the next hop, even after a provisional response (RFC 3261 §21.5.4).
            ProxyEvent::Response(503) => FailoverCause::Unavailable,
            ProxyEvent::Timeout => FailoverCause::Timeout,
            // The request has caused no work at a member that it has not reached, so trying the next member is no
            // retry.
            ProxyEvent::Unreachable | ProxyEvent::FlowFailed => FailoverCause::NoneAlive,
            ProxyEvent::Response(_) | ProxyEvent::TimerC | ProxyEvent::Cancelled => return None,
        };
        self.choose(request, Reason::Failed(outcome))
    }
}

impl Router<Wire> for Assigner<'_> {
    fn next_group(&mut self, request: &mut Received, group: u8, most: u8) -> u8 {
        let (is_first, targets) = (group == 0, &mut request.targets);
        // Omits candidates of the previous group without a branch.
        for at in targets.planned().skip_while(|_| is_first).collect::<Vec<_>>() {
            targets.candidates[at].fate = Fate::Settled(ProxyEvent::Cancelled);
        }
        match &targets.source {
            Source::Uri(_) => return u8::from(is_first),
            Source::Contacts(contacts) => {
                let started = targets.started();
                let left = &contacts[started..];
                let alike =
                    left.iter().take_while(|contact| contact.q == left[0].q).take(most.into()).count();
                let group = started..started + alike;
                targets.candidates.extend(group.map(|target| Candidate::new(target as u16)));
            }
            Source::Pool(pool) => {
                let most = match pool.fork() {
                    Fork::None => 0,
                    Fork::Sequential => 1,
                    Fork::Parallel => most.into(),
                };
                let mut reason = if is_first { Reason::Group } else { Reason::NextGroup };
                while request.targets.planned().count() < most && self.choose(request, reason).is_some() {
                    reason = Reason::Group;
                }
            }
        }
        request.targets.planned().count() as u8
    }

    fn has_group(&self, request: &Received, _: u8) -> bool {
        match &request.targets.source {
            Source::Uri(_) => false,
            Source::Contacts(contacts) => request.targets.started() < contacts.len(),
            Source::Pool(pool) => {
                let tried = request.targets.slots();
                let takes = |id| self.balancer.takes(self.now, id, pool.request.method, &tried, false);
                pool.fork() != Fork::None
                    && tried.len() < pool.most()
                    && pool.pools(request.rule.as_ref(), Reason::NextGroup).into_iter().any(takes)
            }
        }
    }

    fn ring_time(&self, request: &Received) -> Option<Duration> {
        match &request.targets.source {
            Source::Uri(_) => None,
            Source::Contacts(_) => Some(RING_TIME),
            Source::Pool(pool) => (pool.fork() != Fork::None).then_some(pool.service.fork().1),
        }
    }

    fn next_hop(&mut self, request: &mut Received, attempt: Attempt) -> Result<Flow, ProxyRefusal> {
        let (is_first, none) = (attempt == Attempt::default(), ProxyRefusal(500));
        if let Source::Uri(target) = &mut request.targets.source {
            return if is_first { Ok(target.hop) } else { target.anew.take().map(|hop| *hop).ok_or(none) };
        }
        let chosen = if attempt.alternate > 0 {
            self.alternate(request, attempt)
        } else {
            let planned = request.targets.planned().next();
            planned.or_else(|| self.choose(request, Reason::Silent))
        };
        let (at, targets) = (chosen.ok_or(none)?, &mut request.targets);
        let candidate = &mut targets.candidates[at];
        (candidate.attempt, candidate.since, candidate.fate) = (attempt, self.now, Fate::Sent);
        let slot = candidate.slot();
        let Source::Pool(pool) = &targets.source else {
            return targets.contact().map(|contact| contact.hop).ok_or(none);
        };
        if is_first && !matches!(pool.request.method, Method::Ack | Method::Cancel) {
            self.budgets.of(request.rule.as_ref()).first(self.now);
        }
        self.balancer.count_request(self.now, slot, &pool.request);
        Ok(self.members[slot.index()])
    }

    fn has_alternate(&self, request: &Received, attempt: Attempt) -> bool {
        let targets = &request.targets;
        match &targets.source {
            Source::Uri(target) => target.anew.is_some(),
            Source::Contacts(contacts) => targets.find(attempt).is_some_and(|at| {
                let target = usize::from(targets.candidates[at].target);
                !contacts[target].spare.is_empty()
            }),
            Source::Pool(_) => self.has_others(request),
        }
    }

    fn failed(&mut self, Received { targets, .. }: &mut Received, attempt: Attempt, event: ProxyEvent) {
        if let Some(at) = targets.find(attempt) {
            targets.candidates[at].fate = Fate::Settled(event);
        }
    }

    fn patience(&self, request: &Received) -> Option<Duration> {
        // Without another member, a limit of the wait makes no difference.
        request.targets.pool().and_then(|pool| pool.patience).filter(|_| self.has_others(request))
    }

    /// Moves the balancer's record of the call to the first member to answer.
    fn won(&mut self, request: &mut Received, attempt: Attempt, is_cancelled: bool) {
        let message = wire::scan(&request.bytes).expect("the request was parsed on arrival");
        let Some(place) = request.targets.find(attempt) else { return };
        let Targets { candidates, source: Source::Pool(pool) } = &mut request.targets else { return };
        let (before, first) = (candidates[candidates.len() - 1], candidates[place]);
        candidates[place..].rotate_left(1);
        for silent in candidates.iter_mut().filter(|candidate| candidate.fate == Fate::Silent) {
            silent.fate = Fate::Sent;
            // If all members leave a call unanswered, the reason may be the caller.
            if pool.is_noted() && silent.attempt != attempt {
                self.balancer.is_passed_by(self.now, silent.slot(), silent.since);
            }
        }
        if before.attempt == attempt {
            return;
        }
        if !pool.is_noted() {
            return self.balancer.watch(before.slot(), before.since);
        }
        let request = RequestFacts { call_id: message.call_id(), ..pool.request };
        let first = (first.slot(), first.since);
        self.balancer.move_back(self.now, &request, first, is_cancelled);
    }

    fn most_repeats(&self, request: &Received) -> Option<u8> {
        let is_unheard = matches!(request.targets.source, Source::Uri(UriTarget { is_wanted: false, .. }));
        is_unheard.then_some(UNVERIFIED_REPEATS)
    }

    fn settled(&mut self, request: &mut Received, attempt: Attempt, event: ProxyEvent, _: bool) {
        let targets = &mut request.targets;
        // A client that has received the request must not get it again.
        if let Source::Uri(UriTarget { anew, .. }) = &mut targets.source {
            anew.take_if(|_| event != ProxyEvent::FlowFailed);
        }
        // An attempt for which no candidate was left has nothing to record.
        let Some(at) = targets.find(attempt) else { return };
        let candidate = targets.candidates[at];
        if candidate.fate == Fate::Sent {
            targets.candidates[at].fate = Fate::Settled(event);
        }
        let is_lost = matches!(event, ProxyEvent::Timeout | ProxyEvent::Unreachable | ProxyEvent::FlowFailed);
        let may_have_it = !matches!(event, ProxyEvent::FlowFailed | ProxyEvent::Response(430));
        let counts = targets.counts_with(Some(candidate.slot()));
        let pool = match &mut targets.source {
            Source::Pool(pool) if is_lost => pool,
            // RFC 5626 §7: this also applies to a user agent behind an edge proxy that has a flow to it.
            Source::Contacts(contacts) if may_have_it => {
                return contacts[usize::from(candidate.target)].spare.clear();
            }
            Source::Uri(_) | Source::Pool(_) | Source::Contacts(_) => return,
        };
        let (slot, since) = (candidate.slot(), candidate.since);
        // The balancer itself watches the members that had the request before it moved.
        if counts {
            let noted = Some(&pool.request).filter(|_| pool.is_noted());
            self.balancer.unanswered(self.now, slot, since, noted);
        }
        if event != ProxyEvent::Timeout {
            // The queue gave the call to this member, but the member did not get it.
            if let Some(queues) = self.queues.as_deref_mut().filter(|_| !pool.is_fixed) {
                queues.taken_back(self.now, pool.request.pool, slot, since);
            }
            self.balancer.unreachable(self.now, slot, self.now + PAUSE);
        }
    }
}
