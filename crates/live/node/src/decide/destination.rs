//! The destination of a request, for traffic and for `explain` (RFC 3261 §16.3 to §16.5).

use crate::address::target;
use crate::decide::removed::Unacknowledged;
use crate::message::validate::{check_extensions, check_room};
use crate::outcome::rejection::{OwnResponse, Refused, Refuser, Rejection, refused};
use crate::read::arrival::{Arrival, TokenProof};
use crate::site::Site;
use crate::site::edit::rewrite;
use crate::site::remote_targets::TargetRefresh;
use crate::site::reply::is_about_us;
use crate::step::Step;
use crate::token::branch::Transaction;
use balance::{Balancer, Direction, PoolId, RequestFacts, Slot};
use base::{Flow, Peer};
use route::{Query, Service, Target};
use std::net::SocketAddr;
use wire::{Method, SipUri};

/// The destination of a request, with everything that forwarding needs.
pub(crate) struct Destination<'m> {
    /// The request as the balancer needs it, with its pool and the member of its dialog.
    pub(crate) request: RequestFacts<'m>,
    /// Index of the rule of the request.
    pub(crate) rule: Option<usize>,
    /// Hash of the routing decision for this proxy's Via (RFC 5393 §4.2).
    pub(crate) routing: u32,
    /// The new remote target of the sender. It is needed if the node leaves the pool during the dialog.
    pub(crate) refreshed: Option<TargetRefresh>,
    /// Whether the sender over UDP is reached at its source address.
    pub(crate) is_at_source: bool,
    pub(crate) to: To,
}

/// The receiver of a request.
#[derive(Clone, Copy)]
pub(crate) enum To {
    Registrar,
    /// The contacts of the user that its Request-URI names.
    Contacts,
    /// The address that the Request-URI or Route of a non-member names, without a transaction. The rule lists its
    /// network.
    Address(Flow),
    /// A next hop, or a member that gets the request with a transaction, chosen by the policy.
    Onward,
    /// The next hop to which its first copy or its INVITE went before a change of its pool.
    Followed(Slot),
    /// A member, without a transaction: the member of its dialog or session, or one chosen by the policy.
    Member,
    /// For a member's request that leaves the pool: the target of its Route or Request-URI, or the reason why it cannot
    /// go there.
    Outside(Result<Flow, Rejection>),
    /// No receiver: the request has a To tag, and nothing proves its dialog.
    Orphan,
}

impl To {
    /// Returns the next hop if it is not chosen from a pool.
    pub(crate) fn outside(self) -> Option<Flow> {
        if let Self::Outside(Ok(flow)) | Self::Address(flow) = self { Some(flow) } else { None }
    }
}

/// The context that a request belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DialogContext {
    /// No dialog: the request is new.
    New,
    /// A dialog, proved by the token or by the sender, which is a member. Also the INVITE of an ACK or CANCEL.
    Dialog,
    /// A call of the session table, with this member.
    Session(Slot),
    /// A dialog unknown to this process.
    Orphan,
}

