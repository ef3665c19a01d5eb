//! The target set of a request (RFC 3261 §16.5): the candidates chosen so far, and the source of further ones.

use crate::address::contact::Contact;
use crate::forward::onward::RecordRoute;
use crate::site::routes::Routes;
use ::proxy::{Attempt, ProxyEvent};
use balance::{PoolId, Request, Slot};
use base::{Flow, Instant};
use core::time::Duration;
use route::{Fork, Outcome, Pools, Service};
use std::sync::Arc;

/// The targets of a request.
pub(crate) struct Targets {
    /// In the order in which they got the request, then those that get it next. One that answers before others that
    /// have the request as well becomes the last. Empty for a [`UriTarget`], which is the only target.
    pub(super) candidates: Vec<Candidate>,
    pub(super) source: Source,
}

/// A member or contact that was chosen for a request.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    /// Slot of the member, or index of the contact.
    pub(super) target: u16,
    /// The attempt by which it got the request.
    pub(super) attempt: Attempt,
    /// When it got the request.
    pub(super) since: Instant,
    pub(super) fate: Fate,
}

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is of the present group, and its branch has not begun.
    Planned,
    Sent,
    /// Another one got the request as well, since this one was silent, and none has answered.
    Silent,
    /// It has answered or failed, or is left out ([`ProxyEvent::Cancelled`]).
    Settled(ProxyEvent),
}

/// Where the candidates of a request come from.
pub(crate) enum Source {
    /// The target of its Route or Request-URI, and nobody else.
    Uri(UriTarget),
    /// The members of pools, by their policies.
    Pool(Box<PoolTargets>),
    /// The contacts of a user, those of higher preference first. All of the highest preference are tried at once, then
    /// those of the next (§16.6).
    Contacts(Vec<Contact>),
}

/// The target that a Route or Request-URI names.
pub(crate) struct UriTarget {
    pub(crate) hop: Flow,
    /// Whether its address is verified.
    pub(crate) is_wanted: bool,
    /// Where `hop` is the connection of a client: the way by a new one, if that is gone.
    pub(crate) anew: Option<Box<Flow>>,
}

/// How members of pools are chosen for a request.
pub(crate) struct PoolTargets {
    /// The request in the balancer's terms, with the present pool and without the Call-ID, which is in the message.
    pub(crate) request: Request<'static>,
    pub(crate) service: Service,
    pub(crate) record_route: RecordRoute,
    /// Whether no other member may get it: it belongs to a dialog, or its Route names the member.
    pub(crate) is_fixed: bool,
    /// How long a member may be silent before another one gets it as well.
    pub(crate) patience: Option<Duration>,
    /// How many pools it was sent to.
    pub(crate) pools: u8,
}

/// The reason to choose another member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The one before has failed, and its branch goes on.
    Failed(Outcome),
    /// Those before are silent.
    Silent,
    /// The present group has room for it.
    Group,
    /// The next group begins. What a member answers makes no difference: that is what they ring for.
    NextGroup,
}

impl Reason {
    /// The failure of the member before.
    pub(super) fn failure(self) -> Option<Outcome> {
        match self {
            Self::Failed(outcome) => Some(outcome),
            Self::Silent => Some(Outcome::Timeout),
            Self::Group | Self::NextGroup => None,
        }
    }
}

impl PoolTargets {
    /// Whether the balancer has taken note of the request.
    pub(super) fn is_noted(&self) -> bool {
        self.service.counts_calls()
    }

    /// How many members get it at once.
    pub(super) fn fork(&self) -> Fork {
        if self.is_fixed { Fork::None } else { self.service.fork().0 }
    }

    /// Most members that a request can be sent to: with forking as many as it can have branches, without it few, since
    /// nobody waits for more.
    pub(super) fn most(&self) -> usize {
        match self.fork() {
            _ if self.is_fixed => 1,
            Fork::None => 8,
            Fork::Parallel | Fork::Sequential => 15,
        }
    }

