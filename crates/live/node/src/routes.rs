//! By which route a request goes, and whether its sender may begin anything here.

use crate::Drop;
use crate::edge::Edge;
use crate::reply::Halt;
use crate::route::RouteInfo;
use crate::validate::{Refused, refused};
use ::route::{Access, Pools, Query, Refusal, Rule, Table, Target};
use base::Flow;
use std::net::SocketAddr;
use wire::{Credentials, Message};

/// What is asked about requests that no dialog has led here. The same for all shards.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Routes {
    /// Without rules, all goes to the first pool, and what members send goes where it says.
    pub table: Table,
    /// Who may send requests to a listener, by its index; beyond the end everyone.
    pub access: Vec<Access>,
}

/// What a request gets that no rule is for (RFC 3261 §21.4.5).
const NO_ROUTE: Refused = refused(404, "No Route");

impl Routes {
    /// The rule of this index, as the table has them.
    pub(crate) fn rule(&self, index: usize) -> &Rule {
        &self.table.rules()[index]
    }

    /// The pools of a rule, if it leads to some.
    pub(crate) fn pools(&self, index: usize) -> Option<&Pools> {
        match &self.rule(index).target {
            Target::Pools(pools) => Some(pools),
            Target::RequestUri | Target::Location | Target::Answer(_) | Target::Silence => None,
        }
    }

    /// Whether a rule leads to where a user has registered.
    pub(crate) fn is_located(&self, index: usize) -> bool {
        self.rule(index).target == Target::Location
    }
}

/// Where the credentials for proxies stand.
const CREDENTIALS: [&[u8]; 2] = [b"Authorization", b"Proxy-Authorization"];

/// Whether a header field says who its sender is, which only elements of the trust domain may (RFC 3325 §9, and what was
/// there before it).
fn is_identity(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b"P-Asserted-Identity", b"P-Preferred-Identity", b"Remote-Party-ID"];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// What a sender hears who may not do what it asks for.
pub(crate) fn refuse(refusal: Refusal) -> Halt {
    match refusal {
        Refusal::Forbidden => refused(403, "Forbidden").into(),
        Refusal::Unavailable => refused(503, "Too Many Requests").into(),
        Refusal::Silence => Halt::Dropped(Drop::Silenced),
    }
}

/// Who has refused a request, for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refuser {
    /// The access list of a listener, by its index.
    Listener(u16),
    /// The access list of a rule, by its index.
    Rule(usize),
    /// A rule that is for members of pools only: it sends a request where its Request-URI leads.
    MembersOnly(usize),
    /// A rule that answers nobody.
    Silence(usize),
    /// No rule is for the request.
    NoRule,
}

impl Edge {
    /// Whether this source may send requests to this listener. Not asked of members, nor within a dialog whose token holds.
    pub(crate) fn admit(&self, flow: Flow) -> Result<(), Halt> {
        match self.routes.access.get(usize::from(flow.listener)) {
            Some(access) if !access.admits(flow.peer.ip()) => {
                self.refuser.set(Some(Refuser::Listener(flow.listener)));
                Err(refuse(access.refusal))
            }
            _ => Ok(()),
        }
    }

    /// Whether this source may begin something more now.
    pub(crate) fn may_begin(&mut self, flow: Flow) -> Result<(), Halt> {
        self.rates.pass(self.now, flow.peer.ip()).map_err(refuse)
    }

    /// The Request-URI that a rule makes of one that came by this listener; `None`: it stays as it is.
    pub(crate) fn rewrite(&self, rule: &Rule, uri: &[u8], listener: u16) -> Option<Vec<u8>> {
        let mut rewritten = Vec::new();
        rule.actions.uri(uri, self.here(listener), &mut rewritten).then_some(rewritten)
    }

    /// The host and port of a listener, as others know it.
    pub(crate) fn here(&self, listener: u16) -> &str {
        &self.topology.listeners[usize::from(listener)].sent_by
    }

    /// What a rule and the Route ask for of what is forwarded and came by this listener (§16.6 steps 2 and 6).
    pub(crate) fn edit_by_rule(
        &mut self,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
        (rule, listener): (Option<&Rule>, u16),
    ) {
        let Some(rule) = rule else { return route.edit(message, None, &mut self.edits, &mut self.scratch) };
        let rewritten = self.rewrite(rule, route.uri(message), listener);
        route.edit(message, rewritten.as_deref(), &mut self.edits, &mut self.scratch);
        rule.actions.headers(message, &mut self.edits);
    }

    /// Credentials that were for us end here (RFC 3261 §22.3), in requests within dialogs as well (§13.2.2.4): whoever is behind
    /// us could guess the password from them. So does what a party says of its own identity (RFC 3325 §5).
    pub(crate) fn drop_credentials(&mut self, message: &Message<'_>, from: SocketAddr) {
        let Some(realm) = self.realm.as_deref() else { return };
        let is_trusted = self.is_trusted(from);
        let is_ours = |name: &[u8], value: &[u8]| {
            CREDENTIALS.iter().any(|known| name.eq_ignore_ascii_case(known))
                && Credentials::parse(value).is_ok_and(|credentials| *credentials.realm.text() == *realm)
        };
        let is_unwanted =
            |name: &[u8], value: &[u8]| is_ours(name, value) || (!is_trusted && is_identity(name));
        self.edits.remove_fields(message, is_unwanted);
    }

    /// What a callee says of its own identity goes no further either, where users have to prove theirs (RFC 3325 §5).
    pub(crate) fn drop_identity(&mut self, response: &Message<'_>, from: SocketAddr) {
        if self.realm.is_some() && !self.is_trusted(from) {
            self.edits.remove_headers(response, is_identity);
        }
    }

    /// Whether an element is of the trust domain (RFC 3325 §2.3): a member, a next hop, or in a network that is trusted.
    pub(crate) fn is_trusted(&self, from: SocketAddr) -> bool {
        self.topology.slot_at(from).is_some()
            || self.trusted.iter().any(|network| network.contains(from.ip()))
    }

    /// The rule for a request that no dialog leads; none where there are no rules, and for what members send where none is
    /// for it.
    pub(crate) fn find_rule(
        &self,
        flow: Flow,
        message: &Message<'_>,
        route: &RouteInfo<'_>,
        from_member: bool,
    ) -> Result<Option<usize>, Halt> {
        if self.routes.table.rules().is_empty() {
            return Ok(None);
        }
        let query = Query { message, uri: route.uri(message), flow, from_member };
        let by = |refuser| self.refuser.set(Some(refuser));
        let Some((index, rule)) = self.routes.table.find(&query) else {
            by(Refuser::NoRule);
            return if from_member { Ok(None) } else { Err(NO_ROUTE.into()) };
        };
        if !rule.access.admits(flow.peer.ip()) {
            by(Refuser::Rule(index));
            return Err(refuse(rule.access.refusal));
        }
        match rule.target {
            Target::Answer(_) => Err(Halt::ByRule(index)),
            Target::Silence => {
                by(Refuser::Silence(index));
                Err(Halt::Dropped(Drop::Silenced))
            }
            // Whoever is no member has nothing sent to where he likes.
            Target::RequestUri if !from_member => {
                by(Refuser::MembersOnly(index));
                Err(refuse(Refusal::Forbidden))
            }
            Target::RequestUri | Target::Location | Target::Pools(_) => Ok(Some(index)),
        }
    }
}
