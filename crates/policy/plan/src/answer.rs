//! Conversion of a solution into a plan for the nodes.

use serde::Serialize;

use crate::program::{Flow, Program, Solution};
use crate::topology::PlannedFunction;

/// Plan for a load: the work of each node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Load in calls a second.
    pub load: f64,
    /// In the order of the topology's nodes.
    pub nodes: Vec<NodePlan>,
    /// Treatment of the calls on each link of each visit; links without calls are left out.
    pub ways: Vec<WayPlan>,
}

/// Work of a node. Rates are calls a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodePlan {
    /// Name.
    pub name: String,
    /// Calls that pass: `t_i` of the paper.
    pub calls: f64,
    /// Calls whose state it keeps: `t_i^SF`.
    pub kept: f64,
    /// Calls that it forwards without state: `t_i^SL`.
    pub forwarded: f64,
    /// Calls that it authenticates.
    pub authenticated: f64,
    /// Share of the calls arriving without state and going on to another node whose state this node keeps, from 0 to 1.
    /// A proxy's `[distribution]` gets this value as `keep`. `None` if the share differs by next hop, since a proxy can
    /// only have one share.
    pub keep: Option<f64>,
    /// `U_i`, from 0 to 1.
    pub utilisation: f64,
    /// Whether a larger load would need a faster node here. In every plan for this load the node is idle for less than
    /// a ten-thousandth of the time.
    pub bottleneck: bool,
}

/// Treatment of the calls of a visit that take one link. Rates are calls a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WayPlan {
    /// Index of the visit.
    pub visit: usize,
    /// Index of the next visit; `None` for calls that leave the network.
    pub to: Option<usize>,
    /// Calls whose state an earlier node keeps.
    pub kept_before: f64,
    /// Calls whose state is kept here.
    pub kept_here: f64,
    /// Calls that go on without state.
    pub open: f64,
}

impl WayPlan {
    /// Share of the calls without state whose state is kept here; 1 if there are none.
    pub fn keep(&self) -> f64 {
        let came = self.kept_here + self.open;
        if came > 0.0 { self.kept_here / came } else { 1.0 }
    }
}

impl Plan {
    /// Scales the plan to another load. Utilisation is proportional to the load. No other plan has a less busy busiest
    /// node; otherwise that plan would carry more at full utilisation.
    #[must_use]
    pub fn at(&self, load: f64) -> Self {
        let factor = load / self.load;
        let nodes = self.nodes.iter().map(|node| NodePlan {
            name: node.name.clone(),
            calls: node.calls * factor,
            kept: node.kept * factor,
            forwarded: node.forwarded * factor,
            authenticated: node.authenticated * factor,
            keep: node.keep,
            utilisation: node.utilisation * factor,
            bottleneck: node.bottleneck,
        });
        let ways = self.ways.iter().map(|way| WayPlan {
            kept_before: way.kept_before * factor,
            kept_here: way.kept_here * factor,
            open: way.open * factor,
            ..*way
        });
        Self { load, nodes: nodes.collect(), ways: ways.collect() }
    }
}

/// Converts a solution to calls a second. Adds back the margin that the program leaves for rounding.
pub(crate) fn plan(program: &Program<'_>, load: f64, solution: &Solution, tight: &[bool]) -> Plan {
    let unit = program.unit * load / solution.load;
    let visits = &program.topology.visits;
    let mut nodes: Vec<_> =
        program.topology.nodes.iter().zip(tight).map(|(node, tight)| empty(node, *tight)).collect();
    let mut ways: Vec<WayPlan> = Vec::new();
    for (flow, rate) in &solution.flows {
        let rate = rate * unit;
        let node = &mut nodes[visits[flow.visit].node];
        let done = |function| does(program, *flow, function);
        node.calls += rate;
        node.kept += if done(PlannedFunction::State) { rate } else { 0.0 };
        node.authenticated += if done(PlannedFunction::Authentication) { rate } else { 0.0 };
        node.utilisation += rate * program.cost(*flow).unwrap_or(0.0);
        let to = visits[flow.visit].next.get(flow.way).map(|way| way.to);
        let same = ways.last().is_some_and(|last| (last.visit, last.to) == (flow.visit, to));
        if !same {
            ways.push(WayPlan { visit: flow.visit, to, kept_before: 0.0, kept_here: 0.0, open: 0.0 });
        }
        let way = ways.last_mut().expect("an entry was pushed");
        let is_open = |class| is_open(program, class, PlannedFunction::State);
        match (is_open(flow.before), is_open(flow.behind)) {
            (true, true) => way.open += rate,
            (true, false) => way.kept_here += rate,
            (false, _) => way.kept_before += rate,
        }
    }
    for node in &mut nodes {
        node.forwarded = (node.calls - node.kept).max(0.0);
    }
    // Rates below the solver's error count as zero.
    ways.retain(|way| way.kept_before + way.kept_here + way.open > unit * 1e-9);
    for (index, node) in nodes.iter_mut().enumerate() {
        let on = ways.iter().filter(|way| visits[way.visit].node == index && way.to.is_some());
        node.keep = one_share(on.filter(|way| way.kept_here + way.open > unit * 1e-9));
    }
    Plan { load: load * program.unit, nodes, ways }
}

/// Largest difference of shares that count as equal: calls are counted, and the solver has an error.
const SHARE_ERROR: f64 = 1e-6;

/// The share kept on each of these links, if all shares are equal; 1 without links.
fn one_share<'w>(ways: impl Iterator<Item = &'w WayPlan>) -> Option<f64> {
    let shares: Vec<f64> = ways.map(WayPlan::keep).collect();
    let Some(first) = shares.first() else { return Some(1.0) };
    let same = shares.iter().all(|share| (share - first).abs() <= SHARE_ERROR);
    // Drops digits without meaning, and limits rounding to at most 1.
    same.then(|| ((first / SHARE_ERROR).round() * SHARE_ERROR).clamp(0.0, 1.0))
}

fn empty(node: &crate::PlanNode, bottleneck: bool) -> NodePlan {
    let name = node.name.clone();
    NodePlan {
        name,
        calls: 0.0,
        kept: 0.0,
        forwarded: 0.0,
        authenticated: 0.0,
        keep: None,
        utilisation: 0.0,
        bottleneck,
    }
}

/// Whether the node of a flow performs this function for its calls.
fn does(program: &Program<'_>, flow: Flow, function: PlannedFunction) -> bool {
    let node = &program.topology.nodes[program.topology.visits[flow.visit].node];
    let every = program.does_all() && program.topology.functions().contains(&function);
    (every && node.extra_cost(function).is_some())
        || (is_open(program, flow.before, function) && !is_open(program, flow.behind, function))
}

fn is_open(program: &Program<'_>, class: usize, function: PlannedFunction) -> bool {
    let bit = program.functions.iter().position(|has| *has == function);
    bit.is_some_and(|bit| class >> bit & 1 == 1)
}