/// Returns the destination of a request. Has no effects except on counters, and may start the look-up of a host name.
pub(crate) fn destination<'m>(
    step: &mut Step<'_>,
    arrival: &Arrival<'m>,
    mut request: RequestFacts<'m>,
    is_for_registrar: bool,
    unacknowledged: &Unacknowledged,
) -> Result<Destination<'m>, Rejection> {
    let message = arrival.message;
    let context = context_of(step, arrival, &mut request);
    // The ACK to a failure has a To tag, and goes by the rule of its INVITE.
    let goes_by_rule = context == DialogContext::New || arrival.method == Method::Ack;
    let has_rule = arrival.held().is_none() && !is_for_registrar && goes_by_rule;
    let rule = if has_rule { rule_of(step, arrival)? } else { None };
    let pool = rule.and_then(|rule| step.site.routes.pools(rule)?.first(arrival.call.0)).map(PoolId);
    let is_located = rule.is_some_and(|rule| step.site.routes.is_located(rule));
    // A member is handled like any caller if a rule sends its calls to a pool or a user.
    let sender = arrival.member.filter(|_| pool.is_none() && !is_located && !is_for_registrar);
    request.direction = direction_of(step, arrival, sender)?;
    let leaves = request.direction == Direction::FromPool;
    request.pinned = request.pinned.or(sender.filter(|_| leaves));
    request.pool = pool.unwrap_or_else(|| pool_of_dialog(step, context, &request));
    // Requests that a removed node sends out of the pool are checked below.
    if pool.is_some() && !is_for_registrar && has_left(step, arrival) && step.is_new(&request) {
        return Err(refused(403, "Forbidden").into());
    }
    let relays = rule
        .filter(|rule| arrival.member.is_none() && step.site.routes.rule(*rule).target == Target::RequestUri);
    // A transaction that started under the previous routes finishes under them.
    let followed = followed(step, arrival, &request);
    let remembered = || {
        let branch = mark_of(step, arrival, Direction::ToPool, 0);
        is_remembered(step.balancer, &RequestFacts { branch, ..request })
    };
    let relays = relays.filter(|_| followed.is_none() && !remembered());
    let goes_onward =
        context != DialogContext::Orphan && goes_onward(step.pools.service(request.pool), &request);
    let key = if relays.is_some() || is_located || goes_onward || (followed.is_some() && !leaves) {
        arrival.key(step.site)
    } else {
        step.key(arrival, &request)
    };
    let routing = step.site.routing(message, &arrival.route, request.direction, key)?;
    check_extensions(message)?;
    request.branch = mark_of(step, arrival, request.direction, routing);
    let to = if is_for_registrar && message.to_tag().is_none() {
        To::Registrar
    } else if leaves {
        To::Outside(way_out(step, arrival, rule))
    } else if let Some(rule) = relays {
        To::Address(way_to_address(step, arrival, rule)?)
    } else if is_located {
        To::Contacts
    } else if goes_onward && !is_in_table(step.balancer, step.pools.service(request.pool), &request) {
        To::Onward
    } else if let Some(slot) = followed {
        To::Followed(slot)
    } else if context == DialogContext::Orphan {
        To::Orphan
    } else {
        To::Member
    };
    if arrival.is_sips {
        check_sips(step, arrival, &request, rule, to)?;
    }
    let refreshed = refresh_of(step, arrival, &request, unacknowledged)?;
    Ok(Destination { request, rule, routing, refreshed, is_at_source: false, to })
}

/// Checks that a SIPS request reaches only hops over TLS (RFC 5630 §5.3). Every member of the pools of its rule is
/// checked, since any of them may get the request.
fn check_sips(
    step: &Step<'_>,
    arrival: &Arrival<'_>,
    request: &RequestFacts<'_>,
    rule: Option<usize>,
    to: To,
) -> Result<(), Refused> {
    let hop = |slot: Slot| step.site.topology.node(slot);
    match to {
        // The flow to the outside has been checked before, and each contact is checked later.
        To::Registrar | To::Contacts | To::Address(_) | To::Orphan | To::Outside(_) => Ok(()),
        To::Followed(slot) => arrival.check_hop(hop(slot)),
        To::Member | To::Onward => {
            if let Some(slot) = request.pinned {
                return arrival.check_hop(hop(slot));
            }
            let of_rule = rule.and_then(|rule| step.site.routes.pools(rule));
            let of_rule = of_rule.into_iter().flat_map(|pools| &pools.choices);
            let pools = of_rule.map(|choice| PoolId(choice.pool)).chain([request.pool]);
            let mut members = pools.flat_map(|pool| step.balancer.members(pool));
            members.try_for_each(|slot| arrival.check_hop(hop(slot)))
        }
    }
}

/// Returns the next hop to which a request without a token, or its INVITE, went before its pool changed.
fn followed(step: &Step<'_>, arrival: &Arrival<'_>, request: &RequestFacts<'_>) -> Option<Slot> {
    let may_be = request.pinned.is_none() && (!request.in_dialog || request.method == Method::Ack);
    arrival.hop().filter(|_| may_be)?.member(step.balancer)
}

/// Returns the mark for the branch of a forwarded request.
fn mark_of(step: &Step<'_>, arrival: &Arrival<'_>, direction: Direction, routing: u32) -> u32 {
    let transaction = Transaction::new(arrival.message, arrival.message.top_via(), arrival.target);
    step.site.tokens.mark(&transaction, direction, routing)
}

/// Returns the pool of a request without a rule: the pool of the member of its dialog or session. If there is no such
/// member, it is the first pool.
fn pool_of_dialog(step: &Step<'_>, context: DialogContext, request: &RequestFacts<'_>) -> PoolId {
    let of_session = if let DialogContext::Session(slot) = context { Some(slot) } else { None };
    request.pinned.or(of_session).map_or(step.pools.first(), |slot| step.pools.of(slot))
}

