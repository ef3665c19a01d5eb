//! Chooses the member of a pool for a request: the balancer's decision, pool by pool, and the queues in front of the
//! pools.

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
use balance::{Balancer, CallKey, NodeDecision, PoolId, RequestFacts, Slot, Why};
use base::{Instant, Operation};
use route::{FailoverCause, Fork, Service};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Method;

/// Refusal while the session table is full (RFC 3261 §21.5.4). Some calls end within its Retry-After.
const TOO_MANY_SESSIONS: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Sessions") };

pub(crate) const NO_SERVER: Refused = refused(503, "No Server Available");

/// Refusal while every member that takes calls is at a limit.
const SERVERS_BUSY: Refused = refused(503, "Servers Busy");
/// Maximum Retry-After in seconds. Callers that are refused together are spread over this time.
const RETRY_AFTER_MAX: u64 = 5;

/// Decision about a request to a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Assignment {
    /// A member of the pool gets the request.
    Member {
        slot: Slot,
        /// The pool: the first pool of the rule that takes the request.
        pool: PoolId,
        why: Why,
    },
    /// Only the member that got the INVITE knows it, so all members get the request.
    Search,
    /// The request waits in the queue of a pool.
    Waits,
}

/// Returns the next hop of a request, if this hop or a proxy behind it verifies credentials. `None` if the request may
/// go to a hop that does not verify them, or may bypass a hop that does.
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

/// Asks the balancer for a member, unless the Route has `named` one.
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
    let (mut decision, mut pool) = (NodeDecision::Orphan, request.pool);
    if let Some(slot) = named {
        check_hop(step, request, progress, slot)?;
        decision = NodeDecision::Forward { slot, why: Why::Token };
        if is_noted(step.balancer, request, service) {
            step.balancer.request(step.site.now, &RequestFacts { pinned: Some(slot), ..*request });
        }
    } else if !matches!(destination.to, To::Orphan) {
        let asked;
        (asked, pool) = ask_pools(step, arrival, destination, progress);
        decision = match asked {
            Ok(decision) => without_search(decision, arrival),
            Err(Turn::Full(rejection)) => return Err(rejection),
            Err(Turn::Now(_) | Turn::Later) => {
                // Sends a 100 to a caller that may have to wait long.
                if step.queues.as_ref().is_some_and(|queues| queues.sends_trying(pool)) {
                    trying(step.site, arrival.flow, arrival.message, step.out);
                }
                return Ok(Assignment::Waits);
            }
        };
    }
    conclude(step, decision, &RequestFacts { pool, ..*request }, service)
}

/// Fails if a request names a member and exceeds the limit of this member (RFC 7339 §5.5).
fn check_hop(
    step: &mut Step<'_>,
    request: &RequestFacts<'_>,
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

/// Tries the pools of a request. A new call in a queue may get its turn at once, may have to wait, or may be refused.
fn ask_pools(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    progress: &mut Progress,
) -> (Result<NodeDecision, Turn>, PoolId) {
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
        // If no member takes calls at all, no call waits.
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
        // A member with room in the queue may have asked for less load (RFC 7339 §5.5).
        let mut may_go = |slot| class.is_none_or(|class| overload.may_go(now, class, topology.node(slot)));
        let turn = turn.filter(|turn| if let Turn::Now(slot) = turn { may_go(*slot) } else { true });
        let decision = match (turn, class) {
            // If in the meantime another call has taken the member's last place, another member is chosen.
            (Some(Turn::Now(slot)), _) => match balancer.request_to(now, request, slot) {
                NodeDecision::NoServer | NodeDecision::AtLimit(_) => ask(balancer, now, request, service),
                decision => decision,
            },
            (Some(Turn::Later), _) => return (Err(Turn::Later), None),
            (Some(Turn::Full(rejection)), _) => {
                return (Err(Turn::Full(rejection)), Some(FailoverCause::Full));
            }
            (None, Some(class)) => {
                let outside = destination.to.outside();
                match limited::ask_open(site, balancer, request, class, outside, service) {
                    Ok(decision) => decision,
                    Err(turn) => return (Err(turn), Some(FailoverCause::Full)),
                }
            }
            (None, None) => ask(balancer, now, request, service),
        };
        if let Some(queues) = queues.as_deref_mut() {
            queues.settle(now, |slot| balancer.is_unanswered(request, (slot, now)));
        }
        without_takers.extend((decision == NodeDecision::NoServer).then_some(request.pool));
        let is_full = decision == NodeDecision::NoServer && balancer.is_full(now, request);
        (Ok(decision), goes_on_as(decision, is_full))
    });
    for pool in without_takers {
        *site.counters.without_takers.entry(pool).or_default() += 1;
    }
    chosen
}

