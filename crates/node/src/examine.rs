//! Is a request valid, which dialog does it belong to, and by which rule does it go (RFC 3261 §16.3 to §16.5)?

use crate::allowance::Sender;
use crate::begun::{Begins, Names};
use crate::forward::stateful::is_about_us;
use crate::queue::Waited;
use crate::reply::{Halt, Own};
use crate::route::RouteInfo;
use crate::targets::Refreshed;
use crate::token::branch::Transaction;
use crate::token::route::{Held, RouteToken, TokenOwner};
use crate::validate::{Refused, check_extensions, check_form, check_room, check_secure, refused};
use crate::{Shard, ShardEvent};
use balance::{Decision, Direction, PoolId, Request, Slot};
use base::{Flow, Operation, Outbox};
use std::net::SocketAddr;
use wire::{Message, Method, request_source_target};

/// What a request is to the balancer.
pub(crate) struct Facts<'a> {
    pub(crate) route: RouteInfo<'a>,
    pub(crate) token: Option<RouteToken>,
    pub(crate) request: Request<'a>,
    /// Where its responses go.
    pub(crate) target: SocketAddr,
    /// The dialog that its token names is with a node that is no more. Should the call be in the table, then in another
    /// branch, with another node that knows nothing of this dialog.
    pub(crate) is_astray: bool,
    /// Where it goes if it comes from the pool.
    pub(crate) outside: Option<Result<Flow, Halt>>,
    pub(crate) routing: u32,
    /// The rule that it goes by.
    pub(crate) rule: Option<usize>,
    /// It is a REGISTER that the registrar of the home domain takes.
    pub(crate) is_for_registrar: bool,
    /// What it begins, where its source is charged for that, and its names there.
    pub(crate) begins: (Begins, Names),
    /// Its source has been charged for what it begins.
    pub(crate) is_admitted: bool,
    /// Who sends it, as far as that is proved.
    pub(crate) sender: Sender,
    /// It has waited in the queue of a pool.
    pub(crate) waited: Option<(PoolId, Waited)>,
    /// Where its sender is reached from now on, for the time when the node is no member any more.
    pub(crate) refreshed: Option<Refreshed>,
}

impl Facts<'_> {
    /// Why it goes nowhere, if that is so.
    pub(crate) fn halted(&self) -> Option<Halt> {
        self.outside.and_then(Result::err)
    }

    /// What is decided in the end. The token would have named the node of an ACK or CANCEL; a bad one earns no search.
    pub(crate) fn without_search(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Search if self.route.token.is_some() => Decision::Orphan,
            other => other,
        }
    }
}

