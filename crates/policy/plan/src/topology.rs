//! Topology: the proxies, their capacities, and the paths of calls.

use std::collections::BTreeMap;
use std::fmt;

/// Largest error of shares that should add up to 1: three times 0.333 is close enough.
const SHARE_ERROR: f64 = 0.0015;

/// Largest rounding error of shares that add up to 1. With a smaller sum, the rest of the calls leaves the network.
const ROUNDING: f64 = 1e-9;

/// Most paths that are listed.
pub const PATHS_MAX: usize = 1000;

/// Function that one proxy of a path performs for a call, so that the others need not perform it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedFunction {
    /// Keeps the state of its transactions or its dialog (paper, section 2).
    State,
    /// Checks the credentials of the caller (paper, section 7).
    Authentication,
}

/// A proxy. Rates are calls a second at full utilisation, above 0 and finite.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanNode {
    /// Name for people.
    pub name: String,
    /// Rate of forwarding alone: `T_SL` of the paper.
    pub stateless: f64,
    /// Rate of keeping the state of every call: `T_SF` of the paper; at most `stateless`. `None` if it keeps no state.
    pub stateful: Option<f64>,
    /// Rate of authenticating every call without keeping state; at most `stateless`. `None` if it does not
    /// authenticate.
    pub authenticating: Option<f64>,
}

impl PlanNode {
    /// Creates a node that does not authenticate.
    pub fn new(name: impl Into<String>, stateless: f64, stateful: f64) -> Self {
        Self { name: name.into(), stateless, stateful: Some(stateful), authenticating: None }
    }

    /// Seconds for forwarding a call: `f^SL` of equation 4, for one call a second.
    pub fn forward_cost(&self) -> f64 {
        1.0 / self.stateless
    }

    /// Additional seconds for a function; `None` if the node lacks it. `f^SF` of equation 4 is the sum of both.
    pub fn extra_cost(&self, function: PlannedFunction) -> Option<f64> {
        let rate = match function {
            PlannedFunction::State => self.stateful,
            PlannedFunction::Authentication => self.authenticating,
        };
        // With equal rates the additional cost is zero in spite of rounding.
        rate.map(|rate| (1.0 / rate - 1.0 / self.stateless).max(0.0))
    }
}

/// Origin of the fractions of calls on each link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// As given: the phi of equation 1.
    #[default]
    Fixed,
    /// Chosen by the program. They may differ for calls whose state is already kept.
    Free,
}

/// A passage of calls through a node, distinguished by the previous or the next nodes of these calls. A node has
/// several visits if paths pass it in different orders, with one capacity for all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// Index of the node.
    pub node: usize,
    /// Share of all calls that enter the network here.
    pub entry: f64,
    /// Links to the next visits. If the shares add up to less than 1, the rest leaves the network.
    pub next: Vec<TopologyLink>,
}

/// A link from a visit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopologyLink {
    /// Index of the next visit.
    pub to: usize,
    /// Share of the calls that take it; ignored with [`Routing::Free`].
    pub share: f64,
}

/// A checked network.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) visits: Vec<Visit>,
    pub(crate) routing: Routing,
    pub(crate) authenticated: bool,
}

