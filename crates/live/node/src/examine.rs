//! Is a request valid, which dialog does it belong to, and by which rule does it go (RFC 3261 §16.3 to §16.5)?

use crate::Orphans;
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
    /// It is in a dialog that nobody here knows, and does not count as new.
    pub(crate) is_orphan: bool,
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

    /// Whether a request that is new may begin a call, or another dialog. A BYE may not, and what it ends is wanted to end.
    pub(crate) fn may_begin_call(&self) -> bool {
        !self.request.in_dialog && !matches!(self.request.method, Method::Ack | Method::Cancel | Method::Bye)
    }

    /// What is decided in the end. The token would have named the node of an ACK or CANCEL; a bad one earns no search.
    pub(crate) fn without_search(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Search if self.route.token.is_some() => Decision::Orphan,
            other => other,
        }
    }
}

/// What a request is part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Nothing yet.
    New,
    /// A dialog, by its token or since a member sends it; or an INVITE whose ACK or CANCEL it is.
    Dialog,
    /// A call in the session table, which is with this member.
    Session(Slot),
    /// A dialog that nobody here knows.
    Orphan,
}

impl Standing {
    /// Whether a rule says where a request goes that has no token. The ACK to a failure has a To tag, and goes as its INVITE went.
    fn goes_by_rule(self, request: &Request<'_>) -> bool {
        self == Self::New || request.method == Method::Ack
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
        let mut request = self.request_of(message, held.as_ref());
        let key = request.key;
        let standing = self.standing(&mut request, held.is_some(), slot_at_source.is_some(), is_astray);
        let has_rule = held.is_none() && !is_for_registrar && standing.goes_by_rule(&request);
        let rule = if has_rule { self.rule(flow, message, &route, slot_at_source.is_some())? } else { None };
        let slot_at_source = slot_at_source.filter(|_| !is_for_registrar);
        let pools = rule.and_then(|rule| self.edge.routes.pools(rule));
        let pool = pools.and_then(|pools| pools.first(key.0)).map(PoolId);
        let has_left = slot_at_source.is_some_and(|slot| !self.balancer.nodes()[slot.index()].member);
        // A member whose calls go by a rule to a pool or to a user is a caller as any other.
        let is_located = rule.is_some_and(|rule| self.edge.routes.is_located(rule));
        let slot_at_source = slot_at_source.filter(|_| pool.is_none() && !is_located);
        let direction = self.direction(flow.peer, held, slot_at_source)?;
        let is_orphan = standing == Standing::Orphan;
        request.direction = direction;
        request.pinned = request.pinned.or(slot_at_source.filter(|_| direction == Direction::FromPool));
        let of_dialog = request.pinned.or(match standing {
            Standing::Session(slot) => Some(slot),
            Standing::New | Standing::Dialog | Standing::Orphan => None,
        });
        request.pool = pool.unwrap_or_else(|| of_dialog.map_or(self.first_pool, |slot| self.pool_of(slot)));
        // What it began to send to others is looked at below.
        if has_left && pool.is_some() && self.is_new(&request) {
            return Err(refused(403, "Forbidden").into());
        }
        let older = self.keeps_branch((flow.peer, message), &request, is_orphan);
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
            is_orphan,
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

    /// What a request is to the balancer, as far as that follows from the message and its token.
    fn request_of<'a>(&self, message: &Message<'a>, held: Option<&Held>) -> Request<'a> {
        Request {
            key: self.edge.tokens.call_key(message.call_id()),
            call_id: message.call_id(),
            pool: PoolId::default(),
            method: message.method().unwrap_or(Method::Other),
            cseq: message.cseq().number,
            in_dialog: message.to_tag().is_some(),
            direction: Direction::ToPool,
            pinned: held.and_then(|held| self.edge.topology.slot(held.token.node)),
            by_token: held.is_some(),
            begun_by_peer: held.is_some_and(|held| !held.by_initiator),
            branch: 0,
            tags: self.edge.tokens.tags(message),
        }
    }

    /// Whether anything proves that a request is part of a dialog. Anybody can make up a To tag, so one alone proves nothing:
    /// such a request counts as new where `orphans` says so, with all that holds for new ones, or goes nowhere.
    fn standing(
        &self,
        request: &mut Request<'_>,
        is_held: bool,
        from_member: bool,
        is_astray: bool,
    ) -> Standing {
        if !request.in_dialog {
            return Standing::New;
        }
        if from_member || (!is_astray && (is_held || request.method == Method::Ack)) {
            return Standing::Dialog;
        }
        // With a token of a node that is no more, a call in the table is another branch, with a node that does not know this
        // dialog.
        if let Some(session) = self.balancer.session_of(request).filter(|_| !is_astray) {
            return Standing::Session(session.slot);
        }
        // A CANCEL begins nothing, and its INVITE may be known to somebody (RFC 3261 §16.10).
        if request.method == Method::Cancel && !is_astray {
            request.in_dialog = false;
            return Standing::New;
        }
        // Where users prove who they are, it would stand for a password.
        if self.edge.settings.orphans == Orphans::Balance && self.edge.realm.is_none() {
            request.in_dialog = false;
            return Standing::New;
        }
        Standing::Orphan
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
        let rule = self.edge.find_rule(flow, message, route, from_member)?;
        if let Some(rule) = rule {
            check_room(message, self.edge.routes.rule(rule).actions.growth(route.uri(message)))?;
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