impl Shard {
    /// RFC 3261 §16.3: is the request valid? And §16.4: which dialog does it belong to? Changes nothing but counters;
    /// a host name that it goes to may be asked for.
    pub(crate) fn examine<'a>(
        &mut self,
        flow: Flow,
        message: &Message<'a>,
        out: &mut Outbox<ShardEvent>,
    ) -> Result<Facts<'a>, Halt> {
        check_form(message)?;
        let target = request_source_target(message.top_via(), flow.peer).unwrap_or(flow.peer);
        let route = RouteInfo::new(&self.edge.topology, message, TokenOwner::Pool);
        check_secure(message, &route)?;
        let (held, is_astray) = self.route_token(message, &route);
        let slot_at_source = self.member_at(flow.peer);
        if held.is_none() && slot_at_source.is_none() {
            self.edge.admit(flow)?;
        }
        if self.home.is_some() && is_about_us(&self.edge, message) {
            return Err(Halt::Answered(Own::Capabilities));
        }
        let is_for_registrar = self.home.as_ref().is_some_and(|home| home.serves(message, &route));
        let has_rule = held.is_none() && !is_for_registrar;
        let rule = if has_rule { self.rule(flow, message, &route, slot_at_source.is_some())? } else { None };
        let slot_at_source = slot_at_source.filter(|_| !is_for_registrar);
        let key = self.edge.tokens.call_key(message.call_id());
        let pools = rule.and_then(|rule| self.edge.routes.pools(rule));
        let pool = pools.map(|pools| PoolId(pools.first(key.0).unwrap_or_default()));
        let has_left = slot_at_source.is_some_and(|slot| !self.balancer.nodes()[slot.index()].member);
        // A member whose calls go by a rule to a pool or to a user is a caller as any other.
        let is_located = rule.is_some_and(|rule| self.edge.routes.is_located(rule));
        let slot_at_source = slot_at_source.filter(|_| pool.is_none() && !is_located);
        let direction = self.direction(flow.peer, held, slot_at_source)?;
        // What comes from the pool needs no node: it goes outside.
        let is_astray = is_astray && direction == Direction::ToPool;
        let pinned = held.and_then(|held| self.edge.topology.slot(held.token.node));
        let pinned = pinned.or(slot_at_source.filter(|_| direction == Direction::FromPool));
        let mut request = Request {
            key,
            call_id: message.call_id(),
            pool: pool.unwrap_or_default(),
            method: message.method().unwrap_or(Method::Other),
            cseq: message.cseq().number,
            in_dialog: message.to_tag().is_some(),
            direction,
            pinned,
            by_token: held.is_some(),
            begun_by_peer: held.is_some_and(|held| !held.by_initiator),
            branch: 0,
            tags: self.edge.tokens.tags(message),
        };
        // What it began to send to others is looked at below.
        if has_left && pool.is_some() && self.is_new(&request) {
            return Err(refused(403, "Forbidden").into());
        }
        let older = self.keeps_branch((flow.peer, message), &request, is_astray);
        let routing = self.edge.routing(message, &route, direction, older)?;
        check_extensions(message)?;
        let transaction = Transaction::new(message, message.top_via(), target);
        request.branch = self.edge.tokens.mark(&transaction, direction, routing);
        let outside = (direction == Direction::FromPool).then(|| {
            let preferred = (&*self.edge.topology, route.far_side.unwrap_or(flow.listener));
            self.edge.names.next_hop(self.edge.now, route.target(message), key, preferred, out)
        });
        let refreshed = self.refreshed(flow.peer, message, (&route, held.as_ref()), &request)?;
        Ok(Facts {
            route,
            token: held.map(|held| held.token),
            request,
            target,
            is_astray,
            outside,
            routing,
            rule,
            is_for_registrar,
            begins: (Begins::Nothing, Names::NONE),
            is_admitted: false,
            sender: Sender::Unproved,
            waited: None,
            refreshed,
        })
    }

    /// Where the sender is reached from now on. And what a member sends that was taken out has to be part of something.
    fn refreshed(
        &mut self,
        from: SocketAddr,
        message: &Message<'_>,
        (route, held): (&RouteInfo<'_>, Option<&Held>),
        request: &Request<'_>,
    ) -> Result<Option<Refreshed>, Refused> {
        if request.direction == Direction::FromPool {
            self.check_removed(message, (route, held), request)?;
            return Ok(None);
        }
        Ok(held.and_then(|held| self.edge.targets.sender(&self.edge.tokens, message, held, from)))
    }

    /// The rule of a request that no dialog leads.
    fn rule(
        &self,
        flow: Flow,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
        from_member: bool,
    ) -> Result<Option<usize>, Halt> {
        // The ACK to a failure has a To tag, and goes as its INVITE went.
        if message.to_tag().is_some() && message.method() != Some(Method::Ack) {
            return Ok(None);
        }
        let rule = self.edge.find_rule(flow, message, route, from_member)?;
        if let Some(rule) = rule {
            check_room(message, self.edge.routes.rule(rule).actions.growth())?;
        }
        Ok(rule)
    }

    /// Verifies the token, if there is one, of a request within a dialog; and whether it ties the dialog to a node that is
    /// not known.
    fn route_token(&mut self, message: &Message<'_>, route: &RouteInfo<'_>) -> (Option<Held>, bool) {
        let Some(text) = route.token.filter(|_| message.to_tag().is_some()) else { return (None, false) };
        self.edge.ledger.charge(Operation::VerifyToken);
        let held = self.edge.tokens.read_route(
            TokenOwner::Pool,
            text,
            message,
            self.edge.settings.unix(self.edge.now),
        );
        let known = held.filter(|held| self.edge.topology.slot(held.token.node).is_some());
        self.edge.counters.tokens_refused += u64::from(known.is_none());
        (known, held.is_some() && known.is_none())
    }

    /// Which side of the dialog sent this. The token knows by the tags; without one, the source tells.
    fn direction(
        &self,
        from: SocketAddr,
        held: Option<Held>,
        slot_at_source: Option<Slot>,
    ) -> Result<Direction, Refused> {
        let by_source = if slot_at_source.is_some() { Direction::FromPool } else { Direction::ToPool };
        let Some(held) = held else { return Ok(by_source) };
        if held.by_initiator != held.token.outbound {
            return Ok(Direction::ToPool);
        }
        // What comes from the pool goes wherever its Request-URI says: only the node itself may ask for that.
        let node =
            self.edge.topology.slot(held.token.node).map(|slot| self.edge.topology.node(slot).peer.ip());
        if node == Some(from.ip()) { Ok(Direction::FromPool) } else { Err(refused(403, "Forbidden")) }
    }
}
