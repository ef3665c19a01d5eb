//! Where a request would go, worked out without sending it.

use crate::admission::{Begins, NeighbourReport};
use crate::arrival::Arrival;
use crate::assign::{choose, first_pool, goes_on_as, passed_over, takes_turn, without_search};
use crate::counters::Drop;
use crate::destination::{Destination, To};
use crate::path::Path;
use crate::queue::QueueTurn;
use crate::rejection::{OwnResponse, Refuser, Rejection, refuse};
use crate::reply::is_about_us;
use crate::settings::Orphans;
use crate::token::copies::copies_key;
use balance::{CandidateVerdict, Decision, NodeId, PoolId, Request, Slot, Why};
use base::Flow;
use location::Aor;
use overload::Origin;
use route::{Access, Exceeded, Outcome, Step as Change};
use wire::{Message, Via};

/// Where a given request would go, and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What would be decided.
    pub decision: Decision,
    /// What happens to [`Decision::Orphan`].
    pub orphans: Orphans,
    /// The node that a verified token in the request names.
    pub token: Option<NodeId>,
    /// Whether its call is in the session table.
    pub known: bool,
    /// The route that it goes by.
    pub route: Option<RouteTaken>,
    /// The user to whose contacts it goes; the decision then says nothing.
    pub located: Option<Aor>,
    /// The way of a request that no pool gets: where its Route or Request-URI leads, or the other party of its dialog has
    /// named; the decision is then who sends it, or says nothing.
    pub outside: Option<Flow>,
    /// Pools of its rule that were asked before, and took nothing.
    pub passed_over: Vec<PassedOver>,
    /// The pool that was asked last.
    pub pool: PoolId,
    /// Its policy.
    pub policy: &'static str,
    /// Of a new call to a pool with a queue: what that would do with it.
    pub queue: Option<QueueTurn>,
    /// Every member of the pool with its load, and why it would take no new call.
    pub verdicts: Vec<CandidateVerdict>,
    /// Of the servers that it may go to those that have asked for less (RFC 7339), or answer nothing.
    pub limited: Vec<NeighbourReport>,
}

/// The route of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteTaken {
    /// Its index.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// What it does to the request first, with what that changes.
    pub steps: Vec<Change>,
    /// The Request-URI that comes of it, where that is another one.
    pub uri: Option<String>,
}

/// A pool that takes nothing, so that the request goes on to the next one of its rule.
#[derive(Clone, Debug)]
pub struct PassedOver {
    /// Its number.
    pub pool: PoolId,
    /// As what the request goes on.
    pub outcome: Outcome,
    /// Every member of the pool, and why it takes no new call.
    pub verdicts: Vec<CandidateVerdict>,
}

/// What the balancer would decide about a request.
struct Choice {
    /// The pool that is asked last.
    pool: PoolId,
    decision: Decision,
    /// Every member of that pool.
    verdicts: Vec<CandidateVerdict>,
    /// The pools before it.
    passed_over: Vec<PassedOver>,
    /// What the queue of that pool would do.
    queue: Option<QueueTurn>,
}

/// Where a request goes.
enum Found<'m> {
    /// Where the other party of its dialog has named.
    Dialog(Flow),
    Destination(Box<Destination<'m>>),
}

