//! Which member of a pool gets a request: what the balancer decides, pool after pool, and the queues in front of them.

use crate::address::target::Target;
use crate::admission::{NEXT_HOP_OVERLOADED, Novelty};
use crate::decide::destination::{Destination, To};
use crate::decide::limited::{self, ask, is_noted};
use crate::outcome::event::ShardEvent;
use crate::outcome::rejection::{Refused, Rejection, refused};
use crate::queue::Turn;
use crate::read::arrival::Arrival;
use crate::read::progress::Progress;
use crate::site::marks::verifies_behind;
use crate::site::reply::trying;
use crate::site::routes::Routes;
use crate::step::Step;
use balance::{Balancer, CallKey, Decision, PoolId, Request, Slot, Why};
use base::{Instant, Operation};
use route::{Fork, Outcome, Service};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Method;

/// RFC 3261 §21.5.4. Of a table that holds nothing but calls, some end in that time.
const TOO_MANY_SESSIONS: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Sessions") };

pub(crate) const NO_SERVER: Refused = refused(503, "No Server Available");

/// Every member that takes calls has too much to do.
const SERVERS_BUSY: Refused = refused(503, "Servers Busy");
/// As many seconds as callers that were refused together are spread over.
const RETRY_AFTER_MAX: u64 = 5;

/// What is decided about a request to a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Assignment {
    /// This member of the pool gets it.
    Member {
        /// The member.
        slot: Slot,
        /// The pool: the first of its rule that takes the request.
        pool: PoolId,
        /// What decided.
        why: Why,
    },
    /// Only a member knows where its INVITE went: all are asked.
    Search,
    /// It waits in the queue of a pool.
    Waits,
}

/// The next hop of a request whose credentials may be verified there or behind. `None` where it may go to one that
/// does not, or past one.
pub(crate) fn verifier(
    step: &Step<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
) -> Option<SocketAddr> {
    let service = step.pools.service(destination.request.pool);
    let goes_there = matches!(destination.to, To::Onward) && service.has_hops();
    if !goes_there || service.fork().0 != Fork::None || arrival.route.next.is_some() {
        return None;
    }
    let verifies = |slot: Slot| verifies_behind(step.site, step.site.topology.node(slot).peer);
    let all_verify = step.balancer.members(destination.request.pool).all(verifies);
    let slot = member_by_call(step.balancer, &destination.request).filter(|_| all_verify)?;
    Some(step.site.topology.node(slot).peer)
}

/// Asks the balancer for a member, unless its Route has `named` one.
pub(crate) fn assign(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    progress: &mut Progress,
    named: Option<Slot>,
) -> Result<Assignment, Rejection> {
    let request = &destination.request;
    let service = step.pools.service(request.pool);
    if service.counts_calls() {
        step.site.ledger.charge(Operation::Lookup);
    }
    let (mut decision, mut pool) = (Decision::Orphan, request.pool);
    if let Some(slot) = named {
        check_hop(step, request, progress, slot)?;
        decision = Decision::Forward { slot, why: Why::Token };
        if is_noted(step.balancer, request, service) {
            step.balancer.request(step.site.now, &Request { pinned: Some(slot), ..*request });
        }
    } else if !matches!(destination.to, To::Orphan) {
        let asked;
        (asked, pool) = ask_pools(step, arrival, destination, progress);
        decision = match asked {
            Ok(decision) => without_search(decision, arrival),
            Err(Turn::Full(rejection)) => return Err(rejection),
            Err(Turn::Now(_) | Turn::Later) => {
                // Its caller is told, should the wait take longer than he is patient.
                if step.queues.as_ref().is_some_and(|queues| queues.tells(pool)) {
                    trying(step.site, arrival.flow, arrival.message, step.out);
                }
                return Ok(Assignment::Waits);
            }
        };
    }
    conclude(step, decision, &Request { pool, ..*request }, service)
}