/// Counts a decision, or refuses the request.
fn conclude(
    step: &mut Step<'_>,
    decision: NodeDecision,
    request: &RequestFacts<'_>,
    service: Service,
) -> Result<Assignment, Rejection> {
    let pool = request.pool;
    match decision {
        NodeDecision::Forward { slot, why } => {
            step.site.counters.decisions[why as usize] += 1;
            if matches!(why, Why::Policy | Why::Moved) && service.counts_calls() {
                step.site.ledger.charge(Operation::Choose);
                step.site.ledger.charge(Operation::CreateSession);
            }
            Ok(Assignment::Member { slot, pool, why })
        }
        NodeDecision::Search => Ok(Assignment::Search),
        NodeDecision::NoRoom => {
            if let Some(refused) = step.site.no_room.note(step.site.now) {
                step.out.event(ShardEvent::NoRoom(refused));
            }
            Err(TOO_MANY_SESSIONS.into())
        }
        NodeDecision::NoServer => {
            if let Some(refused) = step.site.no_server.entry(pool).or_default().note(step.site.now) {
                step.out.event(ShardEvent::NoServer { pool, refused });
            }
            Err(NO_SERVER.into())
        }
        NodeDecision::AtLimit(by) => {
            *step.site.counters.at_limit.entry((pool, by.name())).or_default() += 1;
            if let Some(refused) = step.site.at_limit.entry(pool).or_default().note(step.site.now) {
                step.out.event(ShardEvent::AtLimit { pool, by, refused });
            }
            Err(Refused { retry_after: Some(retry_after(request.key)), ..SERVERS_BUSY }.into())
        }
        NodeDecision::Orphan => Err(refused(481, "Call/Transaction Does Not Exist").into()),
    }
}

/// Returns the Retry-After in seconds for a request that is refused because all members of a pool are at a limit. A
/// keyed hash of the call spreads callers that are refused together.
fn retry_after(call: CallKey) -> u64 {
    let hash = (call.0 >> 64) as u64 ^ call.0 as u64;
    1 + hash % RETRY_AFTER_MAX
}

/// Returns the member that the Route of a request names. Fails if it is no member of the request's pools. A request
/// whose dialog is unknown here may name a member as its target. The ACK to a 2xx without a Route of this proxy may do
/// so as well ([`is_ack_to_2xx`]).
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

/// Returns whether a request waits for its turn in a queue: an INVITE that begins a call and that no server has
/// received.
pub(crate) fn takes_turn(balancer: &Balancer, request: &RequestFacts<'_>, novelty: Novelty) -> bool {
    request.method == Method::Invite && novelty.is_unserved() && !balancer.has_open(request)
}

/// Replaces the search for the node of an ACK or CANCEL if its token is invalid. A valid token would have named the
/// node.
pub(crate) fn without_search(decision: NodeDecision, arrival: &Arrival<'_>) -> NodeDecision {
    match decision {
        NodeDecision::Search if arrival.route.token.is_some() => NodeDecision::Orphan,
        other => other,
    }
}

