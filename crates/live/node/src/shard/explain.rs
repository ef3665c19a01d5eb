//! Explains where a request would go, without sending it.

use crate::admission::{NeighbourReport, Novelty};
use crate::decide::destination::{Destination, To, query_of};
use crate::decide::member::{
    choose, first_pool, goes_on_as, named_member, passed_over, takes_turn, without_search,
};
use crate::forward::contacts::sought;
use crate::gate;
use crate::outcome::counters::Drop;
use crate::outcome::rejection::{OwnResponse, Refuser, Rejection};
use crate::queue::QueueTurn;
use crate::read::arrival::Arrival;
use crate::shard::pipeline::Pipeline;
use crate::shard::plan::{Plan, plan};
use crate::site::edit::rewrite;
use crate::site::reply::is_about_us;
use balance::{CandidateVerdict, NodeDecision, NodeId, PoolId, RequestFacts, Slot, Why};
use base::Flow;
use location::Aor;
use route::{Access, EditStep, FailoverCause};
use wire::{Message, Via};

/// Next hop of a given request, and the reasons for this choice.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The decision about the request.
    pub decision: NodeDecision,
    /// The node that a verified token in the request names.
    pub token: Option<NodeId>,
    /// Whether the call of the request is in the session table.
    pub known: bool,
    /// The route of the request, if a rule applies.
    pub route: Option<RouteTaken>,
    /// The user whose contacts the request goes to. `decision` then has no meaning.
    pub located: Option<Aor>,
    /// The next hop of a request that goes to no pool. The hop is named by the Route or Request-URI, or is the target
    /// that the other party of the dialog has named. `decision` then names the sender, or has no meaning.
    pub outside: Option<Flow>,
    /// Pools of the rule that were tried before and did not take the request.
    pub passed_over: Vec<PassedOver>,
    /// The last pool that was tried.
    pub pool: PoolId,
    /// The policy of that pool.
    pub policy: &'static str,
    /// Decision of the pool's queue about a new call; `None` without a queue.
    pub queue: Option<QueueTurn>,
    /// Every member of the pool with its load and, if it would take no new call, the reason.
    pub verdicts: Vec<CandidateVerdict>,
    /// Servers to which the request may go and which have asked for less load (RFC 7339), or answer nothing.
    pub limited: Vec<NeighbourReport>,
}

/// The route of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteTaken {
    /// Index of the route.
    pub index: usize,
    /// Name of the route.
    pub name: String,
    /// Earlier routes, each with the condition that does not hold.
    pub earlier: Vec<(String, String)>,
    /// Changes that the route makes to the request, with their results.
    pub steps: Vec<EditStep>,
    /// The Request-URI after the changes, if it differs.
    pub uri: Option<String>,
}

/// A pool that does not take the request, so that the next pool of its rule is tried.
#[derive(Clone, Debug)]
pub struct PassedOver {
    /// Number of the pool.
    pub pool: PoolId,
    /// Reason why the next pool is tried.
    pub outcome: FailoverCause,
    /// Every member of the pool, with the reason why it takes no new call.
    pub verdicts: Vec<CandidateVerdict>,
}

/// A decision of the balancer.
struct Choice {
    /// The last pool that was tried.
    pool: PoolId,
    decision: NodeDecision,
    /// Every member of that pool.
    verdicts: Vec<CandidateVerdict>,
    /// Pools that were tried before.
    passed_over: Vec<PassedOver>,
    /// Decision of that pool's queue.
    queue: Option<QueueTurn>,
}

/// Explains the decision about a request that comes by this flow now.
pub(crate) fn explain(pipeline: &mut Pipeline<'_>, flow: Flow, bytes: &[u8]) -> Result<Explanation, String> {
    let message = wire::scan(bytes).map_err(|discard| format!("dropped: {}", discard.reason()))?;
    if message.status().is_some() {
        return Err("this is a response, and responses follow their Via".to_owned());
    }
    let before = (pipeline.step.site.ledger, pipeline.step.site.counters.tokens_refused);
    let decided = decide(pipeline, flow, &message);
    let decided = decided.map_err(|rejection| {
        let is_unmatched = matches!(rejection, Rejection::By(Refuser::NoRule));
        let why = if is_unmatched { unmatched(pipeline, flow, &message) } else { String::new() };
        rejected(pipeline, rejection, flow) + loop_advice(pipeline, &message, is_unmatched) + &why
    });
    (pipeline.step.site.ledger, pipeline.step.site.counters.tokens_refused) = before;
    let (arrival, plan) = decided?;
    match plan {
        Plan::Dialog(hop) => Ok(explain_within(pipeline, &arrival, hop.to.hop)),
        Plan::Flow(hop) => Ok(explain_within(pipeline, &arrival, hop.hop)),
        Plan::To(destination) => explain_to(pipeline, &arrival, &destination),
    }
}

