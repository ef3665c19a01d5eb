//! The edits of every request that is forwarded (RFC 3261 §16.6), with a transaction and without.

use crate::address::client_flow::ClientFlow;
use crate::address::contact::Contact;
use crate::address::ports::Ingress;
use crate::address::target::Target;
use crate::address::topology::node_id;
use crate::admission::Ticket;
use crate::forward::path_header::add_path;
use crate::message::route_header::{RouteHeader, edit_hop, max_breadth};
use crate::outcome::event::ShardEvent;
use crate::read::arrival::Arrival;
use crate::read::progress::AuthenticationMark;
use crate::site::Site;
use crate::site::edit::{drop_credentials, edit_by_rule};
use crate::site::leave::push_own_via;
use crate::site::marks::write_param;
use crate::site::record::{initiator_target, record, wants_record_route};
use crate::site::remote_targets::TargetRefresh;
use crate::token::KeyIndex;
use crate::token::branch::{Branch, BranchKind, SEARCHED, Transaction};
use crate::token::dialog::{DialogToken, Kept};
use crate::token::owner::TokenOwner;
use crate::token::vouch;
use balance::Direction;
use base::{Flow, Instant, Operation, Outbox};
use core::ops::Range;
use distribute::{Function, Mark};
use route::Rule;
use std::net::SocketAddr;
use wire::{Edits, Message, Method};

/// How this proxy stays on the path of the dialog that a request begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordRoute {
    /// The proxy does not stay on the path.
    No,
    /// Requests of the dialog get transactions.
    WithTransactions,
    /// Requests of the dialog get transactions, and the state of an INVITE's dialogs is kept as well.
    WithDialogs,
    /// Requests of the dialog get no transactions.
    Stateless,
    /// Requests go to the member of a session that began at this time, without transactions.
    Session(Instant),
}

/// Changes to the remote targets of a dialog by the response to a request.
#[derive(Clone, Copy)]
pub(crate) struct Refresh {
    /// Whether the side that began the dialog sent the request.
    pub(crate) by_initiator: bool,
    /// New target of the request's sender, valid once the request is accepted.
    pub(crate) sender: Option<TargetRefresh>,
    /// [`target_hash`](crate::Tokens::target_hash) of the receiver's target, if known from the Request-URI or from an
    /// earlier response.
    pub(crate) receiver: Option<u32>,
    /// Whether two responses have named different targets. Then the token in one response does not lead to the target
    /// of the other.
    pub(crate) has_varied: bool,
}

impl Refresh {
    /// Creates a value without changes.
    pub(crate) fn of(by_initiator: bool) -> Self {
        Self { by_initiator, sender: None, receiver: None, has_varied: false }
    }
}

/// Source of the branch of this proxy's Via.
#[derive(Clone, Copy)]
pub(crate) enum ViaBranch {
    /// The serial number of the transaction.
    Transaction(u64),
    /// Computed from the request, which has no transaction.
    Stateless {
        kind: BranchKind,
        /// Address of the responses (§18.2.2).
        back: SocketAddr,
    },
}

/// How a request is forwarded.
#[derive(Clone, Copy)]
pub(crate) struct Onward<'a> {
    pub(crate) from: Flow,
    /// Egress flow, unless the request is too long for UDP.
    pub(crate) hop: Flow,
    /// Route header, as read on arrival or for `element`.
    pub(crate) route: &'a RouteHeader<'a>,
    /// Owner of the token in this proxy's Record-Route.
    pub(crate) element: TokenOwner,
    pub(crate) rule: Option<&'a Rule>,
    /// The contact that the request is for, if it goes to a user.
    pub(crate) contact: Option<&'a Contact>,
    /// Whether `hop` is the address from which a client has registered over UDP.
    pub(crate) is_to_client: bool,
    /// Share of Max-Breadth (RFC 5393 §5.3.3); `None` for the whole Max-Breadth.
    pub(crate) breadth: Option<u8>,
    pub(crate) record_route: RecordRoute,
    /// For a request that begins a transaction: whether the transaction is kept here.
    pub(crate) keeps: Option<bool>,
    /// Whether the request goes to every member, since the member that has its INVITE is unknown.
    pub(crate) is_search: bool,
    /// Statement to a neighbour about the authentication of the sender.
    pub(crate) proof: AuthenticationMark,
    /// Whether the sender over UDP is reached at its source address.
    pub(crate) is_at_source: bool,
    /// Hash of the routing decision (RFC 5393 §4.2).
    pub(crate) routing: u32,
    pub(crate) branch: ViaBranch,
    /// Key of the tokens in added header fields.
    pub(crate) key: KeyIndex,
}

