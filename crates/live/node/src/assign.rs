//! Who gets a request, and how it is forwarded there: what the balancer decides, pool after pool, and carrying that out.

use crate::Orphans;
use crate::begun::Begins;
use crate::examine::Facts;
use crate::forward::stateful::{Assigned, is_about_us};
use crate::forward::{Onward, Refresh, Stay};
use crate::home::{AtHome, Known};
use crate::queue::Turn;
use crate::reply::{Halt, Own, acknowledges_us};
use crate::route as ways;
use crate::routes::Routes;
use crate::setup::PoolMode;
use crate::sharing::copies_key;
use crate::token::route::TokenOwner;
use crate::validate::{Refused, check_from_tag, refused, refused_until};
use crate::{Drop, Shard, ShardEvent};
use ::route::{Fork, Forward, Outcome};
use balance::{Balancer, Decision, Direction, PoolId, Request, Slot, Why};
use base::{Flow, Instant, Operation, Outbox};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::{Message, Method};

/// RFC 3261 §21.5.4. Of a table that holds nothing but calls, some end in that time.
const TOO_MANY_SESSIONS: Refused = Refused { retry_after: Some(10), ..refused(503, "Too Many Sessions") };

const NO_SERVER: Refused = refused(503, "No Server Available");

/// What the balancer has decided.
struct Decided {
    decision: Decision,
    /// About this pool.
    pool: PoolId,
}

impl Decided {
    /// To this member, by what is known of its call.
    fn of(slot: Slot, facts: &Facts<'_>) -> Self {
        let decision = Decision::Forward { slot, why: Why::Session };
        Self { decision, pool: facts.request.pool }
    }
}

impl Shard {
    /// Takes a request that belongs to no transaction here.
    pub(crate) fn request(&mut self, flow: Flow, message: &Message<'_>, out: &mut Outbox<ShardEvent>) {
        if acknowledges_us(&self.edge.tokens, message) {
            return self.edge.discard(Drop::Ack);
        }
        if self.is_repeated(flow, message, out) || self.is_queued(flow, message, out) {
            return;
        }
        if let Err(halt) = self.take_request(flow, message, Known::default(), out) {
            self.edge.halt(flow, message, halt, out);
        }
    }

    /// Takes it, with what stores have said about it.
    pub(crate) fn take_request(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        mut known: Known,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        let mut facts = self.examine(flow, message, out)?;
        facts.begins = self.begins(message, &facts);
        if let Some(begins) = known.begins() {
            (facts.begins.0, facts.is_admitted) = (begins, true);
        }
        (facts.waited, facts.sender) = (known.waited, known.sender());
        match facts.halted() {
            Some(halt) => {
                // A node that hangs up has done with the call, whoever hears of it.
                if facts.request.method == Method::Bye {
                    self.balancer.request(self.edge.now, &facts.request);
                }
                Err(halt)
            }
            None if (self.home.is_some()
                || facts.rule.is_some_and(|rule| self.edge.routes.is_located(rule)))
                && self.at_home(flow, message, &mut facts, &mut known, out)? == AtHome::Done =>
            {
                Ok(())
            }
            None if self.goes_onward(&facts.request, facts.is_orphan)
                && !self.is_in_table(&facts.request) =>
            {
                self.assign_onward((flow, message, &mut known), &facts, out)
            }
            None => match self.passed_before(flow, message, &facts.request) {
                Some(slot) => {
                    let begins = !matches!(facts.request.method, Method::Ack | Method::Cancel);
                    self.follow(flow, &facts, slot)?;
                    self.pass(flow, message, &facts, (slot, Stay::Stateless, begins.then_some(false)), out);
                    Ok(())
                }
                None => self.assign((flow, message, &mut known), &facts, out),
            },
        }
    }

    /// Whether a request goes to a next hop, or on with a transaction. Within a dialog with a member it does neither; nor does a
    /// CANCEL or ACK of what has none, or none any more, where the balancer or a search finds the member.
    pub(crate) fn goes_onward(&self, request: &Request<'_>, is_orphan: bool) -> bool {
        let mode = self.mode(request.pool);
        let is_for_pool = request.direction == Direction::ToPool && request.pinned.is_none() && !is_orphan;
        let begins = !matches!(request.method, Method::Ack | Method::Cancel);
        is_for_pool && (mode.is_by_route() || (mode.forward != Forward::Stateless && begins))
    }

