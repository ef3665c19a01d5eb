//! The policies, one file each, behind one trait; [`PolicyKind`] names and makes them.

mod cjsq;
mod fnv_hash;
mod hash;
mod kind;
mod least;
mod make;
mod round_robin;
mod rwma;
mod tjsq;
mod tlwl;
mod turns;

pub use cjsq::Cjsq;
pub use fnv_hash::FnvHash;
pub use hash::Hash;
pub use kind::PolicyKind;
pub use round_robin::RoundRobin;
pub use rwma::Rwma;
pub use tjsq::Tjsq;
pub use tlwl::Tlwl;

use crate::evidence::Evidence;
use crate::guards::Guards;
use crate::lease::Leases;
use crate::members::Members;
use crate::store::SessionStore;
use crate::{CallKey, Load, Node, NodeId, NodeRefusal, Slot};
use base::Instant;
use core::fmt::Debug;
use core::time::Duration;
use wire::Method;

/// Chooses a node for a new call.
pub trait Policy: Debug + Send {
    /// Name in the configuration.
    fn name(&self) -> &'static str;

    /// Chooses among the nodes that take new calls; `None` only if there is none.
    fn choose(&mut self, call: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot>;

    /// Reports that a transaction on a node succeeded after the time `took`. Failures are not reported, since a broken
    /// node fails fast.
    fn on_response(&mut self, _slot: Slot, _method: Method, _took: Duration) {}

    /// Reports that the nodes changed.
    fn on_nodes(&mut self, _nodes: &[Node]) {}

    /// Returns a copy, so that `explain` can ask without changing the policy.
    fn clone_box(&self) -> Box<dyn Policy>;
}

/// Policy that always chooses this node, if it takes new calls.
#[derive(Debug, Clone)]
pub(crate) struct Only(pub(crate) Slot);

impl Policy for Only {
    fn name(&self) -> &'static str {
        "only"
    }

    fn choose(&mut self, _call: &NewCall<'_>, candidates: &Candidates<'_>) -> Option<Slot> {
        candidates.get(self.0).map(|taker| taker.slot)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

/// A new call.
#[derive(Clone, Copy, Debug)]
pub struct NewCall<'a> {
    /// Its key.
    pub key: CallKey,
    /// Its Call-ID.
    pub call_id: &'a [u8],
}

/// A node that may get a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// Slot.
    pub slot: Slot,
    /// Identity.
    pub id: NodeId,
    /// Load on all shards.
    pub load: Load,
    /// Present capacity.
    pub capacity: f64,
}

/// The nodes at the moment of a choice.
#[derive(Debug)]
pub struct Candidates<'a> {
    now: Instant,
    nodes: &'a [Node],
    members: &'a Members,
    leases: &'a Leases,
    evidence: &'a [Evidence],
    /// Nodes that have been tried already.
    except: &'a [Slot],
    guards: &'a Guards,
    /// Method of the request: `max_calls` and `max_rate` limit calls only.
    method: Method,
    /// Whether the request may use up to twice the limits.
    has_priority: bool,
    /// Whether the measured limits of members apply.
    is_limited: bool,
    range: Range,
}

/// The nodes to choose from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Range {
    /// Nodes that take new requests.
    Takers,
    /// Nodes that take new requests, and dead nodes that are expected back or due for a trial request.
    Trials,
    /// The nodes of the last resort, which are used if no node takes new requests.
    LastResort,
    /// Half-open nodes, which are used from time to time if the last resort has no node either.
    HalfOpen,
}

impl<'a> Candidates<'a> {
    /// Nodes that take a new request of this method.
    pub(crate) fn takers(
        now: Instant,
        (nodes, members): (&'a [Node], &'a Members),
        store: &'a SessionStore,
        method: Method,
        is_limited: bool,
    ) -> Self {
        let SessionStore { leases, evidence, guards, .. } = store;
        Self {
            now,
            nodes,
            members,
            leases,
            evidence,
            except: &[],
            guards,
            method,
            has_priority: false,
            is_limited,
            range: Range::Takers,
        }
    }

    /// Leaves out these nodes.
    pub(crate) fn except(self, except: &'a [Slot]) -> Self {
        Self { except, ..self }
    }

    /// Sets whether the request may use up to twice the limits.
    pub(crate) fn with_priority(self, has_priority: bool) -> Self {
        Self { has_priority, ..self }
    }