/// Error in a topology.
#[derive(Debug, Clone, PartialEq)]
pub enum TopologyError {
    /// There is no node, or no visit.
    Empty,
    /// A rate of this node is not above 0, not finite, or larger than its rate without the function.
    Rate(usize),
    /// A visit, or a link from it, has an index that does not exist.
    Absent(usize),
    /// The shares of a visit's links, or its entry, are negative, not finite, or more than 1 together.
    Share(usize),
    /// The entry shares add up to this instead of 1.
    Entries(f64),
    /// Calls can run in a circle through this visit.
    Circle(usize),
    /// With free routing, calls cannot leave at a visit that has links.
    Leaves(usize),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the topology has no node that calls pass; add a node and a path"),
            Self::Rate(node) => write!(
                f,
                "node {node}: expected finite rates above 0; a rate with a function must not exceed the rate without it"
            ),
            Self::Absent(visit) => {
                write!(f, "visit {visit}: it refers to a node or a visit that does not exist")
            }
            Self::Share(visit) => {
                write!(f, "visit {visit}: expected shares from 0 to 1 with a sum of at most 1")
            }
            Self::Entries(sum) => {
                write!(f, "expected entry shares with a sum of 1, not {sum}")
            }
            Self::Circle(visit) => write!(
                f,
                "visit {visit}: the links from this visit lead back to it; calls must not run in a circle"
            ),
            Self::Leaves(visit) => {
                write!(f, "visit {visit}: with free routing, calls leave only at visits without links")
            }
        }
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    /// Checks a network. Shares that add up to nearly 1 are normalised.
    pub fn new(nodes: Vec<PlanNode>, visits: Vec<Visit>, routing: Routing) -> Result<Self, TopologyError> {
        if nodes.is_empty() || visits.is_empty() {
            return Err(TopologyError::Empty);
        }
        for (index, node) in nodes.iter().enumerate() {
            let good = |rate: f64| rate.is_finite() && rate > 0.0 && rate <= node.stateless;
            let all = [Some(node.stateless), node.stateful, node.authenticating];
            if !all.into_iter().flatten().all(good) {
                return Err(TopologyError::Rate(index));
            }
        }
        let mut topology = Self { nodes, visits, routing, authenticated: false };
        topology.check_shares()?;
        topology.order()?;
        Ok(topology)
    }

    /// Builds a network from whole paths: the nodes of each path in order, and its share of the calls. Each path has
    /// its own visits, so nodes know the path of every call. This is the program of the paper for several flows. It
    /// needs no order among nodes.
    pub fn of_paths(
        nodes: Vec<PlanNode>,
        paths: &[(Vec<usize>, f64)],
        routing: Routing,
    ) -> Result<Self, TopologyError> {
        let mut visits = Vec::new();
        for (path, share) in paths {
            for (place, node) in path.iter().enumerate() {
                let to = visits.len() + 1;
                let next =
                    if place + 1 < path.len() { vec![TopologyLink { to, share: 1.0 }] } else { Vec::new() };
                visits.push(Visit { node: *node, entry: if place == 0 { *share } else { 0.0 }, next });
            }
        }
        Self::new(nodes, visits, routing)
    }

    /// Same network, with each call also authenticated at one node of its path.
    #[must_use]
    pub fn authenticated(self) -> Self {
        Self { authenticated: true, ..self }
    }

    /// All nodes.
    pub fn nodes(&self) -> &[PlanNode] {
        &self.nodes
    }

    /// All visits.
    pub fn visits(&self) -> &[Visit] {
        &self.visits
    }

    /// Functions to distribute.
    pub(crate) fn functions(&self) -> &'static [PlannedFunction] {
        if self.authenticated {
            &[PlannedFunction::State, PlannedFunction::Authentication]
        } else {
            &[PlannedFunction::State]
        }
    }

    /// Share of the calls at a visit that leave the network there.
    pub(crate) fn exit(&self, visit: usize) -> f64 {
        match (self.routing, self.visits[visit].next.is_empty()) {
            (_, true) => 1.0,
            (Routing::Free, false) => 0.0,
            (Routing::Fixed, false) => {
                let left = 1.0 - self.visits[visit].next.iter().map(|way| way.share).sum::<f64>();
                if left < 1e-9 { 0.0 } else { left }
            }
        }
    }

    fn check_shares(&mut self) -> Result<(), TopologyError> {
        let (nodes, visits) = (self.nodes.len(), self.visits.len());
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        for (index, visit) in self.visits.iter_mut().enumerate() {
            if visit.node >= nodes || visit.next.iter().any(|way| way.to >= visits) {
                return Err(TopologyError::Absent(index));
            }
            let sum: f64 = visit.next.iter().map(|way| way.share).sum();
            let fixed = self.routing == Routing::Fixed;
            let good = visit.next.iter().all(|way| is_share(way.share)) && sum <= 1.0 + SHARE_ERROR;
            if !is_share(visit.entry) || (fixed && !good) {
                return Err(TopologyError::Share(index));
            }
            if !fixed && !visit.next.is_empty() && sum > 0.0 && sum < 1.0 - SHARE_ERROR {
                return Err(TopologyError::Leaves(index));
            }
            if (sum - 1.0).abs() <= ROUNDING {
                visit.next.iter_mut().for_each(|way| way.share /= sum);
            }
        }
        let sum: f64 = self.visits.iter().map(|visit| visit.entry).sum();
        if (sum - 1.0).abs() > SHARE_ERROR {
            return Err(TopologyError::Entries(sum));
        }
        self.visits.iter_mut().for_each(|visit| visit.entry /= sum);
        Ok(())
    }

    /// Visits in topological order.
    pub(crate) fn order(&self) -> Result<Vec<usize>, TopologyError> {
        let mut before = vec![0_usize; self.visits.len()];
        self.visits.iter().flat_map(|visit| &visit.next).for_each(|way| before[way.to] += 1);
        let mut order: Vec<usize> = (0..before.len()).filter(|visit| before[*visit] == 0).collect();
        let mut at = 0;
        while let Some(visit) = order.get(at).copied() {
            at += 1;
            for way in &self.visits[visit].next {
                before[way.to] -= 1;
                if before[way.to] == 0 {
                    order.push(way.to);
                }
            }
        }
        match before.iter().position(|left| *left > 0) {
            Some(visit) => Err(TopologyError::Circle(visit)),
            None => Ok(order),
        }
    }

    /// All paths: their visits, and their share of the calls, which is 0 with free routing. `None` if there are more
    /// than [`PATHS_MAX`].
    pub fn paths(&self) -> Option<Vec<(Vec<usize>, f64)>> {
        let entries = self.visits.iter().enumerate().filter(|(_, visit)| visit.entry > 0.0);
        let mut open: Vec<_> = entries.map(|(at, visit)| (vec![at], visit.entry)).collect();
        open.reverse();
        let mut paths = Vec::new();
        while let Some((path, share)) = open.pop() {
            let at = *path.last().expect("a path has a first visit");
            for way in self.visits[at].next.iter().rev() {
                let goes = if self.routing == Routing::Free { 0.0 } else { share * way.share };
                if goes > 0.0 || self.routing == Routing::Free {
                    let on = path.iter().copied().chain([way.to]).collect();
                    open.push((on, goes));
                }
            }
            if self.exit(at) > 0.0 {
                let free = self.routing == Routing::Free;
                paths.push((path, if free { 0.0 } else { share * self.exit(at) }));
            }
            if paths.len() + open.len() > PATHS_MAX {
                return None;
            }
        }
        Some(paths)
    }

    /// Same network with separate visits for each path, so that a node decides by the whole path of a call instead of
    /// the next visit only. `None` if there are too many paths, or routing is free.
    #[must_use]
    pub fn by_path(&self) -> Option<Self> {
        if self.routing == Routing::Free {
            return None;
        }
        // Paths through the same nodes count as one, whatever their visits.
        let mut shares: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
        for (path, share) in self.paths()? {
            let nodes = path.iter().map(|visit| self.visits[*visit].node).collect();
            *shares.entry(nodes).or_default() += share;
        }
        let paths: Vec<_> = shares.into_iter().collect();
        let whole = Self::of_paths(self.nodes.clone(), &paths, Routing::Fixed).ok()?;
        Some(Self { authenticated: self.authenticated, ..whole })
    }
}