/// Whether the member that a request names wants no more (RFC 7339 §5.5).
fn check_hop(
    step: &mut Step<'_>,
    request: &Request<'_>,
    progress: &Progress,
    slot: Slot,
) -> Result<(), Refused> {
    let overload = &mut step.site.admission.overload;
    if !overload.limits_hops() {
        return Ok(());
    }
    let class = limited::class(step.balancer, request, progress.novelty());
    let may_go = overload.may_go(step.site.now, class, step.site.topology.node(slot));
    if may_go { Ok(()) } else { Err(NEXT_HOP_OVERLOADED) }
}

/// Asks for the pools of a request. A new call may have its turn in the queue of one, or later, or none.
fn ask_pools(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    progress: &mut Progress,
) -> (Result<Decision, Turn>, PoolId) {
    let service = step.pools.service(destination.request.pool);
    let begins_call = takes_turn(step.balancer, &destination.request, progress.novelty());
    let (now, novelty) = (step.site.now, progress.novelty());
    let Step { site, balancer, queues, .. } = step;
    let limits_hops = site.admission.overload.limits_hops();
    let mut queues = queues.as_deref_mut().filter(|_| begins_call);
    let waited = progress.waited.filter(|(pool, _)| may_go_to(&site.routes, destination, *pool));
    let first = waited.map_or_else(|| first_pool(&site.routes, destination, balancer, now), |(pool, _)| pool);
    let mut without_takers = Vec::new();
    if begins_call && waited.is_none() && balancer.session_of(&destination.request).is_none() {
        without_takers.extend(passed_over(&site.routes, destination, first));
    }
    let routes = Arc::clone(&site.routes);
    let chosen = choose(&routes, destination, first, |request| {
        let queue = queues.as_deref_mut().filter(|queues| queues.has(request.pool));
        // Where nobody takes calls at all, none waits.
        let queue = queue.filter(|_| balancer.has_takers(now, request.pool));
        let turn = match (waited, queue) {
            (Some((pool, waited)), Some(_)) if pool == request.pool => Some(waited.into()),
            (_, Some(queues)) => {
                let key = site.seen.key(&site.tokens, arrival.message, arrival.key, arrival.flow.peer);
                Some(queues.offer(now, request.pool, key, arrival.inbound(), progress, balancer))
            }
            (_, None) => None,
        };
        let (overload, topology) = (&mut site.admission.overload, &site.topology);
        let class = limits_hops.then(|| limited::class(balancer, request, novelty));
        // A member that has room may want no more all the same (RFC 7339 §5.5).
        let mut may_go = |slot| class.is_none_or(|class| overload.may_go(now, class, topology.node(slot)));
        let turn = turn.filter(|turn| if let Turn::Now(slot) = turn { may_go(*slot) } else { true });
        let decision = match (turn, class) {
            // Where its last place has gone to somebody else meanwhile, another member has to do.
            (Some(Turn::Now(slot)), _) => match balancer.request_to(now, request, slot) {
                Decision::NoServer | Decision::AtLimit(_) => ask(balancer, now, request, service),
                decision => decision,
            },
            (Some(Turn::Later), _) => return (Err(Turn::Later), None),
            (Some(Turn::Full(rejection)), _) => {
                return (Err(Turn::Full(rejection)), Some(Outcome::Full));
            }
            (None, Some(class)) => {
                let outside = destination.to.outside();
                match limited::ask_open(site, balancer, request, class, outside, service) {
                    Ok(decision) => decision,
                    Err(turn) => return (Err(turn), Some(Outcome::Full)),
                }
            }
            (None, None) => ask(balancer, now, request, service),
        };
        if let Some(queues) = queues.as_deref_mut() {
            queues.settle(now, |slot| balancer.is_unanswered(request, (slot, now)));
        }
        without_takers.extend((decision == Decision::NoServer).then_some(request.pool));
        let is_full = decision == Decision::NoServer && balancer.is_full(now, request);
        (Ok(decision), goes_on_as(decision, is_full))
    });
    for pool in without_takers {
        *site.counters.without_takers.entry(pool).or_default() += 1;
    }
    chosen
}