    /// Whether a request is part of what began in another way, before a change of the configuration, and ends so: of a transaction
    /// that is noted in the session table alone, or of a call there though its pool remembers none any more.
    fn is_in_table(&self, request: &Request<'_>) -> bool {
        if self.mode(request.pool).is_sessionless {
            is_remembered(&self.balancer, request)
        } else {
            self.balancer.has_open(request)
        }
    }

    /// The next hop that a request without a token, or its INVITE, went to before its pool became another one.
    fn passed_before(&self, flow: Flow, message: &Message<'_>, request: &Request<'_>) -> Option<Slot> {
        let may_be = request.pinned.is_none() && (!request.in_dialog || request.method == Method::Ack);
        if self.passed_to.is_empty() || !may_be {
            return None;
        }
        self.followed(copies_key(&self.edge.tokens, message, flow.peer))
    }

    /// Asks the balancer for a member or next hop, and sends the request there, with a transaction or without.
    fn assign_onward(
        &mut self,
        (flow, message, known): (Flow, &Message<'_>, &mut Known),
        facts: &Facts<'_>,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        let mode = self.mode(facts.request.pool);
        let begins = !matches!(facts.request.method, Method::Ack | Method::Cancel);
        // A CANCEL or ACK of what is kept has found its transaction by now.
        let may_keep = mode.forward.has_transactions() || (mode.forward == Forward::Distributed && begins);
        let named = if mode.is_by_route() { self.named_member(message, facts)? } else { None };
        let has_members = self.balancer.members(facts.request.pool).next().is_some();
        let is_counted = mode.forward == Forward::Dialog || (mode.is_by_route() && !mode.is_sessionless);
        check_from_tag(message, is_counted)?;
        let Some((stateful, lent)) = self.transactions(out) else { return Err(NO_SERVER.into()) };
        if mode.forward.has_transactions() {
            stateful.check_new(lent.edge, message, mode.forward, facts)?;
        }
        if mode.is_by_route() && has_members && is_about_us(lent.edge, message) {
            return Err(Halt::Answered(Own::Capabilities));
        }
        // With a transaction that is found by now, unless it began without one.
        let may_be_passed = !mode.forward.has_transactions() || !self.passed_to.is_empty();
        let is_remembered = may_be_passed && named.is_none();
        let key = is_remembered.then(|| copies_key(&self.edge.tokens, message, flow.peer));
        let follows = key.and_then(|key| self.followed(key));
        let decided = match follows {
            Some(slot) => Some(self.follow(flow, facts, slot)?),
            None => match self.decide((flow, message, known), facts, named, out) {
                // Its INVITE has gone to one of them, and nobody remembers which.
                Err(_) if !begins && !may_keep && has_members => {
                    Some(Decided::of(self.member_by_call(&facts.request), facts))
                }
                decided => decided?,
            },
        };
        let Some(decided) = decided else { return Ok(()) };
        let Decision::Forward { slot, why } = decided.decision else { return Err(NO_SERVER.into()) };
        let is_kept = may_keep && follows.is_none() && self.keeps(mode, message, flow, slot);
        if !is_kept {
            if let Some(key) = key.filter(|_| begins) {
                self.note_passed(key, slot);
            }
            let stay = if mode.record_route { Stay::Stateless } else { Stay::No };
            self.pass(flow, message, facts, (slot, stay, begins.then_some(false)), out);
            return Ok(());
        }
        if mode.forward == Forward::Distributed
            && let Some((stateful, lent)) = self.transactions(out)
        {
            stateful.check_new(lent.edge, message, mode.forward, facts)?;
        }
        let is_fixed = facts.request.in_dialog || named.is_some();
        let assigned = Assigned {
            request: Request { pool: decided.pool, call_id: &[], ..facts.request },
            dialogs: mode.dialogs,
            stay: stay_of_kept(mode),
            is_fixed,
            fork: if is_fixed { Fork::None } else { mode.fork },
            ring_time: mode.ring_time,
            rule: facts.rule.map(|rule| (Arc::clone(&self.edge.routes), rule)),
            tried: [slot].into_iter().collect(),
            pools: 1,
            since: self.edge.now,
            failed: None,
            patience: if is_fixed { None } else { self.patience(&facts.request, (decided.pool, why)) },
            moved: None,
        };
        if let Some((stateful, mut lent)) = self.transactions(out) {
            stateful.begin(&mut lent, flow, message, facts, (assigned, !mode.is_sessionless))?;
        }
        Ok(())
    }

    /// How long a member of this pool may leave a request unanswered before another one gets it. What comes again with credentials
    /// is for the member that asked for them.
    fn patience(&self, request: &Request<'_>, (pool, why): (PoolId, Why)) -> Option<Duration> {
        let begins_call = request.method == Method::Invite && why == Why::Policy;
        self.queues.as_deref().filter(|_| begins_call)?.patience(pool)
    }

    /// A request follows its copy, or its INVITE, to this next hop. It is charged if it begins something all the same.
    fn follow(&mut self, flow: Flow, facts: &Facts<'_>, slot: Slot) -> Result<Decided, Halt> {
        self.charge(flow, facts)?;
        self.goes_on(facts);
        Ok(Decided::of(slot, facts))
    }

    /// The next hop that a copy of this request, or its INVITE, went to without a transaction.
    fn followed(&self, key: u64) -> Option<Slot> {
        let (slot, _) = self.passed_to.get(&key).copied()?;
        self.balancer.nodes().get(slot.index()).filter(|node| node.member).map(|_| slot)
    }

    /// A request, or a copy of one, goes to a next hop without a transaction.
    fn note_passed(&mut self, key: u64, slot: Slot) {
        let since = self.passed_to.get(&key).map_or(self.edge.now, |(_, since)| *since);
        self.passed_to.insert(key, (slot, since));
    }

    /// Whether the first copy of a request went on without a transaction before the key of new tokens changed.
    fn was_passed_before_key(&self, message: &Message<'_>, from: SocketAddr) -> bool {
        let Some(rekeyed) = self.edge.rekeyed else { return false };
        let passed = self.passed_to.get(&copies_key(&self.edge.tokens, message, from));
        passed.is_some_and(|(_, since)| *since <= rekeyed)
    }

    /// Whether what goes on keeps the branch that the key before made.
    pub(crate) fn keeps_branch(
        &self,
        (from, message): (SocketAddr, &Message<'_>),
        request: &Request<'_>,
        is_orphan: bool,
    ) -> bool {
        if self.goes_onward(request, is_orphan) {
            self.was_passed_before_key(message, from)
        } else {
            self.is_older_than_key(request)
        }
    }

    /// A member of the pool by a hash of the call alone, whatever its health is.
    fn member_by_call(&self, request: &Request<'_>) -> Slot {
        let members: Vec<_> = self.balancer.members(request.pool).collect();
        members[(request.key.0 >> 64) as usize % members.len()]
    }

    /// Whether this proxy of the chain keeps the transaction of a request.
    fn keeps(&mut self, mode: PoolMode, message: &Message<'_>, flow: Flow, slot: Slot) -> bool {
        let hop = self.edge.topology.node(slot).peer;
        let has_room = self.stateful.has_room(message);
        mode.forward.has_transactions()
            || self.edge.who_keeps(message, (flow.peer, hop), has_room) == distribute::Decision::Keep
    }

    /// Sends a request to a next hop without a transaction.
    fn pass(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        facts: &Facts<'_>,
        (slot, stay, keeps): (Slot, Stay, Option<bool>),
        out: &mut Outbox<ShardEvent>,
    ) {
        let rule = facts.rule.map(|rule| (Arc::clone(&self.edge.routes), rule));
        let onward = Onward {
            from: flow,
            hop: self.edge.topology.node(slot),
            element: TokenOwner::Proxy,
            rule: rule.as_ref().map(|(routes, rule)| routes.rule(*rule)),
            contact: None,
            breadth: None,
            stay,
            keeps,
        };
        let older = self.was_passed_before_key(message, flow.peer);
        let by = (facts.routing, &Refresh::of(true));
        self.edge.pass_again(message, &onward, by, older, out);
        self.balancer.count_request(self.edge.now, slot, &facts.request);
    }

    /// The member that the Route of a request names; if it names any, it has to be one of the pools that the request is for. What
    /// has lost its dialog goes to the member that it names as its target, if that is one.
    fn named_member(&self, message: &Message<'_>, facts: &Facts<'_>) -> Result<Option<Slot>, Refused> {
        let has_lost = message.to_tag().is_some() && !facts.request.in_dialog;
        if facts.route.next.is_none() && !has_lost {
            return Ok(None);
        }
        let slot = match facts.route.target(message) {
            ways::Target::Address(to) => self.edge.topology.slot_at(to),
            ways::Target::Name(..) | ways::Target::OtherTransport | ways::Target::Nowhere => None,
        };
        let of_rule = facts.rule.and_then(|rule| self.edge.routes.pools(rule));
        let pools = of_rule.into_iter().flat_map(|pools| &pools.choices).map(|choice| PoolId(choice.pool));
        let mut members = pools.chain([facts.request.pool]).flat_map(|pool| self.balancer.members(pool));
        let named = slot.filter(|slot| members.any(|member| member == *slot));
        if named.is_none() && facts.route.next.is_some() {
            return Err(refused(403, "Forbidden"));
        }
        Ok(named)
    }

    /// Asks the balancer for a member, and sends the request there.
    fn assign(
        &mut self,
        (flow, message, known): (Flow, &Message<'_>, &mut Known),
        facts: &Facts<'_>,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        let Some(decided) = self.decide((flow, message, known), facts, None, out)? else { return Ok(()) };
        if let Decision::Forward { slot, .. } = decided.decision {
            if let Some(refreshed) = facts.refreshed {
                self.edge.targets.note(refreshed);
            }
            self.send_to(flow, message, facts, slot, false, out);
        } else {
            self.search(flow, message, facts, out)?;
        }
        Ok(())
    }

    /// What the balancer decides: a member, which is the one that the Route has `named`, or a search. None: the request waits in
    /// the queue of a pool.
    fn decide(
        &mut self,
        (flow, message, known): (Flow, &Message<'_>, &mut Known),
        facts: &Facts<'_>,
        named: Option<Slot>,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<Option<Decided>, Halt> {
        let request = &facts.request;
        let (mode, now) = (self.mode(request.pool), self.edge.now);
        if !mode.is_sessionless {
            self.edge.ledger.charge(Operation::Lookup);
        }
        let stopping = self.edge.settings.stopping.filter(|_| !facts.is_admitted && facts.may_begin_call());
        if let Some(end) = stopping.filter(|_| self.is_new(request)) {
            return Err(refused_until(end, self.edge.now).into());
        }
        self.charge(flow, facts)?;
        let (mut decision, mut pool) = (Decision::Orphan, request.pool);
        if let Some(slot) = named {
            decision = Decision::Forward { slot, why: Why::Token };
            if is_noted(&self.balancer, request, mode) {
                self.balancer.request(now, &Request { pinned: Some(slot), ..*request });
            }
        } else if !facts.is_orphan {
            let (asked, of) = self.ask_pools((flow, message, known), facts, mode);
            match asked {
                Ok(asked) => (decision, pool) = (facts.without_search(asked), of),
                Err(Turn::Full(halt)) => return Err(halt),
                Err(Turn::Now(_) | Turn::Later) => {
                    self.begins_to_wait(of, flow, message, out);
                    return Ok(None);
                }
            }
        }
        if decision == Decision::Orphan {
            return Err(match self.edge.settings.orphans {
                Orphans::Drop => Halt::Dropped(Drop::Orphan),
                Orphans::Reject | Orphans::Balance => refused(481, "Call/Transaction Does Not Exist").into(),
            });
        }
        self.note_decision(decision, mode, out)?;
        self.goes_on(facts);
        Ok(Some(Decided { decision, pool }))
    }

    /// Whether a request takes its turn in the queue of its pool: an INVITE that begins a call and that no server has yet.
    pub(crate) fn takes_turn(&self, request: &Request<'_>, begins: Begins) -> bool {
        request.method == Method::Invite && begins.is_unserved() && !self.balancer.has_open(request)
    }

    /// Asks for the pools of a request. A new call may have its turn in the queue of one, or later, or none.
    fn ask_pools(
        &mut self,
        (flow, message, known): (Flow, &Message<'_>, &mut Known),
        facts: &Facts<'_>,
        mode: PoolMode,
    ) -> (Result<Decision, Turn>, PoolId) {
        let begins_call = self.takes_turn(&facts.request, facts.begins.0);
        let now = self.edge.now;
        let Self { edge, balancer, queues, .. } = self;
        let mut queues = queues.as_deref_mut().filter(|_| begins_call);
        let waited = facts.waited.filter(|(pool, _)| may_go_to(&edge.routes, facts, *pool));
        let first = waited.map_or_else(|| first_pool(&edge.routes, facts, balancer, now), |(pool, _)| pool);
        let mut without_takers = Vec::new();
        if begins_call && waited.is_none() && balancer.session_of(&facts.request).is_none() {
            without_takers.extend(passed_over(&edge.routes, facts, first));
        }
        let chosen = choose(&edge.routes, facts, first, |request| {
            let queue = queues.as_deref_mut().filter(|queues| queues.has(request.pool));
            // Where nobody takes calls at all, none waits.
            let queue = queue.filter(|_| balancer.has_takers(now, request.pool));
            let turn = match (waited, queue) {
                (Some((pool, waited)), Some(_)) if pool == request.pool => Some(waited.turn()),
                (_, Some(queues)) => {
                    known.admit(facts.begins.0);
                    Some(queues.offer(now, request.pool, (flow, message, known), balancer))
                }
                (_, None) => None,
            };
            let decision = match turn {
                // Where its last place has gone to somebody else meanwhile, another member has to do.
                Some(Turn::Now(slot)) => match balancer.request_to(now, request, slot) {
                    Decision::NoServer => ask(balancer, now, request, mode),
                    decision => decision,
                },
                Some(Turn::Later) => return (Err(Turn::Later), None),
                Some(Turn::Full(halt)) => return (Err(Turn::Full(halt)), Some(Outcome::Full)),
                None => ask(balancer, now, request, mode),
            };
            if let Some(queues) = queues.as_deref_mut() {
                queues.settle(now, |slot| balancer.is_unanswered(request, (slot, now)));
            }
            without_takers.extend((decision == Decision::NoServer).then_some(request.pool));
            let is_full = decision == Decision::NoServer && balancer.is_full(now, request);
            (Ok(decision), goes_on_as(decision, is_full))
        });
        for pool in without_takers {
            *edge.counters.without_takers.entry(pool).or_default() += 1;
        }
        chosen
    }

    /// Counts a decision, or says why the request is refused.
    fn note_decision(
        &mut self,
        decision: Decision,
        mode: PoolMode,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<(), Halt> {
        match decision {
            Decision::Forward { why, .. } => {
                self.edge.counters.decisions[why as usize] += 1;
                if matches!(why, Why::Policy | Why::Moved) && !mode.is_sessionless {
                    self.edge.ledger.charge(Operation::Choose);
                    self.edge.ledger.charge(Operation::CreateSession);
                }
                Ok(())
            }
            Decision::Search => Ok(()),
            Decision::NoRoom => {
                if let Some(refused) = self.no_room.note(self.edge.now) {
                    out.event(ShardEvent::NoRoom(refused));
                }
                Err(TOO_MANY_SESSIONS.into())
            }
            Decision::NoServer | Decision::Orphan => {
                if let Some(refused) = self.no_server.note(self.edge.now) {
                    out.event(ShardEvent::NoServer(refused));
                }
                Err(NO_SERVER.into())
            }
        }
    }

    /// Whether a request begins something: nothing here and no token knows of it.
    pub(crate) fn is_new(&self, request: &Request<'_>) -> bool {
        !request.in_dialog
            && request.pinned.is_none()
            && !matches!(request.method, Method::Ack | Method::Cancel)
            && self.balancer.session_of(request).is_none()
    }
}

/// Whether we stay on the way of a dialog whose first transaction is kept here.
fn stay_of_kept(mode: PoolMode) -> Stay {
    match mode.forward {
        Forward::Dialog => Stay::WithDialogs,
        // Who keeps the transactions of a call sees its dialogs, too.
        Forward::Distributed => Stay::WithTransactions,
        _ if mode.record_route => Stay::WithTransactions,
        _ => Stay::No,
    }
}

/// Whether the balancer takes note of a request: not for a pool without sessions, unless it remembers the call, or the transaction
/// of what begins one, from before a change of the pool. Then that is to end there, too. What spirals is of another transaction
/// than the call that it has begun with.
fn is_noted(balancer: &Balancer, request: &Request<'_>, mode: PoolMode) -> bool {
    !mode.is_sessionless || is_remembered(balancer, request)
}

fn is_remembered(balancer: &Balancer, request: &Request<'_>) -> bool {
    if balancer.is_idle() {
        false
    } else if request.in_dialog {
        balancer.session_of(request).is_some()
    } else {
        balancer.has_open(request)
    }
}

/// Asks the balancer who of a pool is to have a request. It takes note of that, but for a pool without sessions.
///
/// What ties a request to a member decides whatever the pool is like: a dialog goes on as it began, also after a change of the
/// configuration.
fn ask(balancer: &mut Balancer, now: Instant, request: &Request<'_>, mode: PoolMode) -> Decision {
    if is_noted(balancer, request, mode) {
        balancer.request(now, request)
    } else if let Some(slot) = request.pinned {
        Decision::Forward { slot, why: Why::Token }
    } else if request.in_dialog && !is_of_invite(request, mode) {
        Decision::Orphan
    } else {
        balancer.pick(now, request, &[])
    }
}

/// Whether it may be the ACK to a failure, which has a To tag and no Route of ours, and goes as its INVITE went
/// (RFC 3261 §17.1.1.3). With a transaction that takes it.
fn is_of_invite(request: &Request<'_>, mode: PoolMode) -> bool {
    !mode.forward.has_transactions() && request.method == Method::Ack
}

/// The pool that is asked first about a request: the first one of its rule that takes it, as far as the rule lets it go on. Where
/// none does, the first of all, whose members may be alive though nobody knows.
pub(crate) fn first_pool(routes: &Routes, facts: &Facts<'_>, balancer: &Balancer, now: Instant) -> PoolId {
    let request = &facts.request;
    let pools = facts.rule.and_then(|rule| routes.pools(rule)).filter(|pools| pools.choices.len() > 1);
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
    facts: &Facts<'_>,
    first: PoolId,
) -> impl Iterator<Item = PoolId> + use<'r> {
    let pools = facts.rule.filter(|_| first != facts.request.pool).and_then(|rule| routes.pools(rule));
    let key = facts.request.key.0;
    pools
        .into_iter()
        .flat_map(move |pools| pools.order(key).map(PoolId))
        .take_while(move |pool| *pool != first)
}

/// Whether a pool is one of those that a request is for.
fn may_go_to(routes: &Routes, facts: &Facts<'_>, pool: PoolId) -> bool {
    let pools = facts.rule.and_then(|rule| routes.pools(rule));
    pools.map_or(pool == facts.request.pool, |pools| pools.order(facts.request.key.0).any(|of| of == pool.0))
}

/// As what a request that goes to nobody of a pool may go on to another one. `is_full`: the pool is full rather than dead.
pub(crate) fn goes_on_as(decision: Decision, is_full: bool) -> Option<Outcome> {
    match decision {
        Decision::NoServer if !is_full => Some(Outcome::NoneAlive),
        Decision::NoServer | Decision::NoRoom => Some(Outcome::Full),
        _ => None,
    }
}

/// Asks for the pools of a request one after the other, from `first` on and as far as its rule lets it go on. `ask` tells what is
/// decided for one, and as what the request may go on to the next. With the decision comes the pool that was asked last.
pub(crate) fn choose<D>(
    routes: &Routes,
    facts: &Facts<'_>,
    first: PoolId,
    mut ask: impl FnMut(&Request<'_>) -> (D, Option<Outcome>),
) -> (D, PoolId) {
    let request = &facts.request;
    let (mut decision, mut outcome) = ask(&Request { pool: first, ..*request });
    let mut asked = first;
    let Some(pools) = facts.rule.and_then(|rule| routes.pools(rule)) else { return (decision, asked) };
    for pool in pools.order(request.key.0).map(PoolId).skip_while(|pool| *pool != first).skip(1) {
        if !outcome.is_some_and(|outcome| pools.failover.goes_on(outcome, 0)) {
            break;
        }
        (decision, outcome) = ask(&Request { pool, ..*request });
        asked = pool;
    }
    (decision, asked)
}