impl Path<'_> {
    /// What would happen to this request if it came by this flow now.
    pub(crate) fn explain(&mut self, flow: Flow, bytes: &[u8]) -> Result<Explanation, String> {
        let message = wire::scan(bytes).map_err(|discard| format!("dropped: {}", discard.reason()))?;
        if message.status().is_some() {
            return Err("this is a response; responses follow their Via".to_owned());
        }
        let before = (self.step.edge.ledger, self.step.edge.counters.tokens_refused);
        let gone = self.destination_of(flow, &message);
        (self.step.edge.ledger, self.step.edge.counters.tokens_refused) = before;
        let (arrival, found) = gone.map_err(|rejection| {
            self.rejected(rejection, flow)
                + self.come_back(&message, matches!(rejection, Rejection::By(Refuser::NoRule)))
        })?;
        match found {
            Found::Dialog(hop) => Ok(self.explain_within(&arrival, hop)),
            Found::Destination(destination) => self.explain_to(&arrival, &destination),
        }
    }

    /// A request within a dialog goes where the other party has named.
    fn explain_within(&self, arrival: &Arrival<'_>, hop: Flow) -> Explanation {
        let (edge, balancer) = (&*self.step.edge, &*self.step.balancer);
        let request = arrival.request(edge);
        let member = edge.topology.slot_at(hop.remote());
        let decision = member.map_or(Decision::Orphan, |slot| Decision::Forward { slot, why: Why::Token });
        Explanation {
            decision,
            orphans: edge.settings.orphans,
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

    /// A request that no token of a proxy leads.
    fn explain_to(
        &self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
    ) -> Result<Explanation, String> {
        let (request, flow) = (&destination.request, arrival.flow);
        let led = self.led(arrival, destination).map_err(|rejection| self.rejected(rejection, flow))?;
        let begins = self.step.charge(arrival, request).begins;
        if !matches!(led, Some((_, Why::Session))) {
            if self.step.stops(request).is_some() {
                return Err("refused: 503 Service Unavailable: stopping, no new calls are taken".to_owned());
            }
            if matches!(begins, Begins::New | Begins::Anew) {
                self.check_entry(arrival)?;
                self.check_overload()?;
            }
        }
        if begins == Begins::New {
            self.check_rate(flow)?;
        }
        if matches!(destination.to, To::Registrar) {
            return Err("answered here: it is a REGISTER for the registrar".to_owned());
        }
        let located = self.located(arrival, destination)?;
        let Choice { pool, decision, verdicts, passed_over, queue } = match led {
            Some((slot, why)) => self.led_to(request, slot, why),
            None => self.choice(arrival, destination, begins),
        };
        let limited = self.limited(destination, decision, &verdicts);
        let balancer = &*self.step.balancer;
        Ok(Explanation {
            decision,
            orphans: self.step.edge.settings.orphans,
            token: arrival.held().map(|held| held.token.node),
            known: balancer.session_of(request).is_some(),
            route: destination.rule.map(|index| self.route_taken(index, arrival)),
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

    /// The next hop that a request goes to whatever the policy says: its Route names it (`Token`), or the first copy
    /// of the request went there (`Session`).
    fn led(
        &self,
        arrival: &Arrival<'_>,
        destination: &Destination<'_>,
    ) -> Result<Option<(Slot, Why)>, Rejection> {
        let (step, pool) = (&self.step, destination.request.pool);
        let service = step.pools.service(pool);
        match destination.to {
            To::Followed(slot) => return Ok(Some((slot, Why::Session))),
            To::Onward => {}
            To::Registrar | To::Contacts | To::Address(_) | To::Member | To::Outside(_) | To::Orphan => {
                return Ok(None);
            }
        }
        if service.has_hops() {
            let named = step.named_member(arrival, destination)?;
            let has_members = step.balancer.members(pool).next().is_some();
            if has_members && is_about_us(step.edge, arrival.message) {
                return Err(Rejection::Answered(OwnResponse::Capabilities));
            }
            if let Some(slot) = named {
                return Ok(Some((slot, Why::Token)));
            }
        }
        let key = copies_key(&step.edge.tokens, arrival.message, arrival.flow.peer);
        Ok(self.stateless.recent_hops.hop(key, step.balancer).map(|slot| (slot, Why::Session)))
    }

    fn led_to(&self, request: &Request<'_>, slot: Slot, why: Why) -> Choice {
        let (_, verdicts) = self.step.balancer.explain(self.step.edge.now, request);
        let decision = Decision::Forward { slot, why };
        Choice { pool: request.pool, decision, verdicts, passed_over: Vec::new(), queue: None }
    }

    /// Of the servers that a request may go to those that have asked for less.
    fn limited(
        &self,
        destination: &Destination<'_>,
        decision: Decision,
        verdicts: &[CandidateVerdict],
    ) -> Vec<NeighbourReport> {
        let edge = &*self.step.edge;
        let mut reports = edge.gate.overload.neighbours(edge.now);
        let chosen = match decision {
            Decision::Forward { slot, .. } => Some(slot),
            _ => None,
        };
        let slots = verdicts.iter().map(|verdict| verdict.candidate.slot).chain(chosen);
        let hops: Vec<_> =
            slots.map(|slot| edge.topology.node(slot)).chain(destination.to.outside()).collect();
        reports.retain(|report| {
            (report.limit.is_some() || report.is_silent) && hops.iter().any(|hop| hop.peer == report.address)
        });
        reports
    }

    /// What the balancer and the queues would decide, pool after pool.
    fn choice(&self, arrival: &Arrival<'_>, destination: &Destination<'_>, begins: Begins) -> Choice {
        let (now, balancer, routes) = (self.step.edge.now, &*self.step.balancer, &self.step.edge.routes);
        let request = &destination.request;
        let (mut verdicts, mut passed, mut queue) = (Vec::new(), Vec::new(), None);
        if matches!(destination.to, To::Orphan | To::Contacts | To::Address(_)) {
            let decision = Decision::Orphan;
            return Choice { pool: request.pool, decision, verdicts, passed_over: passed, queue };
        }
        let first = first_pool(routes, destination, balancer, now);
        for pool in passed_over(routes, destination, first) {
            let asked = Request { pool, ..*request };
            let (_, verdicts) = balancer.explain(now, &asked);
            let is_full = balancer.is_full(now, &asked);
            let outcome = if is_full { Outcome::Full } else { Outcome::NoneAlive };
            passed.push(PassedOver { pool, outcome, verdicts });
        }
        let queues = self.step.queues.as_deref().filter(|_| takes_turn(balancer, request, begins));
        let (decision, pool) = choose(routes, destination, first, |request| {
            let decision;
            (decision, verdicts) = balancer.explain(now, request);
            let asked = queues.filter(|_| balancer.has_takers(now, request.pool));
            queue = asked.and_then(|queues| queues.turn(now, request.pool, arrival.message, balancer));
            let outcome = match queue {
                Some(QueueTurn::Full) => Some(Outcome::Full),
                Some(QueueTurn::Member(_) | QueueTurn::Waits) => None,
                None => goes_on_as(decision, balancer.is_full(now, request)),
            };
            let over = |outcome| PassedOver { pool: request.pool, outcome, verdicts: verdicts.clone() };
            passed.extend(outcome.map(over));
            (decision, outcome)
        });
        // The last one is told of by the decision.
        passed.retain(|over| over.pool != pool);
        let decision = without_search(decision, arrival);
        Choice { pool, decision, verdicts, passed_over: passed, queue }
    }

    /// Where the request goes, if it goes anywhere.
    fn destination_of<'m>(
        &mut self,
        flow: Flow,
        message: &'m Message<'m>,
    ) -> Result<(Arrival<'m>, Found<'m>), Rejection> {
        let arrival = Arrival::read(self.step.edge, self.step.pools, flow, message);
        arrival.lets_in(&self.step.edge.routes.access)?;
        arrival.check(&self.step.edge.topology.ports)?;
        if let Some(stateful) = self.stateful.as_deref()
            && let Some(hop) = stateful.would_go(&mut self.step, &arrival)?
        {
            return Ok((arrival, Found::Dialog(hop)));
        }
        let destination = self.step.destination(&arrival, self.stateless, self.home.as_deref())?;
        match destination.to {
            To::Outside(Err(rejection)) => Err(rejection),
            _ => Ok((arrival, Found::Destination(Box::new(destination)))),
        }
    }

    /// How a request is refused or dropped, and by which list, entry or rule.
    fn rejected(&self, rejection: Rejection, flow: Flow) -> String {
        match rejection {
            Rejection::Answered(OwnResponse::Capabilities) => {
                "answered here: it is an OPTIONS about this proxy".to_owned()
            }
            Rejection::Answered(own) => format!("refused: {} {}", own.status(), own.label()),
            Rejection::By(refuser @ Refuser::Answer(index)) => {
                let name = &self.step.edge.routes.rule(index).name;
                match self.step.edge.routes.answer(refuser) {
                    Ok(own) => format!("refused by the route {name}: {} {}", own.status(), own.reason()),
                    Err(_) => format!("refused by the route {name}"),
                }
            }
            Rejection::By(refuser) => {
                let by = self.refuser(refuser, flow);
                match self.step.edge.routes.answer(refuser) {
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

    /// What to do about a call that was sent to where its user has registered from, and that has come back without a route.
    fn come_back(&self, message: &Message<'_>, has_no_route: bool) -> &'static str {
        let by_source = self.home.as_ref().is_some_and(|home| home.reaches_sources());
        let is_ours = |via: &Via<'_>| self.step.edge.topology.ports.wrote(via);
        if !(has_no_route && by_source && message.vias().skip(1).flatten().any(|via| is_ours(&via))) {
            return "";
        }
        "; it went out from here before: if to the proxy that its user has registered through, that has to add a Path, or be passed by \
         with [registrar] reach = \"contact\""
    }

    fn refuser(&self, refuser: Refuser, flow: Flow) -> String {
        let routes = &self.step.edge.routes;
        let name = |index| &routes.rule(index).name;
        // Whoever is refused is in a network that is kept out, or in none where some are let in.
        let entry = |access: &Access| match access.entry(flow.peer.ip()) {
            Some(network) => format!("{} is in {network} of `deny`", flow.peer.ip()),
            None => format!("{} is in no network of `allow`", flow.peer.ip()),
        };
        match refuser {
            Refuser::Listener(index) => {
                let entry = routes.access.get(usize::from(index)).map(entry).unwrap_or_default();
                format!("{entry} for the listener {}", self.step.edge.here(index))
            }
            Refuser::Rule(index) => {
                format!("{} of the route {}", entry(&routes.rule(index).access), name(index))
            }
            Refuser::Relay(index) => {
                let is_closed = routes.rule(index).conditions.hosts.is_empty();
                let why = if is_closed {
                    "which is for members of pools only"
                } else {
                    "and this one leads to no address of others in its `host_network`"
                };
                format!("the route {} sends requests where their Request-URI leads, {why}", name(index))
            }
            Refuser::Answer(index) | Refuser::Silence(index) => {
                format!("the route {} has it so", name(index))
            }
            Refuser::NoRule => "no [[route]] is for it".to_owned(),
        }
    }

    /// Whether all that its source begins is taken now, where state is shared out.
    fn check_entry(&self, arrival: &Arrival<'_>) -> Result<(), String> {
        match self.step.edge.origin(arrival.flow.peer, arrival.method) {
            Origin::Client(share) if share < 1.0 && !self.step.edge.gate.overload.is_off() => Err(format!(
                "refused: 503 Overloaded, as {:.0} % of new requests from outside [distribution] now: no proxy behind \
                 has room",
                (1.0 - share) * 100.0
            )),
            _ => Ok(()),
        }
    }

    /// Whether overload control takes all new requests now.
    fn check_overload(&self) -> Result<(), String> {
        let (now, overload) = (self.step.edge.now, &self.step.edge.gate.overload);
        if overload.takes_all(now) {
            return Ok(());
        }
        let (law, acceptance, wait) = overload.standing(now);
        Err(format!(
            "refused: 503 Overloaded, as {:.0} % of new requests now: law `{law}` of [overload]: messages wait {} ms",
            (1.0 - acceptance) * 100.0,
            wait.as_millis()
        ))
    }

    /// Whether its source may begin something more now.
    fn check_rate(&self, flow: Flow) -> Result<(), String> {
        let exceeded = self.step.edge.gate.exceeded(self.step.edge.now, flow.peer.ip());
        let Some((exceeded, refusal)) = exceeded else { return Ok(()) };
        let ip = flow.peer.ip();
        let by = match exceeded {
            Exceeded::Address => {
                format!("`per_address` of [access.rate]: {ip} has begun all that it may for now")
            }
            Exceeded::Network => {
                format!(
                    "`per_network` of [access.rate]: the network of {ip} has begun all that it may for now"
                )
            }
        };
        Err(match refuse(refusal) {
            Rejection::Answered(own) => format!("refused: {} {}: {by}", own.status(), own.label()),
            _ => format!("dropped without an answer: {by}"),
        })
    }

    /// The user to whose contacts a request goes, where its rule sends it there.
    fn located(&self, arrival: &Arrival<'_>, destination: &Destination<'_>) -> Result<Option<Aor>, String> {
        if !matches!(destination.to, To::Contacts) {
            return Ok(None);
        }
        let aor = self.step.edge.sought(destination.rule, arrival);
        aor.map(Some).map_err(|refused| format!("refused: {} {}", refused.status, refused.reason))
    }

    fn route_taken(&self, index: usize, arrival: &Arrival<'_>) -> RouteTaken {
        let (edge, message, listener) = (&*self.step.edge, arrival.message, arrival.flow.listener);
        let (rule, uri) = (edge.routes.rule(index), arrival.route.uri(message));
        let rewritten = edge.rewrite(rule, uri, listener);
        RouteTaken {
            index,
            name: rule.name.clone(),
            steps: rule.actions.steps(message, uri, edge.here(listener)),
            uri: rewritten.map(|uri| String::from_utf8_lossy(&uri).into_owned()),
        }
    }
}