/// Counts a decision, or says why the request is refused.
fn conclude(
    step: &mut Step<'_>,
    decision: Decision,
    request: &Request<'_>,
    service: Service,
) -> Result<Assignment, Rejection> {
    let pool = request.pool;
    match decision {
        Decision::Forward { slot, why } => {
            step.site.counters.decisions[why as usize] += 1;
            if matches!(why, Why::Policy | Why::Moved) && service.counts_calls() {
                step.site.ledger.charge(Operation::Choose);
                step.site.ledger.charge(Operation::CreateSession);
            }
            Ok(Assignment::Member { slot, pool, why })
        }
        Decision::Search => Ok(Assignment::Search),
        Decision::NoRoom => {
            if let Some(refused) = step.site.no_room.note(step.site.now) {
                step.out.event(ShardEvent::NoRoom(refused));
            }
            Err(TOO_MANY_SESSIONS.into())
        }
        Decision::NoServer => {
            if let Some(refused) = step.site.no_server.entry(pool).or_default().note(step.site.now) {
                step.out.event(ShardEvent::NoServer { pool, refused });
            }
            Err(NO_SERVER.into())
        }
        Decision::AtLimit(by) => {
            *step.site.counters.at_limit.entry((pool, by.name())).or_default() += 1;
            if let Some(refused) = step.site.at_limit.entry(pool).or_default().note(step.site.now) {
                step.out.event(ShardEvent::AtLimit { pool, by, refused });
            }
            Err(Refused { retry_after: Some(retry_after(request.key)), ..SERVERS_BUSY }.into())
        }
        Decision::Orphan => Err(refused(481, "Call/Transaction Does Not Exist").into()),
    }
}

/// Seconds of Retry-After for a request that is refused since all members of a pool have too much to do, by a keyed hash
/// of its call. Callers that are refused together do not come back together.
fn retry_after(call: CallKey) -> u64 {
    let hash = (call.0 >> 64) as u64 ^ call.0 as u64;
    1 + hash % RETRY_AFTER_MAX
}

/// The member that the Route of a request names; if it names any, it has to be one of the pools that the request is for. What
/// has lost its dialog goes to the member that it names as its target, if that is one; so does the ACK to a 2xx that has no
/// Route of ours: [`is_ack_to_2xx`].
pub(crate) fn named_member(
    step: &Step<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
) -> Result<Option<Slot>, Refused> {
    let request = &destination.request;
    let has_lost = arrival.message.to_tag().is_some()
        && (!request.in_dialog || is_ack_to_2xx(request, step.pools.service(request.pool)));
    if arrival.route.next.is_none() && !has_lost {
        return Ok(None);
    }
    let slot = match arrival.route.target(arrival.message) {
        Target::Address(to) => step.site.topology.slot_at(to),
        Target::Name(_) | Target::OtherTransport | Target::Nowhere => None,
    };
    let of_rule = destination.rule.and_then(|rule| step.site.routes.pools(rule));
    let pools = of_rule.into_iter().flat_map(|pools| &pools.choices).map(|choice| PoolId(choice.pool));
    let mut members = pools.chain([request.pool]).flat_map(|pool| step.balancer.members(pool));
    let named = slot.filter(|slot| members.any(|member| member == *slot));
    if named.is_none() && arrival.route.next.is_some() {
        return Err(refused(403, "Forbidden"));
    }
    Ok(named)
}

/// Whether a request takes its turn in the queue of its pool: an INVITE that begins a call and that no server has yet.
pub(crate) fn takes_turn(balancer: &Balancer, request: &Request<'_>, novelty: Novelty) -> bool {
    request.method == Method::Invite && novelty.is_unserved() && !balancer.has_open(request)
}

/// What is decided in the end. The token would have named the node of an ACK or CANCEL; a bad one earns no search.
pub(crate) fn without_search(decision: Decision, arrival: &Arrival<'_>) -> Decision {
    match decision {
        Decision::Search if arrival.route.token.is_some() => Decision::Orphan,
        other => other,
    }
}

/// A member of the pool by a hash of the call alone, whatever its health is.
pub(crate) fn member_by_call(balancer: &Balancer, request: &Request<'_>) -> Option<Slot> {
    let members: Vec<_> = balancer.members(request.pool).collect();
    members.get((request.key.0 >> 64) as usize % members.len().max(1)).copied()
}