    /// The pools that are tried after the present one.
    pub(super) fn others(&self, rule: Option<&RequestRule>) -> Vec<PoolId> {
        let pools = rule.and_then(RequestRule::pools).into_iter();
        let order = pools.flat_map(|pools| pools.order(self.request.key.0)).map(PoolId);
        order.skip_while(|pool| *pool != self.request.pool).skip(1).collect()
    }

    /// The pools that the next member may be of: the present one, and those after it that the rule of the request lets
    /// it go on to.
    pub(super) fn pools(&self, rule: Option<&RequestRule>, reason: Reason) -> Vec<PoolId> {
        let has_present = reason != Reason::NextGroup || self.fork() == Fork::Sequential;
        let goes_on = |Pools { failover, .. }: &Pools| match reason.failure() {
            Some(outcome) => failover.goes_on(outcome, self.pools),
            None => reason == Reason::NextGroup && self.pools < failover.attempts,
        };
        let goes_on = rule.and_then(RequestRule::pools).is_some_and(goes_on);
        let present = has_present.then_some(self.request.pool);
        present.into_iter().chain(if goes_on { self.others(rule) } else { Vec::new() }).collect()
    }
}

/// A rule, in the table that was in force when the request came.
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

    /// The member at `slot` first.
    pub(crate) fn of_pool(targets: PoolTargets, slot: Slot) -> Self {
        let source = Source::Pool(Box::new(targets));
        Self { candidates: vec![Candidate::new(slot.0)], source }
    }

    pub(super) fn pool(&self) -> Option<&PoolTargets> {
        if let Source::Pool(pool) = &self.source { Some(pool) } else { None }
    }

    /// Index of the candidate that an attempt went to.
    pub(super) fn find(&self, attempt: Attempt) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.attempt == attempt)
    }

    pub(super) fn planned(&self) -> impl Iterator<Item = usize> {
        let candidates = self.candidates.iter().enumerate();
        candidates.filter(|(_, candidate)| candidate.fate == Fate::Planned).map(|(at, _)| at)
    }

    /// How many contacts belong to the groups that have begun.
    pub(super) fn begun(&self) -> usize {
        self.candidates.iter().map(|candidate| usize::from(candidate.target) + 1).max().unwrap_or(0)
    }

    /// The candidate that got the request last or, of several that have it, has answered first.
    pub(super) fn current(&self) -> Option<&Candidate> {
        self.candidates.iter().rfind(|candidate| candidate.fate != Fate::Planned)
    }

    /// The contact that a message is made for.
    pub(super) fn contact(&self) -> Option<&Contact> {
        let Source::Contacts(contacts) = &self.source else { return None };
        contacts.get(usize::from(self.current()?.target))
    }

    pub(super) fn slots(&self) -> Vec<Slot> {
        self.candidates.iter().map(Candidate::slot).collect()
    }

    /// Whether a contact could not be reached: its connection could not be opened, or its port is closed.
    pub(super) fn is_away(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.fate == Fate::Settled(ProxyEvent::Unreachable))
    }

    /// Whether the balancer counts the request with this member, as with each until several have it.
    pub(super) fn counts_with(&self, slot: Option<Slot>) -> bool {
        let has_moved = || self.candidates.iter().any(|candidate| candidate.attempt.branch > 0);
        let may_move = self.pool().is_some_and(|pool| pool.fork() == Fork::None);
        slot.is_none() || !may_move || !has_moved() || self.current().map(Candidate::slot) == slot
    }

    /// Bytes of memory on the heap.
    pub(super) fn memory(&self) -> usize {
        let of_source = match &self.source {
            Source::Uri(_) => 0,
            Source::Pool(_) => size_of::<PoolTargets>(),
            Source::Contacts(contacts) => contacts.iter().map(Contact::memory).sum(),
        };
        self.candidates.capacity() * size_of::<Candidate>() + of_source
    }
}