/// Explains a request within a dialog, which goes to the target that the other party has named.
fn explain_within(pipeline: &Pipeline<'_>, arrival: &Arrival<'_>, hop: Flow) -> Explanation {
    let (site, balancer) = (&*pipeline.step.site, &*pipeline.step.balancer);
    let request = arrival.request(site);
    let member = site.topology.slot_at(hop.remote());
    let decision =
        member.map_or(NodeDecision::Orphan, |slot| NodeDecision::Forward { slot, why: Why::Token });
    Explanation {
        decision,
        token: None,
        known: balancer.session_of(&request).is_some(),
        route: None,
        located: None,
        outside: member.is_none().then_some(hop),
        passed_over: Vec::new(),
        pool: request.pool,
        policy: balancer.policy_name(request.pool),
        queue: None,
        verdicts: Vec::new(),
        limited: Vec::new(),
    }
}

/// Explains a request that no token of a proxy directs.
fn explain_to(
    pipeline: &Pipeline<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
) -> Result<Explanation, String> {
    let (request, flow) = (&destination.request, arrival.flow);
    let led = fixed_hop_of(pipeline, arrival, destination)
        .map_err(|rejection| rejected(pipeline, rejection, flow))?;
    let novelty = pipeline.step.novelty(arrival, request);
    gate::explain(&pipeline.step, arrival, request)?;
    if matches!(destination.to, To::Registrar) {
        return Err("answered here: it is a REGISTER for the registrar".to_owned());
    }
    let located = located_of(pipeline, arrival, destination)?;
    let Choice { pool, decision, verdicts, passed_over, queue } = match led {
        Some((slot, why)) => fixed_choice(pipeline, request, slot, why),
        None => choice_of(pipeline, arrival, destination, novelty),
    };
    let limited = limited_of(pipeline, destination, decision, &verdicts);
    let balancer = &*pipeline.step.balancer;
    Ok(Explanation {
        decision,
        token: arrival.held().map(|held| held.token.node),
        known: balancer.session_of(request).is_some(),
        route: destination.rule.map(|index| route_taken(pipeline, index, arrival)),
        located,
        outside: destination.to.outside(),
        passed_over,
        pool,
        policy: balancer.policy_name(pool),
        queue,
        verdicts,
        limited,
    })
}

/// Returns the next hop to which a request goes regardless of the policy. Its Route names this hop (`Token`), or its
/// first copy went to this hop (`Session`).
fn fixed_hop_of(
    pipeline: &Pipeline<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
) -> Result<Option<(Slot, Why)>, Rejection> {
    let (step, pool) = (&pipeline.step, destination.request.pool);
    let service = step.pools.service(pool);
    match destination.to {
        To::Followed(slot) => return Ok(Some((slot, Why::Session))),
        To::Onward => {}
        To::Registrar | To::Contacts | To::Address(_) | To::Member | To::Outside(_) | To::Orphan => {
            return Ok(None);
        }
    }
    if service.has_hops() {
        let has_members = step.balancer.members(pool).next().is_some();
        if has_members && is_about_us(step.site, arrival.message) {
            return Err(Rejection::Answered(OwnResponse::Capabilities));
        }
        if let Some(slot) = named_member(step, arrival, destination)? {
            return Ok(Some((slot, Why::Token)));
        }
    }
    Ok(arrival.hop().and_then(|hop| hop.member(step.balancer)).map(|slot| (slot, Why::Session)))
}

fn fixed_choice(pipeline: &Pipeline<'_>, request: &RequestFacts<'_>, slot: Slot, why: Why) -> Choice {
    let (_, verdicts) = pipeline.step.balancer.explain(pipeline.step.site.now, request);
    let decision = NodeDecision::Forward { slot, why };
    Choice { pool: request.pool, decision, verdicts, passed_over: Vec::new(), queue: None }
}

/// Returns the servers to which a request may go and which have asked for less load.
fn limited_of(
    pipeline: &Pipeline<'_>,
    destination: &Destination<'_>,
    decision: NodeDecision,
    verdicts: &[CandidateVerdict],
) -> Vec<NeighbourReport> {
    let site = &*pipeline.step.site;
    let mut reports = site.admission.overload.neighbours(site.now);
    let chosen = match decision {
        NodeDecision::Forward { slot, .. } => Some(slot),
        _ => None,
    };
    let slots = verdicts.iter().map(|verdict| verdict.candidate.slot).chain(chosen);
    let hops: Vec<_> = slots.map(|slot| site.topology.node(slot)).chain(destination.to.outside()).collect();
    reports.retain(|report| {
        (report.limit.is_some() || report.is_silent) && hops.iter().any(|hop| hop.peer == report.address)
    });
    reports
}

