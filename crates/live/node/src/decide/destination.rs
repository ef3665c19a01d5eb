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
use balance::{Balancer, Direction, PoolId, Request, Slot};
use base::{Flow, Peer};
use route::{Query, Service, Target};
use std::net::SocketAddr;
use wire::{Method, SipUri};

/// The destination of a request, with all that forwarding needs.
pub(crate) struct Destination<'m> {
    /// The request in the balancer's terms, with its pool and the member of its dialog.
    pub(crate) request: Request<'m>,
    /// The rule of the request, by its index.
    pub(crate) rule: Option<usize>,
    /// Hash of the routing decision, for our Via (RFC 5393 §4.2).
    pub(crate) routing: u32,
    /// The new remote target of its sender, noted for the time after the node has left the pool.
    pub(crate) refreshed: Option<TargetRefresh>,
    /// Whether its sender has registered from where it came, over UDP: known once a store has been asked.
    pub(crate) is_registered: bool,
    pub(crate) to: To,
}

/// The receiver of a request.
#[derive(Clone, Copy)]
pub(crate) enum To {
    /// The registrar.
    Registrar,
    /// The contacts of the user that its Request-URI names.
    Contacts,
    /// The address that a stranger's Request-URI or Route names, without a transaction: a listed one.
    Address(Flow),
    /// A next hop, or a member that gets the request with a transaction; the policy chooses.
    Onward,
    /// The next hop that its first copy, or its INVITE, went to before its pool became another one.
    Followed(Slot),
    /// A member, without a transaction: that of its dialog or session, or the one that the policy chooses.
    Member,
    /// The target of its Route or Request-URI: a member sends it out of its pool. Or the reason why it goes nowhere.
    Outside(Result<Flow, Rejection>),
    /// Nobody: the request has a To tag, and nothing proves its dialog.
    Orphan,
}

impl To {
    /// The way where no pool decides.
    pub(crate) fn outside(self) -> Option<Flow> {
        if let Self::Outside(Ok(flow)) | Self::Address(flow) = self { Some(flow) } else { None }
    }
}

/// The context that a request belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DialogContext {
    /// None: the request is new.
    New,
    /// A dialog, by its token or since a member sends it; or an INVITE whose ACK or CANCEL it is.
    Dialog,
    /// A call in the session table, which is with this member.
    Session(Slot),
    /// A dialog that nobody here knows.
    Orphan,
}

/// Where a request goes. Changes nothing but counters; a host name that it goes to may be asked for.
pub(crate) fn destination<'m>(
    step: &mut Step<'_>,
    arrival: &Arrival<'m>,
    mut request: Request<'m>,
    is_for_registrar: bool,
    unacknowledged: &Unacknowledged,
) -> Result<Destination<'m>, Rejection> {
    let message = arrival.message;
    let context = context_of(step, arrival, &mut request);
    // The ACK to a failure has a To tag, and goes as its INVITE went.
    let goes_by_rule = context == DialogContext::New || arrival.method == Method::Ack;
    let has_rule = arrival.held().is_none() && !is_for_registrar && goes_by_rule;
    let rule = if has_rule { rule_of(step, arrival)? } else { None };
    let pool = rule.and_then(|rule| step.site.routes.pools(rule)?.first(arrival.call.0)).map(PoolId);
    let is_located = rule.is_some_and(|rule| step.site.routes.is_located(rule));
    // A member whose calls go by a rule to a pool or to a user is a caller as any other.
    let sender = arrival.member.filter(|_| pool.is_none() && !is_located && !is_for_registrar);
    request.direction = direction_of(step, arrival, sender)?;
    let leaves = request.direction == Direction::FromPool;
    request.pinned = request.pinned.or(sender.filter(|_| leaves));
    request.pool = pool.unwrap_or_else(|| pool_of_dialog(step, context, &request));
    // What a removed node sends on to others is checked below.
    if pool.is_some() && !is_for_registrar && has_left(step, arrival) && step.is_new(&request) {
        return Err(refused(403, "Forbidden").into());
    }
    let relays = rule
        .filter(|rule| arrival.member.is_none() && step.site.routes.rule(*rule).target == Target::RequestUri);
    // A transaction that began under the previous routes ends under them.
    let followed = followed(step, arrival, &request);
    let remembered = || {
        let branch = mark_of(step, arrival, Direction::ToPool, 0);
        is_remembered(step.balancer, &Request { branch, ..request })
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
    Ok(Destination { request, rule, routing, refreshed, is_registered: false, to })
}