    /// Changes to the last resort if no node takes the request. Does not change if a node is only overloaded, since the
    /// excess must not go to nodes that are dead or pause.
    pub(crate) fn or_last_resort(self) -> Self {
        let stays = self.iter().next().is_some() || self.load_refusal().is_some();
        if stays { self } else { Self { range: Range::LastResort, ..self } }
    }

    /// Limit because of which the request does not go to nodes that would otherwise take it. A measured limit comes
    /// before a configured one.
    pub(crate) fn load_refusal(&self) -> Option<NodeRefusal> {
        let refusals = self.members.from(Slot(0), self.nodes.len()).filter_map(|slot| self.refusal(slot));
        refusals.filter(|refusal| refusal.is_of_load()).max_by_key(|refusal| *refusal == NodeRefusal::Limit)
    }

    /// Whether no node takes new requests.
    pub(crate) fn is_last_resort(&self) -> bool {
        self.range == Range::LastResort
    }

    /// Adds nodes that are expected back or due for a trial request.
    pub(crate) fn with_trials(self) -> Self {
        Self { range: Range::Trials, ..self }
    }

    /// Changes to half-open nodes if the last resort has no node either.
    pub(crate) fn or_half_open(self) -> Self {
        if self.is_last_resort() && self.iter().next().is_none() {
            return Self { range: Range::HalfOpen, ..self };
        }
        self
    }

    /// The candidate in a slot; `None` if it does not take the request.
    pub fn get(&self, slot: Slot) -> Option<Candidate> {
        if !self.members.has(slot) || self.except.contains(&slot) {
            return None;
        }
        let refusal = self.refusal(slot);
        refusal.is_none().then(|| self.candidate(slot, &self.nodes[slot.index()]))
    }

    /// Reason why the node in a slot does not take the request; `None` if it does.
    fn refusal(&self, slot: Slot) -> Option<NodeRefusal> {
        let node = &self.nodes[slot.index()];
        let calls = self.calls(slot);
        let of_node = match self.range {
            Range::Trials if node.is_expected(self.now) || self.is_trial_due(slot, node) => node.full(calls),
            Range::Takers | Range::Trials => node.refusal(self.now, calls),
            Range::HalfOpen if self.is_half_open(slot, node) => node.full(calls),
            Range::HalfOpen => Some(NodeRefusal::Paused),
            Range::LastResort => node.last_resort_refusal(self.now, calls),
        };
        of_node.or_else(|| self.load_refusal_of(slot))
    }

    fn load_refusal_of(&self, slot: Slot) -> Option<NodeRefusal> {
        let tier = (self.is_limited, self.has_priority);
        self.guards.refusal(self.now, slot, self.method, tier)
    }

    fn is_half_open(&self, slot: Slot, node: &Node) -> bool {
        let half_open = &self.evidence[slot.index()].half_open;
        node.is_half_open(self.now) && half_open.is_due(self.now, node.paused_since)
    }

    fn is_trial_due(&self, slot: Slot, node: &Node) -> bool {
        node.is_on_trial() && self.evidence[slot.index()].half_open.is_due(self.now, node.since)
    }

    /// Nodes that take the request, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.from(Slot(0))
    }

    /// Nodes that take the request: first the nodes from slot `first` on, then the nodes before it.
    pub fn from(&self, first: Slot) -> impl Iterator<Item = Candidate> + '_ {
        self.members.from(first, self.nodes.len()).filter_map(|slot| self.get(slot))
    }

    /// Number of calls that is compared with the node's limit.
    fn calls(&self, slot: Slot) -> u32 {
        if self.method == Method::Invite { self.leases.calls(slot) } else { 0 }
    }

    /// Every member of the pool, with the reason why it does not take the request; `None` if it does.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Candidate, Option<NodeRefusal>)> + '_ {
        self.members.from(Slot(0), self.nodes.len()).map(|slot| {
            let node = &self.nodes[slot.index()];
            let refusal = node.refusal(self.now, self.calls(slot));
            (self.candidate(slot, node), refusal.or_else(|| self.load_refusal_of(slot)))
        })
    }

    fn candidate(&self, slot: Slot, node: &Node) -> Candidate {
        let load = self.leases.expected(slot);
        Candidate { slot, id: node.id, load, capacity: node.capacity_at(self.now) }
    }
}