impl<'a> Onward<'a> {
    /// Describes a request that goes to a next hop unchanged and without a transaction.
    pub(crate) fn of(arrival: &'a Arrival<'a>, hop: Flow, record_route: RecordRoute) -> Self {
        let kind = BranchKind::Hop { target: 0, by_initiator: true };
        Self {
            from: arrival.flow,
            hop,
            route: &arrival.route,
            element: TokenOwner::Proxy,
            rule: None,
            contact: None,
            is_to_client: false,
            breadth: None,
            record_route,
            keeps: None,
            is_search: false,
            proof: AuthenticationMark::Nothing,
            is_at_source: false,
            routing: 0,
            branch: ViaBranch::Stateless { kind, back: arrival.target },
            key: KeyIndex::CURRENT,
        }
    }

    pub(crate) fn send(
        &self,
        site: &mut Site,
        message: &Message<'_>,
        out: &mut Outbox<ShardEvent>,
        ticket: &Ticket,
    ) {
        site.ledger.charge(Operation::MakeToken);
        self.send_uncharged(site, message, out, ticket);
    }

    /// Sends a request without charging the ledger for a token, since the simulated proxy charges none for an ACK.
    pub(super) fn send_uncharged(
        &self,
        site: &mut Site,
        message: &Message<'_>,
        out: &mut Outbox<ShardEvent>,
        _: &Ticket,
    ) {
        let (way, _) = self.edit(site, message, |_| {});
        site.send_edited(message, way, out);
        if self.is_of_pool() {
            site.counters.requests_forwarded += 1;
        } else {
            site.relayed.requests += 1;
        }
    }

    /// Collects the edits of a request, including the edits of `more`. Returns the flow by which it leaves, and the
    /// place of the branch in the scratch buffer. That buffer contains this proxy's Via.
    pub(super) fn edit(
        &self,
        site: &mut Site,
        message: &Message<'_>,
        more: impl FnOnce(&mut Edits),
    ) -> (Flow, Range<usize>) {
        site.edits.clear();
        let breadth = self.breadth.unwrap_or_else(|| max_breadth(message));
        edit_hop(message, self.from.peer, breadth, &mut site.edits);
        let read;
        let route = if self.element == TokenOwner::Pool || self.route.is_proxys() {
            self.route
        } else {
            read = RouteHeader::new(&site.topology, message, self.element);
            &read
        };
        match self.contact {
            Some(contact) => edit_for_contact(site, message, route, self.rule, contact),
            None => edit_by_rule(site, message, route, self.rule, self.from.listener),
        }
        // The proxy that verifies the credentials needs them.
        if self.proof != AuthenticationMark::Asked {
            drop_credentials(site, message, self.from);
        }
        // A request that comes back by a Path needs a transaction, which a stateless pool does not keep.
        if message.method() == Some(Method::Register) && self.contact.is_none() && !self.is_of_pool() {
            add_path(site, message, self.from, self.hop);
        }
        if self.record_route != RecordRoute::No
            && wants_record_route(message)
            && can_carry_token(message, self.element)
        {
            self.record(site, message);
        }
        more(&mut site.edits);
        // Step 8. The transport depends on the length, so the other edits come before it.
        let via = site.topology.ports[self.hop.listener].via.as_bytes();
        site.scratch.clear();
        site.scratch.extend_from_slice(via);
        let start = site.scratch.len();
        self.write_branch(site, message);
        let branch = start..site.scratch.len();
        if let Some(keeps) = self.keeps {
            self.write_mark(site, message, keeps, branch.clone());
        }
        if self.is_search {
            site.scratch.extend_from_slice(SEARCHED);
        }
        site.admission.overload.offer(self.hop, &mut site.scratch);
        push_own_via(site, message, self.hop, branch)
    }

    /// Returns whether the request goes to a member of a stateless pool, or comes from one.
    fn is_of_pool(&self) -> bool {
        matches!(self.branch, ViaBranch::Stateless { kind: BranchKind::Pool { .. }, .. })
    }

