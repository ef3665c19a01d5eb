//! The target set of a request (RFC 3261 §16.5): the candidates chosen so far, and the source of further ones.

use crate::address::contact::Contact;
use crate::forward::onward::RecordRoute;
use crate::site::routes::Routes;
use ::proxy::{Attempt, ProxyEvent};
use balance::{PoolId, RequestFacts, Slot};
use base::{Flow, Instant};
use core::time::Duration;
use route::{FailoverCause, Fork, Pools, Service};
use std::sync::Arc;

pub(crate) struct Targets {
    /// Candidates that got the request, in this order, then the candidates that get it next. If several have the
    /// request, the first that answers moves to the end. Empty for a [`UriTarget`], which is the only target.
    pub(super) candidates: Vec<Candidate>,
    pub(super) source: Source,
}

/// A member or contact that was chosen for a request.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    /// Slot of the member, or index of the contact.
    pub(super) target: u16,
    pub(super) attempt: Attempt,
    pub(super) since: Instant,
    pub(super) fate: Fate,
}

/// State of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The candidate belongs to the present group, and its branch has not started.
    Planned,
    Sent,
    /// The candidate was silent, so another one got the request as well. None of them has answered.
    Silent,
    /// The candidate has answered or failed, or was left out ([`ProxyEvent::Cancelled`]).
    Settled(ProxyEvent),
}

pub(crate) enum Source {
    /// Only the target of the Route or Request-URI.
    Uri(UriTarget),
    /// Members of pools, chosen by the policies.
    Pool(Box<PoolTargets>),
    /// The contacts of a user, in the order of preference. All contacts of the highest preference are tried at once,
    /// then all contacts of the next preference (§16.6).
    Contacts(Vec<Contact>),
}

/// The target that a Route or Request-URI names.
pub(crate) struct UriTarget {
    pub(crate) hop: Flow,
    /// Whether the target is known to expect SIP. If not, the request is repeated fewer times.
    pub(crate) is_wanted: bool,
    /// A flow by a new connection. It is used if `hop` is the connection of a client and is closed.
    pub(crate) anew: Option<Box<Flow>>,
    /// Whether `hop` is the flow of a client that a Path named.
    pub(crate) is_by_path: bool,
}

impl UriTarget {
    pub(crate) fn new(hop: Flow, is_wanted: bool) -> Self {
        Self { hop, is_wanted, anew: None, is_by_path: false }
    }
}

/// How members of pools are chosen for a request.
pub(crate) struct PoolTargets {
    /// The request as the balancer needs it, with the present pool. Its Call-ID is left out, since it is in the
    /// message.
    pub(crate) request: RequestFacts<'static>,
    pub(crate) service: Service,
    pub(crate) record_route: RecordRoute,
    /// Whether no other member may get the request: it belongs to a dialog, or its Route names the member.
    pub(crate) is_fixed: bool,
    /// Time that a member may be silent before another one gets the request as well.
    pub(crate) patience: Option<Duration>,
    /// Number of pools that the request was sent to.
    pub(crate) pools: u8,
}

/// The reason to choose another member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The previous member has failed; its branch continues with another one.
    Failed(FailoverCause),
    /// The previous members are silent.
    Silent,
    /// The present group has room for another member.
    Group,
    /// The next group starts, independent of the responses so far.
    NextGroup,
}

impl Reason {
    /// Returns the failure of the previous member.
    pub(super) fn failure(self) -> Option<FailoverCause> {
        match self {
            Self::Failed(outcome) => Some(outcome),
            Self::Silent => Some(FailoverCause::Timeout),
            Self::Group | Self::NextGroup => None,
        }
    }
}

impl PoolTargets {
    /// Returns whether the balancer has a record of the request.
    pub(super) fn is_noted(&self) -> bool {
        self.service.counts_calls()
    }

    pub(super) fn fork(&self) -> Fork {
        if self.is_fixed { Fork::None } else { self.service.fork().0 }
    }

    /// Returns the maximum number of members for the request. With forking it is the maximum number of branches.
    /// Without forking it is small, since no caller waits for more members.
    pub(super) fn most(&self) -> usize {
        match self.fork() {
            _ if self.is_fixed => 1,
            Fork::None => 8,
            Fork::Parallel | Fork::Sequential => 15,
        }
    }

    /// Returns the pools that are tried after the present one.
    pub(super) fn others(&self, rule: Option<&RequestRule>) -> Vec<PoolId> {
        let pools = rule.and_then(RequestRule::pools).into_iter();
        let order = pools.flat_map(|pools| pools.order(self.request.key.0)).map(PoolId);
        order.skip_while(|pool| *pool != self.request.pool).skip(1).collect()
    }