/// Returns whether the node that sent a request is a former member.
fn has_left(step: &Step<'_>, arrival: &Arrival<'_>) -> bool {
    arrival.member.is_some_and(|slot| !step.balancer.nodes()[slot.index()].member)
}

/// Returns the dialog context of a request. A To tag alone proves nothing, since any sender can invent one. Without
/// proof, a request counts as new if there are only next hops; otherwise it has no destination.
fn context_of(step: &Step<'_>, arrival: &Arrival<'_>, request: &mut RequestFacts<'_>) -> DialogContext {
    if !request.in_dialog {
        return DialogContext::New;
    }
    let is_of_unknown = matches!(arrival.proof, TokenProof::UnknownNode);
    let is_led = arrival.held().is_some() || request.method == Method::Ack;
    if arrival.member.is_some() || (!is_of_unknown && is_led) {
        return DialogContext::Dialog;
    }
    // If the token names a removed node, a session in the table belongs to another branch of the call. The node of that
    // branch does not know this dialog.
    if let Some(session) = step.balancer.session_of(request).filter(|_| !is_of_unknown) {
        return DialogContext::Session(session.slot);
    }
    // A CANCEL begins no transaction here, and another element may know its INVITE (RFC 3261 §16.10).
    let may_be_known = request.method == Method::Cancel && !is_of_unknown;
    // If users have to authenticate, a request with an invented To tag must not pass without a password.
    let is_balanced = step.site.settings.forwards_orphans && step.site.realm.is_none();
    if may_be_known || is_balanced {
        request.in_dialog = false;
        return DialogContext::New;
    }
    DialogContext::Orphan
}

/// Returns the rule of a request that no dialog directs, if there are rules. A member's request need not have a rule.
pub(crate) fn rule_of(step: &Step<'_>, arrival: &Arrival<'_>) -> Result<Option<usize>, Rejection> {
    let Arrival { flow, message, route, .. } = arrival;
    let routes = &step.site.routes;
    if routes.table.rules().is_empty() {
        return Ok(None);
    }
    let from_member = arrival.member.is_some();
    let Some((index, rule)) = routes.table.find(&query_of(step, arrival)) else {
        return if from_member { Ok(None) } else { Err(Refuser::NoRule.into()) };
    };
    if !rule.access.admits(flow.peer.ip()) {
        return Err(Refuser::Rule(index).into());
    }
    match rule.target {
        Target::Answer(_) => return Err(Refuser::Answer(index).into()),
        Target::Silence => return Err(Refuser::Silence(index).into()),
        // A sender that is no member must not be able to have requests sent to any address.
        Target::RequestUri if !from_member && rule.conditions.hosts.is_empty() => {
            return Err(Refuser::Relay(index).into());
        }
        Target::RequestUri | Target::Location | Target::Pools(_) => {}
    }
    check_room(message, rule.actions.growth(route.uri(message)))?;
    Ok(Some(index))
}

/// Returns a request as the rules compare it.
pub(crate) fn query_of<'m>(step: &Step<'_>, arrival: &Arrival<'m>) -> Query<'m> {
    let Arrival { flow, message, ref route, .. } = *arrival;
    let (uri, topology) = (route.uri(message), &step.site.topology);
    let asks_for_hosts = step.site.routes.table.asks_for_hosts();
    let names_us = asks_for_hosts && SipUri::parse(uri).is_ok_and(|uri| topology.is_ours(&uri));
    Query { message, uri, flow, from_member: arrival.member.is_some(), names_us }
}

/// Returns the direction of a request within its dialog: by the tags of its token, or without a token by its source.
fn direction_of(step: &Step<'_>, arrival: &Arrival<'_>, sender: Option<Slot>) -> Result<Direction, Refused> {
    let by_source = if sender.is_some() { Direction::FromPool } else { Direction::ToPool };
    let Some(held) = arrival.held() else { return Ok(by_source) };
    if held.by_initiator != held.token.outbound {
        return Ok(Direction::ToPool);
    }
    // A request from the pool goes wherever its Request-URI says, so only the node itself may send such a request.
    let topology = &step.site.topology;
    let node = topology.slot(held.token.node).map(|slot| topology.node(slot).peer.ip());
    if node == Some(arrival.flow.peer.ip()) {
        Ok(Direction::FromPool)
    } else {
        Err(refused(403, "Forbidden"))
    }
}