/// Returns the decision of the balancer and the queues, pool by pool.
fn choice_of(
    pipeline: &Pipeline<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
    novelty: Novelty,
) -> Choice {
    let (now, balancer, routes) =
        (pipeline.step.site.now, &*pipeline.step.balancer, &pipeline.step.site.routes);
    let request = &destination.request;
    let (mut verdicts, mut passed, mut queue) = (Vec::new(), Vec::new(), None);
    if matches!(destination.to, To::Orphan | To::Contacts | To::Address(_)) {
        let decision = NodeDecision::Orphan;
        return Choice { pool: request.pool, decision, verdicts, passed_over: passed, queue };
    }
    let first = first_pool(routes, destination, balancer, now);
    for pool in passed_over(routes, destination, first) {
        let asked = RequestFacts { pool, ..*request };
        let (_, verdicts) = balancer.explain(now, &asked);
        let is_full = balancer.is_full(now, &asked);
        let outcome = if is_full { FailoverCause::Full } else { FailoverCause::NoneAlive };
        passed.push(PassedOver { pool, outcome, verdicts });
    }
    let site = &*pipeline.step.site;
    let key = site.seen.key(&site.tokens, arrival.message, arrival.key, arrival.flow.peer);
    let length = arrival.message.bytes().len();
    let queues = pipeline.step.queues.as_deref().filter(|_| takes_turn(balancer, request, novelty));
    let (decision, pool) = choose(routes, destination, first, |request| {
        let decision;
        (decision, verdicts) = balancer.explain(now, request);
        let asked = queues.filter(|_| balancer.has_takers(now, request.pool));
        queue = asked.and_then(|queues| queues.turn(now, request.pool, key, length, balancer));
        let outcome = match queue {
            Some(QueueTurn::Full) => Some(FailoverCause::Full),
            Some(QueueTurn::Member(_) | QueueTurn::Waits) => None,
            None => goes_on_as(decision, balancer.is_full(now, request)),
        };
        let over = |outcome| PassedOver { pool: request.pool, outcome, verdicts: verdicts.clone() };
        passed.extend(outcome.map(over));
        (decision, outcome)
    });
    // The last pool is left out, since the decision itself covers it.
    passed.retain(|over| over.pool != pool);
    let decision = without_search(decision, arrival);
    Choice { pool, decision, verdicts, passed_over: passed, queue }
}

/// Returns the plan for a request, unless it is refused.
fn decide<'m>(
    pipeline: &mut Pipeline<'_>,
    flow: Flow,
    message: &'m Message<'m>,
) -> Result<(Arrival<'m>, Plan<'m>), Rejection> {
    let arrival = Arrival::read(pipeline.step.site, pipeline.step.pools, flow, message, None);
    arrival.lets_in(&pipeline.step.site.routes.access)?;
    arrival.check(&pipeline.step.site.topology.ports)?;
    let Pipeline { step, stateless, stateful, registrar } = pipeline;
    let plan = plan(step, &arrival, stateless, stateful.as_deref(), registrar.as_deref(), |_, _, _| Ok(()))?;
    if let Plan::To(destination) = &plan
        && let To::Outside(Err(rejection)) = destination.to
    {
        return Err(rejection);
    }
    Ok((arrival, plan))
}

/// Returns as text how a request is refused or dropped, and by which list, entry or rule.
fn rejected(pipeline: &Pipeline<'_>, rejection: Rejection, flow: Flow) -> String {
    match rejection {
        Rejection::Answered(OwnResponse::Capabilities) => {
            "answered here: it is an OPTIONS about this proxy".to_owned()
        }
        Rejection::Answered(own) => format!("refused: {} {}", own.status(), own.label()),
        Rejection::Overloaded(refused) => format!("refused: {} {}", refused.status, refused.reason),
        Rejection::By(refuser @ Refuser::Answer(index)) => {
            let name = &pipeline.step.site.routes.rule(index).name;
            match pipeline.step.site.routes.answer(refuser) {
                Ok(own) => format!("refused by the route {name}: {} {}", own.status(), own.reason()),
                Err(_) => format!("refused by the route {name}"),
            }
        }
        Rejection::By(refuser) => {
            let by = refused_by(pipeline, refuser, flow);
            match pipeline.step.site.routes.answer(refuser) {
                Ok(own) => format!("refused: {} {}: {by}", own.status(), own.label()),
                Err(_) => format!("dropped without an answer: {by}"),
            }
        }
        Rejection::Dropped(Drop::Silenced) => "dropped without an answer".to_owned(),
        Rejection::Dropped(Drop::Unresolved) => {
            "dropped: the next hop is a host name that is being looked up; ask again".to_owned()
        }
        Rejection::Dropped(drop) => format!("dropped: {}", drop.reason()),
    }
}