/// Whether an ACK that no dialog leads is that to a 2xx (RFC 3261 §13.2.2.4), from a client that has ignored our Record-Route: a
/// transaction would have taken the ACK to a failure. It goes as its INVITE went, as far as anything tells; so does an ACK to a
/// failure where there are no transactions (§17.1.1.3).
fn is_ack_to_2xx(request: &Request<'_>, service: Service) -> bool {
    request.method == Method::Ack && request.pinned.is_none() && service.has_transactions()
}

/// The pool that is asked first about a request: the first one of its rule that takes it, as far as the rule lets it go on. Where
/// none does, the first of all, whose members may be alive though nobody knows.
pub(crate) fn first_pool(
    routes: &Routes,
    destination: &Destination<'_>,
    balancer: &Balancer,
    now: Instant,
) -> PoolId {
    let request = &destination.request;
    let pools = destination.rule.and_then(|rule| routes.pools(rule)).filter(|pools| pools.choices.len() > 1);
    let Some(pools) = pools else { return request.pool };
    let session = balancer.session_of(request);
    // Who has asked for credentials gets them, though a pool before takes calls again.
    if let Some(session) = &session
        && let Some(pool) =
            pools.order(request.key.0).map(PoolId).find(|pool| balancer.is_of(*pool, session.slot))
    {
        return pool;
    }
    // What one node has left unanswered is no trial of another.
    let trials = session.is_none();
    for pool in pools.order(request.key.0).map(PoolId) {
        if balancer.takes(now, pool, request.method, &[], trials) {
            return pool;
        }
        let is_full = balancer.is_full(now, &Request { pool, ..*request });
        if !pools.failover.goes_on(if is_full { Outcome::Full } else { Outcome::NoneAlive }, 0) {
            break;
        }
    }
    request.pool
}

/// The pools of a request before the first that is asked: nobody there takes it.
pub(crate) fn passed_over<'r>(
    routes: &'r Routes,
    destination: &Destination<'_>,
    first: PoolId,
) -> impl Iterator<Item = PoolId> + use<'r> {
    let pools =
        destination.rule.filter(|_| first != destination.request.pool).and_then(|rule| routes.pools(rule));
    let key = destination.request.key.0;
    pools
        .into_iter()
        .flat_map(move |pools| pools.order(key).map(PoolId))
        .take_while(move |pool| *pool != first)
}

/// Whether a pool is one of those that a request is for.
fn may_go_to(routes: &Routes, destination: &Destination<'_>, pool: PoolId) -> bool {
    let pools = destination.rule.and_then(|rule| routes.pools(rule));
    pools.map_or(pool == destination.request.pool, |pools| {
        pools.order(destination.request.key.0).any(|of| of == pool.0)
    })
}

/// As what a request that goes to nobody of a pool may go on to another one. `is_full`: the pool is full rather than dead.
pub(crate) fn goes_on_as(decision: Decision, is_full: bool) -> Option<Outcome> {
    match decision {
        Decision::NoServer if !is_full => Some(Outcome::NoneAlive),
        Decision::NoServer | Decision::AtLimit(_) | Decision::NoRoom => Some(Outcome::Full),
        _ => None,
    }
}

/// Asks for the pools of a request one after the other, from `first` on and as far as its rule lets it go on. `ask` tells what is
/// decided for one, and as what the request may go on to the next. With the decision comes the pool that was asked last.
pub(crate) fn choose<D>(
    routes: &Routes,
    destination: &Destination<'_>,
    first: PoolId,
    mut ask: impl FnMut(&Request<'_>) -> (D, Option<Outcome>),
) -> (D, PoolId) {
    let request = &destination.request;
    let (mut decision, mut outcome) = ask(&Request { pool: first, ..*request });
    let mut asked = first;
    let Some(pools) = destination.rule.and_then(|rule| routes.pools(rule)) else { return (decision, asked) };
    for pool in pools.order(request.key.0).map(PoolId).skip_while(|pool| *pool != first).skip(1) {
        if !outcome.is_some_and(|outcome| pools.failover.goes_on(outcome, 0)) {
            break;
        }
        (decision, outcome) = ask(&Request { pool, ..*request });
        asked = pool;
    }
    (decision, asked)
}
