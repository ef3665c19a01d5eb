//! Which proxies there are, what they carry, and how calls pass them.

use std::collections::BTreeMap;
use std::fmt;

/// Shares that should add up to 1 may be off by so much: three times 0.333 is close enough.
const SHARE_ERROR: f64 = 0.0015;

/// What arithmetic makes of shares that add up to 1. What is less than that by more leaves the network.
const ROUNDING: f64 = 1e-9;

/// More paths than these are not told apart.
pub const PATHS_MAX: usize = 1000;

/// What one proxy of a path does for a call, and all others need not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Keeps the state of its transactions or its dialog (paper, section 2).
    State,
    /// Checks the credentials of the caller (paper, section 7).
    Authentication,
}

/// A proxy. Rates are calls a second at full utilisation, above 0 and finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// For people.
    pub name: String,
    /// When it only forwards: `T_SL` of the paper.
    pub stateless: f64,
    /// When it keeps the state of every call: `T_SF` of the paper; at most `stateless`. `None`: it never keeps any.
    pub stateful: Option<f64>,
    /// When it authenticates every call and keeps no state; at most `stateless`. `None`: it cannot.
    pub authenticating: Option<f64>,
}

impl Node {
    /// One that does not authenticate.
    pub fn new(name: impl Into<String>, stateless: f64, stateful: f64) -> Self {
        Self { name: name.into(), stateless, stateful: Some(stateful), authenticating: None }
    }

    /// Part of a second that forwarding a call takes: `f^SL` of equation 4, for one call a second.
    pub fn forward_cost(&self) -> f64 {
        1.0 / self.stateless
    }

    /// Part of a second that a function takes on top; `None` where the node does not have it. `f^SF` of equation 4 is
    /// the sum of both.
    pub fn extra_cost(&self, function: Function) -> Option<f64> {
        let rate = match function {
            Function::State => self.stateful,
            Function::Authentication => self.authenticating,
        };
        // Rates that are equal cost nothing more, whatever the rounding.
        rate.map(|rate| (1.0 / rate - 1.0 / self.stateless).max(0.0))
    }
}

/// Who decides which way calls go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// Fractions are as given: the phi of equation 1.
    #[default]
    Fixed,
    /// The program chooses the fractions. They may differ for calls whose state is kept already.
    Free,
}

/// Calls that pass one node on the same terms: where they come from or go to may tell them apart from others that
/// pass it. A node is visited more than once where paths pass it in different orders, and has one capacity for all
/// visits.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// Index of the node.
    pub node: usize,
    /// Share of all calls that enter the network here.
    pub entry: f64,
    /// Where calls go from here. What the shares leave over leaves the network.
    pub next: Vec<Link>,
}

/// One of the ways from a visit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Index of the visit that follows.
    pub to: usize,
    /// Share of the calls that go there; of no meaning with [`Routing::Free`].
    pub share: f64,
}

/// A network that has been checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) visits: Vec<Visit>,
    pub(crate) routing: Routing,
    pub(crate) authenticated: bool,
}

/// What is wrong with a topology.
#[derive(Debug, Clone, PartialEq)]
pub enum TopologyError {
    /// There is no node, or no visit.
    Empty,
    /// A rate of this node is not above 0, not finite, or larger than its rate without the function.
    Rate(usize),
    /// A visit, or a way from it, leads to what does not exist.
    Absent(usize),
    /// The shares of a visit's ways, or its entry, are negative, not finite, or more than 1 together.
    Share(usize),
    /// The shares that enter do not add up to 1 but to this.
    Entries(f64),
    /// Calls go round in a circle through this visit.
    Circle(usize),
    /// With free routing nobody can say how many calls leave at a visit that has ways on.
    Leaves(usize),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no node that calls pass; add one"),
            Self::Rate(node) => write!(
                f,
                "node {node}: expected finite rates above 0, and no more with a function than without"
            ),
            Self::Absent(visit) => write!(f, "visit {visit}: it names a node or a visit that there is not"),
            Self::Share(visit) => write!(f, "visit {visit}: expected shares from 0 to 1, at most 1 together"),
            Self::Entries(sum) => {
                write!(f, "expected shares of calls that enter which add up to 1, not {sum}")
            }
            Self::Circle(visit) => write!(f, "visit {visit}: calls must not go round in a circle"),
            Self::Leaves(visit) => {
                write!(f, "visit {visit}: with free routing calls leave only where there is no way on")
            }
        }
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    /// Checks a network. Shares that add up to nearly 1 are made to.
    pub fn new(nodes: Vec<Node>, visits: Vec<Visit>, routing: Routing) -> Result<Self, TopologyError> {
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

    /// From whole paths: the nodes of each in order, and its share of the calls. Each has visits of its own, so nodes
    /// know the path of every call; this is the program of the paper for several flows, and asks for no order among
    /// nodes.
    pub fn of_paths(
        nodes: Vec<Node>,
        paths: &[(Vec<usize>, f64)],
        routing: Routing,
    ) -> Result<Self, TopologyError> {
        let mut visits = Vec::new();
        for (path, share) in paths {
            for (place, node) in path.iter().enumerate() {
                let to = visits.len() + 1;
                let next = if place + 1 < path.len() { vec![Link { to, share: 1.0 }] } else { Vec::new() };
                visits.push(Visit { node: *node, entry: if place == 0 { *share } else { 0.0 }, next });
            }
        }
        Self::new(nodes, visits, routing)
    }

    /// The same network whose calls have to be authenticated, too, at one node of their path.
    #[must_use]
    pub fn authenticated(self) -> Self {
        Self { authenticated: true, ..self }
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All visits.
    pub fn visits(&self) -> &[Visit] {
        &self.visits
    }

    /// What is shared out.
    pub(crate) fn functions(&self) -> &'static [Function] {
        if self.authenticated { &[Function::State, Function::Authentication] } else { &[Function::State] }
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

    /// The visits, each before those that follow it.
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

    /// Every path: its visits, and its share of the calls, which is 0 for all with free routing. `None` where there
    /// are more than [`PATHS_MAX`].
    pub fn paths(&self) -> Option<Vec<(Vec<usize>, f64)>> {
        let entries = self.visits.iter().enumerate().filter(|(_, visit)| visit.entry > 0.0);
        let mut open: Vec<_> = entries.map(|(at, visit)| (vec![at], visit.entry)).collect();
        open.reverse();
        let mut paths = Vec::new();
        while let Some((path, share)) = open.pop() {
            let at = *path.last().expect("a path begins somewhere");
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

    /// The same network with visits of its own for each path, so that a node decides by the whole path of a call and
    /// not only by where the call goes next. `None` where there are too many paths, or routing is free.
    #[must_use]
    pub fn by_path(&self) -> Option<Self> {
        if self.routing == Routing::Free {
            return None;
        }
        // Paths with the same nodes are one, whichever visits they make there.
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