/// Returns for each route the condition that does not hold for this request.
fn unmatched(pipeline: &mut Pipeline<'_>, flow: Flow, message: &Message<'_>) -> String {
    let arrival = Arrival::read(pipeline.step.site, pipeline.step.pools, flow, message, None);
    let each = mismatches(pipeline, &arrival).into_iter();
    each.fold(String::new(), |all, (name, why)| all + "\n" + &name + ": " + &why)
}

/// Returns advice for a call that this proxy sent to a registered contact, and that came back and matches no route.
fn loop_advice(pipeline: &Pipeline<'_>, message: &Message<'_>, has_no_route: bool) -> &'static str {
    let by_source = pipeline.registrar.as_ref().is_some_and(|registrar| registrar.reaches_sources());
    let is_ours = |via: &Via<'_>| pipeline.step.site.topology.ports.wrote(via);
    if !(has_no_route && by_source && message.vias().skip(1).flatten().any(|via| is_ours(&via))) {
        return "";
    }
    "; it went out from here before. If it went to the proxy through which its user registered, let that proxy add a \
     Path, or bypass it \
     with [registrar] reach = \"contact\""
}

fn refused_by(pipeline: &Pipeline<'_>, refuser: Refuser, flow: Flow) -> String {
    let routes = &pipeline.step.site.routes;
    let name = |index| &routes.rule(index).name;
    // The source is in a network of `deny`, or in no network of `allow`.
    let entry = |access: &Access| match access.entry(flow.peer.ip()) {
        Some(network) => format!("{} is in {network} of `deny`", flow.peer.ip()),
        None => format!("{} is in no network of `allow`", flow.peer.ip()),
    };
    match refuser {
        Refuser::Listener(index) => {
            let entry = routes.access.get(usize::from(index)).map(entry).unwrap_or_default();
            format!("{entry} for the listener {}", pipeline.step.site.topology.ports[index].sent_by)
        }
        Refuser::Rule(index) => {
            format!("{} of the route {}", entry(&routes.rule(index).access), name(index))
        }
        Refuser::Relay(index) => {
            let is_closed = routes.rule(index).conditions.hosts.is_empty();
            let why = if is_closed {
                "and only members of pools may use it"
            } else {
                "and this Request-URI leads to no foreign address in its `host_network`"
            };
            format!("the route {} sends requests where their Request-URI leads, {why}", name(index))
        }
        Refuser::Answer(index) | Refuser::Silence(index) => {
            format!("by the route {}", name(index))
        }
        Refuser::NoRule => "no [[route]] matches it".to_owned(),
    }
}

/// Returns the user whose contacts a request goes to, if its rule sends it to contacts.
fn located_of(
    pipeline: &Pipeline<'_>,
    arrival: &Arrival<'_>,
    destination: &Destination<'_>,
) -> Result<Option<Aor>, String> {
    if !matches!(destination.to, To::Contacts) {
        return Ok(None);
    }
    let aor = sought(pipeline.step.site, destination.rule, arrival);
    aor.map(Some).map_err(|refused| format!("refused: {} {}", refused.status, refused.reason))
}

/// Returns the routes before the one that matches, each with the condition that does not hold.
fn mismatches(pipeline: &Pipeline<'_>, arrival: &Arrival<'_>) -> Vec<(String, String)> {
    let routes = &pipeline.step.site.routes;
    let each = routes.table.mismatches(&query_of(&pipeline.step, arrival)).into_iter();
    each.map(|(index, why)| (routes.rule(index).name.clone(), why)).collect()
}

fn route_taken(pipeline: &Pipeline<'_>, index: usize, arrival: &Arrival<'_>) -> RouteTaken {
    let (site, message, listener) = (&*pipeline.step.site, arrival.message, arrival.flow.listener);
    let (rule, uri) = (site.routes.rule(index), arrival.route.uri(message));
    let rewritten = rewrite(site, rule, uri, listener);
    RouteTaken {
        index,
        name: rule.name.clone(),
        earlier: mismatches(pipeline, arrival),
        steps: rule.actions.steps(message, uri, &site.topology.ports[listener].sent_by),
        uri: rewritten.map(|uri| String::from_utf8_lossy(&uri).into_owned()),
    }
}