    fn write_branch(&self, Site { tokens, scratch, .. }: &mut Site, message: &Message<'_>) {
        let (ingress, routing) = (Ingress::by(self.from), self.routing);
        match self.branch {
            ViaBranch::Transaction(serial) => tokens.write_proxy_branch(ingress, routing, serial, scratch),
            ViaBranch::Stateless { kind, back } => {
                let transaction = Transaction::new(message, message.top_via(), back);
                Branch { ingress, routing, kind }.write(tokens, &transaction, self.key, scratch);
            }
        }
    }

    /// Appends the mark of state distribution to this proxy's Via, if the next hop is a neighbour. `keeps`: the
    /// transaction is kept here.
    fn write_mark(&self, site: &mut Site, message: &Message<'_>, keeps: bool, branch: Range<usize>) {
        let Some(sharing) = &site.sharing else { return };
        if sharing.neighbour(self.hop.peer).is_none() {
            return;
        }
        let kept: &[_] = match self.record_route {
            _ if !keeps => &[],
            RecordRoute::WithDialogs => &[Function::State, Function::Dialog],
            _ => &[Function::State],
        };
        let mark = sharing.mark(message, self.from.peer);
        let mark = kept.iter().fold(mark, |mark, function| mark.with(*function));
        // Replaces the previous proxy's statement about the sender by the one of this proxy.
        let mark = mark
            .without(Function::Authentication)
            .with_authentication_required(self.proof == AuthenticationMark::Asked);
        if self.proof != AuthenticationMark::Verified {
            return write_param(&mut site.scratch, Mark::PARAMETER, mark);
        }
        let vouch = site.tokens.vouch(message, &site.scratch[branch], site.unix());
        write_param(&mut site.scratch, Mark::PARAMETER, mark.with(Function::Authentication));
        write_param(&mut site.scratch, vouch::PARAMETER, vouch);
    }

    /// Adds a Record-Route with a token (§16.6 step 4). It directs the callee's requests to the target that the caller
    /// has named. If the caller is a member, it directs them to this member.
    fn record(&self, site: &mut Site, message: &Message<'_>) {
        let Self { from, hop, element, record_route, key, .. } = *self;
        let (node, outbound) = match self.branch {
            ViaBranch::Stateless { kind: BranchKind::Pool { node, direction }, .. } => {
                (node, direction == Direction::FromPool)
            }
            _ => (node_id(hop.remote()), false),
        };
        let (target, is_contact) = if outbound {
            (Target::Nowhere, false)
        } else {
            initiator_target(&site.topology, message, element)
        };
        let client = || ClientFlow::of(from, &site.topology, self.is_at_source);
        let flow = if is_contact { client() } else { None };
        let (tokens, settings) = (&site.tokens, &site.settings);
        let kept = match record_route {
            RecordRoute::Stateless => Kept::Nothing,
            RecordRoute::WithDialogs if message.method() == Some(Method::Invite) => Kept::Dialog,
            _ => Kept::Transactions,
        };
        // §16.11: a retransmission must get the same value, so the present time must not be part of it.
        let unix = match record_route {
            RecordRoute::Stateless => tokens.coarse(settings.unix(site.now)),
            RecordRoute::Session(began) => settings.unix(began),
            _ => settings.unix(site.now),
        };
        let token = DialogToken {
            node,
            outbound,
            kept,
            target: tokens.target_hash(&target, key),
            heard: element == TokenOwner::Proxy && target.is_at(from.peer),
            home: tokens.home_hash(is_contact.then_some(&target), flow, key),
            flow,
            is_registered: self.is_to_client,
        };
        site.scratch.clear();
        tokens.write_route(element, token, message, unix, key, &mut site.scratch);
        record(site, message, [from.listener, hop.listener], element);
    }
}

/// §16.6 steps 2 and 6: the Request-URI becomes the contact, and the contact's Path the Route.
fn edit_for_contact(
    Site { edits, scratch, .. }: &mut Site,
    message: &Message<'_>,
    route: &RouteHeader<'_>,
    rule: Option<&Rule>,
    contact: &Contact,
) {
    route.edit(message, Some(&contact.uri), edits, scratch);
    if !contact.path.is_empty() {
        edits.add_header(message, "Route", &contact.path);
    }
    if let Some(rule) = rule {
        rule.actions.headers(message, edits);
    }
}

/// Returns whether a token can direct the requests of a dialog. With a proxy's token, only the tags distinguish the two
/// sides. Without a From tag (RFC 2543), the requests of the dialog do not pass this proxy.
fn can_carry_token(message: &Message<'_>, element: TokenOwner) -> bool {
    element == TokenOwner::Pool || message.from_tag().is_some()
}