/// Checks whether a request that goes on over TLS alone finds nothing else where it goes (RFC 5630 §5.3). It may be
/// tried with each member of the pools of its rule.
fn check_sips(
    step: &Step<'_>,
    arrival: &Arrival<'_>,
    request: &Request<'_>,
    rule: Option<usize>,
    to: To,
) -> Result<(), Refused> {
    let hop = |slot: Slot| step.site.topology.node(slot);
    match to {
        // The way out has been checked, and contacts are looked at one by one.
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

/// The next hop that a request without a token, or its INVITE, went to before its pool became another one.
fn followed(step: &Step<'_>, arrival: &Arrival<'_>, request: &Request<'_>) -> Option<Slot> {
    let may_be = request.pinned.is_none() && (!request.in_dialog || request.method == Method::Ack);
    arrival.hop().filter(|_| may_be)?.member(step.balancer)
}

/// The mark of the branch that a request goes on with.
fn mark_of(step: &Step<'_>, arrival: &Arrival<'_>, direction: Direction, routing: u32) -> u32 {
    let transaction = Transaction::new(arrival.message, arrival.message.top_via(), arrival.target);
    step.site.tokens.mark(&transaction, direction, routing)
}

/// The pool of a request that no rule leads: that of the member its dialog or session is with, else the first one.
fn pool_of_dialog(step: &Step<'_>, context: DialogContext, request: &Request<'_>) -> PoolId {
    let of_session = if let DialogContext::Session(slot) = context { Some(slot) } else { None };
    request.pinned.or(of_session).map_or(step.pools.first(), |slot| step.pools.of(slot))
}

/// Whether the node that sent a request is no member any more.
fn has_left(step: &Step<'_>, arrival: &Arrival<'_>) -> bool {
    arrival.member.is_some_and(|slot| !step.balancer.nodes()[slot.index()].member)
}

/// Whether anything proves that a request is part of a dialog. Anybody can make up a To tag, so one alone proves
/// nothing: such a request counts as new where there are next hops only, with all that holds for new ones, or goes
/// nowhere.
fn context_of(step: &Step<'_>, arrival: &Arrival<'_>, request: &mut Request<'_>) -> DialogContext {
    if !request.in_dialog {
        return DialogContext::New;
    }
    let is_of_unknown = matches!(arrival.proof, TokenProof::UnknownNode);
    let is_led = arrival.held().is_some() || request.method == Method::Ack;
    if arrival.member.is_some() || (!is_of_unknown && is_led) {
        return DialogContext::Dialog;
    }
    // With a token of a node that is no more, a call in the table is another branch, with a node that does not
    // know this dialog.
    if let Some(session) = step.balancer.session_of(request).filter(|_| !is_of_unknown) {
        return DialogContext::Session(session.slot);
    }
    // A CANCEL begins nothing, and its INVITE may be known to somebody (RFC 3261 §16.10).
    let may_be_known = request.method == Method::Cancel && !is_of_unknown;
    // Where users prove who they are, a To tag that somebody made up would stand for a password.
    let is_balanced = step.site.settings.forwards_orphans && step.site.realm.is_none();
    if may_be_known || is_balanced {
        request.in_dialog = false;
        return DialogContext::New;
    }
    DialogContext::Orphan
}

/// The rule of a request that no dialog leads, if there are rules. What members send may have none.
pub(crate) fn rule_of(step: &Step<'_>, arrival: &Arrival<'_>) -> Result<Option<usize>, Rejection> {
    let Arrival { flow, message, route, .. } = arrival;
    let routes = &step.site.routes;
    if routes.table.rules().is_empty() {
        return Ok(None);
    }
    let from_member = arrival.member.is_some();
    let (uri, topology) = (route.uri(message), &step.site.topology);
    let names_us =
        routes.table.asks_for_hosts() && SipUri::parse(uri).is_ok_and(|uri| topology.is_ours(&uri));
    let query = Query { message, uri, flow: *flow, from_member, names_us };
    let Some((index, rule)) = routes.table.find(&query) else {
        return if from_member { Ok(None) } else { Err(Refuser::NoRule.into()) };
    };
    if !rule.access.admits(flow.peer.ip()) {
        return Err(Refuser::Rule(index).into());
    }
    match rule.target {
        Target::Answer(_) => return Err(Refuser::Answer(index).into()),
        Target::Silence => return Err(Refuser::Silence(index).into()),
        // Whoever is no member has nothing sent to where he likes.
        Target::RequestUri if !from_member && rule.conditions.hosts.is_empty() => {
            return Err(Refuser::Relay(index).into());
        }
        Target::RequestUri | Target::Location | Target::Pools(_) => {}
    }
    check_room(message, rule.actions.growth(route.uri(message)))?;
    Ok(Some(index))
}

/// Which side of the dialog sent a request. The token knows by the tags; without one, the source tells.
fn direction_of(step: &Step<'_>, arrival: &Arrival<'_>, sender: Option<Slot>) -> Result<Direction, Refused> {
    let by_source = if sender.is_some() { Direction::FromPool } else { Direction::ToPool };
    let Some(held) = arrival.held() else { return Ok(by_source) };
    if held.by_initiator != held.token.outbound {
        return Ok(Direction::ToPool);
    }
    // What comes from the pool goes wherever its Request-URI says: only the node itself may ask for that.
    let topology = &step.site.topology;
    let node = topology.slot(held.token.node).map(|slot| topology.node(slot).peer.ip());
    if node == Some(arrival.flow.peer.ip()) {
        Ok(Direction::FromPool)
    } else {
        Err(refused(403, "Forbidden"))
    }
}

/// The way of a stranger's request to the address that it names. No name is looked up, and neither a Route nor
/// `maddr` leads out of the networks of the rule, or back to us.
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

/// The way of what a member sends to others than its pool.
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
    // The client that the node of its dialog answers may have no other way to it than its connection.
    if let Some(by) = held.and_then(|held| step.site.led(arrival.message, held, &target)?.flow)
        && let Some(way) = by.way(&step.site.topology.ports, arrival.route.far_side.unwrap_or(u16::MAX))
    {
        arrival.check_hop(way)?;
        return Ok(way);
    }
    way_to(step, arrival, target)
}

/// The way to a target outside of the pools.
fn way_to(step: &mut Step<'_>, arrival: &Arrival<'_>, target: target::Target<'_>) -> Result<Flow, Rejection> {
    let Site { names, topology, now, .. } = &mut *step.site;
    let preferred = arrival.route.far_side.unwrap_or(arrival.flow.listener);
    let way = names.next_hop(*now, target, arrival.call, topology, preferred, step.out)?;
    arrival.check_hop(way)?;
    Ok(way)
}

/// Where the sender is reached from now on. And what a member sends that was taken out has to be part of
/// something.
fn refresh_of(
    step: &mut Step<'_>,
    arrival: &Arrival<'_>,
    request: &Request<'_>,
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

/// Whether a request goes to a next hop, or on with a transaction. Within a dialog with a member it does neither; nor
/// does a CANCEL or ACK of what has none, or none any more, where the balancer or a search finds the member.
fn goes_onward(service: Service, request: &Request<'_>) -> bool {
    let is_for_pool = request.direction == Direction::ToPool && request.pinned.is_none();
    let begins = !matches!(request.method, Method::Ack | Method::Cancel);
    is_for_pool && (service.has_hops() || (service.has_transactions() && begins))
}

/// Whether a request ends what began under the previous configuration: it is of a transaction that is noted in the session table
/// alone, or of a call there though its pool remembers none any more.
fn is_in_table(balancer: &Balancer, service: Service, request: &Request<'_>) -> bool {
    if service.counts_calls() { balancer.has_open(request) } else { is_remembered(balancer, request) }
}

/// Whether the balancer remembers the call of a request, or the transaction of one that begins a call. What spirals
/// is of another transaction than the call that it has begun with.
pub(crate) fn is_remembered(balancer: &Balancer, request: &Request<'_>) -> bool {
    if balancer.is_idle() {
        false
    } else if request.in_dialog {
        balancer.session_of(request).is_some()
    } else {
        balancer.has_open(request)
    }
}