    /// Returns the pools from which the next member may come: the present pool, and the later pools that the rule of
    /// the request allows.
    pub(super) fn pools(&self, rule: Option<&RequestRule>, reason: Reason) -> Vec<PoolId> {
        let has_present = reason != Reason::NextGroup || self.fork() == Fork::Sequential;
        let goes_on = |Pools { failover, .. }: &Pools| match reason.failure() {
            Some(outcome) => failover.tries_next(outcome, self.pools),
            None => reason == Reason::NextGroup && self.pools < failover.attempts,
        };
        let goes_on = rule.and_then(RequestRule::pools).is_some_and(goes_on);
        let present = has_present.then_some(self.request.pool);
        present.into_iter().chain(if goes_on { self.others(rule) } else { Vec::new() }).collect()
    }
}

/// A rule, with the routing table that was valid when the request came.
pub(crate) struct RequestRule {
    pub(super) routes: Arc<Routes>,
    pub(super) index: usize,
}

impl RequestRule {
    pub(super) fn pools(&self) -> Option<&Pools> {
        self.routes.pools(self.index)
    }
}

impl Candidate {
    pub(super) fn new(target: u16) -> Self {
        Self { target, attempt: Attempt::default(), since: Instant::ZERO, fate: Fate::Planned }
    }

    pub(super) fn slot(&self) -> Slot {
        Slot(self.target)
    }
}

impl Targets {
    pub(crate) fn new(source: Source) -> Self {
        Self { candidates: Vec::new(), source }
    }

    /// Creates the target set of a pool, with the member at `slot` first.
    pub(crate) fn of_pool(targets: PoolTargets, slot: Slot) -> Self {
        let source = Source::Pool(Box::new(targets));
        Self { candidates: vec![Candidate::new(slot.0)], source }
    }

    pub(super) fn pool(&self) -> Option<&PoolTargets> {
        if let Source::Pool(pool) = &self.source { Some(pool) } else { None }
    }

    /// Returns the index of the candidate of an attempt.
    pub(super) fn find(&self, attempt: Attempt) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.attempt == attempt)
    }

    /// Returns how many targets got the request.
    pub(super) fn tried(&self) -> usize {
        match self.source {
            Source::Uri(_) => 1,
            _ => self.candidates.len() - self.planned().count(),
        }
    }

    pub(super) fn planned(&self) -> impl Iterator<Item = usize> {
        let candidates = self.candidates.iter().enumerate();
        candidates.filter(|(_, candidate)| candidate.fate == Fate::Planned).map(|(at, _)| at)
    }

    /// Returns how many contacts belong to the groups that have started.
    pub(super) fn started(&self) -> usize {
        self.candidates.iter().map(|candidate| usize::from(candidate.target) + 1).max().unwrap_or(0)
    }

    /// Returns the candidate that got the request last. If several have the request, it is the first that answered.
    pub(super) fn current(&self) -> Option<&Candidate> {
        self.candidates.iter().rfind(|candidate| candidate.fate != Fate::Planned)
    }

    /// Returns the contact of the current candidate.
    pub(super) fn contact(&self) -> Option<&Contact> {
        let Source::Contacts(contacts) = &self.source else { return None };
        contacts.get(usize::from(self.current()?.target))
    }

    /// Returns whether this flow leads to the address from which a client has registered over UDP.
    pub(super) fn is_client(&self, flow: Flow) -> bool {
        match &self.source {
            Source::Uri(target) => target.is_by_path && target.hop.meets(flow),
            Source::Contacts(contacts) => {
                contacts.iter().any(|contact| contact.is_registered && contact.hop.meets(flow))
            }
            Source::Pool(_) => false,
        }
    }

    pub(super) fn slots(&self) -> Vec<Slot> {
        self.candidates.iter().map(Candidate::slot).collect()
    }

    /// Returns whether a contact was unreachable: its connection could not be opened, or its port is closed.
    pub(super) fn is_away(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.fate == Fate::Settled(ProxyEvent::Unreachable))
    }

    /// Returns whether outcomes of the request at this member are reported to the balancer. They are not if the request
    /// moved to another member without forking, except for the current candidate.
    pub(super) fn counts_with(&self, slot: Option<Slot>) -> bool {
        let has_moved = || self.candidates.iter().any(|candidate| candidate.attempt.branch > 0);
        let may_move = self.pool().is_some_and(|pool| pool.fork() == Fork::None);
        slot.is_none() || !may_move || !has_moved() || self.current().map(Candidate::slot) == slot
    }

    pub(super) fn memory(&self) -> usize {
        let of_source = match &self.source {
            Source::Uri(_) => 0,
            Source::Pool(_) => size_of::<PoolTargets>(),
            Source::Contacts(contacts) => contacts.iter().map(Contact::memory).sum(),
        };
        self.candidates.capacity() * size_of::<Candidate>() + of_source
    }
}