/// Returns a member of the pool by a hash of the call alone, regardless of health.
pub(crate) fn member_by_call(balancer: &Balancer, request: &RequestFacts<'_>) -> Option<Slot> {
    let members: Vec<_> = balancer.members(request.pool).collect();
    members.get((request.key.0 >> 64) as usize % members.len().max(1)).copied()
}

/// Returns whether an ACK that no dialog directs is an ACK to a 2xx (RFC 3261 §13.2.2.4), from a client that ignored
/// the Record-Route. An ACK to a failure would have been absorbed by its transaction. The ACK goes where its INVITE
/// went, if that is known, like an ACK to a failure without transactions (§17.1.1.3).
fn is_ack_to_2xx(request: &RequestFacts<'_>, service: Service) -> bool {
    request.method == Method::Ack && request.pinned.is_none() && service.has_transactions()
}

/// Returns the pool to try first for a request: the first pool of its rule that takes the request, as far as the rule
/// allows failover. If no pool takes the request, returns the first pool of the rule, since its members may be alive
/// again.
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
    // A request repeated with credentials goes to the node that asked for them, even if an earlier pool takes calls
    // again.
    if let Some(session) = &session
        && let Some(pool) =
            pools.order(request.key.0).map(PoolId).find(|pool| balancer.is_of(*pool, session.slot))
    {
        return pool;
    }
    // A request that one node left unanswered is not used as a trial of another node.
    let trials = session.is_none();
    for pool in pools.order(request.key.0).map(PoolId) {
        if balancer.takes(now, pool, request.method, &[], trials) {
            return pool;
        }
        let is_full = balancer.is_full(now, &RequestFacts { pool, ..*request });
        if !pools.failover.tries_next(if is_full { FailoverCause::Full } else { FailoverCause::NoneAlive }, 0)
        {
            break;
        }
    }
    request.pool
}

/// Returns the pools of a request that come before `first`. None of them takes the request.
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

/// Returns whether a pool is one of the request's pools.
fn may_go_to(routes: &Routes, destination: &Destination<'_>, pool: PoolId) -> bool {
    let pools = destination.rule.and_then(|rule| routes.pools(rule));
    pools.map_or(pool == destination.request.pool, |pools| {
        pools.order(destination.request.key.0).any(|of| of == pool.0)
    })
}

/// Returns the condition by which a request that no member takes may go to another pool. `is_full`: the pool has live
/// members, but all of them are full.
pub(crate) fn goes_on_as(decision: NodeDecision, is_full: bool) -> Option<FailoverCause> {
    match decision {
        NodeDecision::NoServer if !is_full => Some(FailoverCause::NoneAlive),
        NodeDecision::NoServer | NodeDecision::AtLimit(_) | NodeDecision::NoRoom => Some(FailoverCause::Full),
        _ => None,
    }
}

/// Tries the pools of a request one after the other, starting with `first`, as far as its rule allows failover. `ask`
/// returns the decision for one pool, and the condition for trying the next pool. Returns the last decision and its
/// pool.
pub(crate) fn choose<D>(
    routes: &Routes,
    destination: &Destination<'_>,
    first: PoolId,
    mut ask: impl FnMut(&RequestFacts<'_>) -> (D, Option<FailoverCause>),
) -> (D, PoolId) {
    let request = &destination.request;
    let (mut decision, mut outcome) = ask(&RequestFacts { pool: first, ..*request });
    let mut asked = first;
    let Some(pools) = destination.rule.and_then(|rule| routes.pools(rule)) else { return (decision, asked) };
    for pool in pools.order(request.key.0).map(PoolId).skip_while(|pool| *pool != first).skip(1) {
        if !outcome.is_some_and(|outcome| pools.failover.tries_next(outcome, 0)) {
            break;
        }
        (decision, outcome) = ask(&RequestFacts { pool, ..*request });
        asked = pool;
    }
    (decision, asked)
}