/// Returns the flow of a non-member's request to the address that it names. No host name is looked up. Neither Route
/// nor `maddr` may lead out of the networks of the rule, or back to this proxy.
fn way_to_address(step: &mut Step<'_>, arrival: &Arrival<'_>, rule: usize) -> Result<Flow, Rejection> {
    let target = arrival.route.target(arrival.message);
    let hosts = &step.site.routes.rule(rule).conditions.hosts;
    let ports = &step.site.topology.ports;
    let may_go = match target {
        target::Target::Address(Peer { transport, address }) => {
            let there = SocketAddr::new(address.ip().to_canonical(), address.port());
            hosts.iter().any(|network| network.contains(address.ip()))
                && !ports.is_own(Peer::new(transport, there))
        }
        target::Target::Name(_) => false,
        target::Target::OtherTransport | target::Target::Nowhere => true,
    };
    if !may_go {
        return Err(Refuser::Relay(rule).into());
    }
    way_to(step, arrival, target)
}

/// Returns the flow of a member's request that leaves the pool.
fn way_out(step: &mut Step<'_>, arrival: &Arrival<'_>, rule: Option<usize>) -> Result<Flow, Rejection> {
    let route = &arrival.route;
    if route.next.is_none() && is_about_us(step.site, arrival.message) {
        return Err(Rejection::Answered(OwnResponse::Capabilities));
    }
    let rewritten = rule.filter(|_| route.next.is_none()).and_then(|rule| {
        rewrite(step.site, step.site.routes.rule(rule), route.uri(arrival.message), arrival.flow.listener)
    });
    let target = match &rewritten {
        Some(uri) => target::Target::of(uri),
        None => route.target(arrival.message),
    };
    let held = arrival.held().filter(|held| held.is_senders());
    // The client in the dialog may be reachable only by its connection.
    if let Some(by) = held.and_then(|held| step.site.led(arrival.message, held, &target)?.flow)
        && let Some(way) = by.way(&step.site.topology.ports, arrival.route.far_side.unwrap_or(u16::MAX))
    {
        arrival.check_hop(way)?;
        return Ok(way);
    }
    way_to(step, arrival, target)
}

/// Returns the flow to a target outside of the pools.
fn way_to(step: &mut Step<'_>, arrival: &Arrival<'_>, target: target::Target<'_>) -> Result<Flow, Rejection> {
    let Site { names, topology, now, .. } = &mut *step.site;
    let preferred = arrival.route.far_side.unwrap_or(arrival.flow.listener);
    let way = names.next_hop(*now, target, arrival.call, topology, preferred, step.out)?;
    arrival.check_hop(way)?;
    Ok(way)
}

/// Returns the new remote target of the sender. Fails if a removed member sends a request that belongs to no known call
/// or transaction.
fn refresh_of(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    request: &RequestFacts<'_>,
    unacknowledged: &Unacknowledged,
) -> Result<Option<TargetRefresh>, Refused> {
    if request.direction == Direction::FromPool {
        unacknowledged.check_removed(step, arrival, request)?;
        return Ok(None);
    }
    let Site { targets, tokens, topology, .. } = &*step.site;
    let Arrival { flow, message, .. } = *arrival;
    Ok(arrival.held().and_then(|held| targets.sender(tokens, message, held, flow, topology)))
}

/// Returns whether a request goes to a next hop, or to a member with a transaction. The result is `false` for requests
/// within a dialog with a member. A CANCEL or ACK without a transaction goes to the member that the balancer or a
/// search finds.
fn goes_onward(service: Service, request: &RequestFacts<'_>) -> bool {
    let is_for_pool = request.direction == Direction::ToPool && request.pinned.is_none();
    let begins = !matches!(request.method, Method::Ack | Method::Cancel);
    is_for_pool && (service.has_hops() || (service.has_transactions() && begins))
}

/// Returns whether a request finishes a transaction or call that started under the previous configuration. Then its
/// transaction is only in the session table, or its call is in that table although the pool no longer keeps sessions.
fn is_in_table(balancer: &Balancer, service: Service, request: &RequestFacts<'_>) -> bool {
    if service.counts_calls() { balancer.has_open(request) } else { is_remembered(balancer, request) }
}

/// Returns whether the balancer remembers the call of a request within a dialog, or the transaction of a request
/// outside dialogs. A spiral is another transaction than the one that began the call.
pub(crate) fn is_remembered(balancer: &Balancer, request: &RequestFacts<'_>) -> bool {
    if balancer.is_idle() {
        false
    } else if request.in_dialog {
        balancer.session_of(request).is_some()
    } else {
        balancer.has_open(request)
    }
}
