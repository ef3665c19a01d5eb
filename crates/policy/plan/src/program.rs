//! Linear program.
//!
//! Calls are divided into classes by their *open* functions: those still to be performed. With state alone there are
//! two classes, "no state yet" and "kept". There is a variable for each visit, each link from it (the exit counts as
//! one) and each pair of classes. A variable is the rate of calls that take this link, arrive in the first class and
//! leave in the second. The difference of the classes is the work of the node. The rows are:
//!
//! - for each visit, class and link: departures are the link's fraction of arrivals (equations 1 and 2); with free
//!   routing, one row for all links;
//! - for each node: its utilisation is at most 1 (equations 3 and 4);
//! - at exits no function is open (equation 5, for each call instead of the sum of all).
//!
//! Flows are in units of the slowest node's rate. So loads are moderate numbers, however fast the other nodes are.

use std::fmt;

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, SolveOptions, Variable};

use crate::answer::{Plan, plan};
use crate::topology::{PlannedFunction, Routing, Topology};

/// Rule for the nodes that keep state and authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateRule {
    /// The optimum over all nodes.
    Optimum,
    /// Every node, for every call, as far as the node can.
    All,
    /// The node where a call enters, as in networks that keep state at the edge.
    First,
    /// The node where a call leaves.
    Last,
    /// No node: the largest load of forwarding alone.
    ForwardOnly,
}

/// Reason why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanError {
    /// Some calls pass no node that has this function, or no node that may perform it under the rule.
    MissingFunction(PlannedFunction),
    /// The solver failed. The cause is extreme numbers (rates more than six orders of magnitude apart) or a bug of the
    /// program, never the network.
    Solver(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingFunction(PlannedFunction::State) => {
                f.write_str("some calls pass no node that can keep their state; give a node on their path a `stateful` rate")
            }
            Self::MissingFunction(PlannedFunction::Authentication) => f.write_str(
                "some calls pass no node that can authenticate them; give a node on their path an `authenticating` rate",
            ),
            Self::Solver(reason) => {
                write!(f, "the linear program cannot be solved ({reason}); are rates in calls a second?")
            }
        }
    }
}

impl std::error::Error for PlanError {}

/// Computes the largest load of a network, and a plan for it.
/// Among several plans for this load, takes the plan with the least utilisation of the busiest node that is not a
/// bottleneck.
pub fn solve(topology: &Topology) -> Result<Plan, PlanError> {
    solve_with(topology, StateRule::Optimum)
}

/// Computes the largest load of a network under a rule.
pub fn solve_with(topology: &Topology, rule: StateRule) -> Result<Plan, PlanError> {
    let program = Program::new(topology, rule);
    let most = program.run(&Goal::Load)?;
    if most.load < LOAD_MIN {
        let alone = |function: PlannedFunction| {
            let reduced = Program { functions: vec![function], ..program.clone() };
            reduced.run(&Goal::Load).is_ok_and(|flows| flows.load < LOAD_MIN)
        };
        let missing = program.functions.iter().copied().find(|function| alone(*function));
        return Err(PlanError::MissingFunction(missing.unwrap_or(PlannedFunction::State)));
    }
    // A little less than the largest load, so that rounding makes no program infeasible.
    let load = most.load * (1.0 - 1e-8);
    let slack = program.run(&Goal::Slack { load })?;
    let tight: Vec<bool> = slack.slacks.iter().map(|slack| *slack < SLACK / 2.0).collect();
    let flows = if tight.iter().all(|tight| *tight) {
        slack
    } else {
        program.run(&Goal::Balance { load, tight: &tight })?
    };
    Ok(plan(&program, most.load, &flows, &tight))
}

/// Smallest load that counts, in units of the slowest node.
const LOAD_MIN: f64 = 1e-6;

/// Largest error of each row. If a small change of room at one node causes a large change at others, the error of the
/// load is a multiple of this value.
const TOLERANCE: f64 = 1e-9;

/// A node whose utilisation can be this much below 1 at the largest load is not a bottleneck.
const SLACK: f64 = 1e-4;

/// Objective of the program; loads are in units of the slowest node.
enum Goal<'g> {
    /// The largest load.
    Load,
    /// At this load, nodes that need not be full: a little slack at as many nodes as possible.
    Slack { load: f64 },
    /// At this load, the least utilisation of the busiest node that is not `tight`.
    Balance { load: f64, tight: &'g [bool] },
}

/// Set of open functions, as bits by place in [`Program::functions`].
pub(crate) type Class = usize;

/// A network and a rule, from which linear programs are built.
#[derive(Clone)]
pub(crate) struct Program<'t> {
    pub(crate) topology: &'t Topology,
    rule: StateRule,
    pub(crate) functions: Vec<PlannedFunction>,
    /// Unit of rates in the program, in calls a second.
    pub(crate) unit: f64,
}

/// Meaning of a variable: calls that take a link, with their class on arrival and on departure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) visit: usize,
    /// Index of the link; the number of links stands for the exit.
    pub(crate) way: usize,
    pub(crate) before: Class,
    pub(crate) behind: Class,
}

/// Solution of the program.
pub(crate) struct Solution {
    pub(crate) load: f64,
    pub(crate) flows: Vec<(Flow, f64)>,
    /// Slack of each node, if requested.
    slacks: Vec<f64>,
}

impl<'t> Program<'t> {
    fn new(topology: &'t Topology, rule: StateRule) -> Self {
        let shared = !matches!(rule, StateRule::All | StateRule::ForwardOnly);
        let functions = if shared { topology.functions().to_vec() } else { Vec::new() };
        let unit = topology.nodes.iter().map(|node| node.stateless).fold(f64::INFINITY, f64::min);
        Self { topology, rule, functions, unit }
    }

    /// Whether every node performs every function for every call.
    pub(crate) fn does_all(&self) -> bool {
        self.rule == StateRule::All
    }

    /// Class of calls with all functions open.
    pub(crate) fn all_open(&self) -> Class {
        (1 << self.functions.len()) - 1
    }

    /// Seconds that a node spends on a call; `None` if it lacks a function.
    pub(crate) fn cost(&self, flow: Flow) -> Option<f64> {
        let node = &self.topology.nodes[self.topology.visits[flow.visit].node];
        let mut cost = node.forward_cost();
        if self.rule == StateRule::All {
            let all = self.topology.functions().iter();
            cost += all.filter_map(|function| node.extra_cost(*function)).sum::<f64>();
        }
        let done = (0..self.functions.len()).filter(|bit| (flow.before & !flow.behind) >> bit & 1 == 1);
        done.map(|bit| node.extra_cost(self.functions[bit])).try_fold(cost, |sum, extra| Some(sum + extra?))
    }

    /// All flows that the rule and the nodes allow, in order of visit, link and class.
    fn flows(&self) -> Vec<Flow> {
        let mut flows = Vec::new();
        for (index, visit) in self.topology.visits.iter().enumerate() {
            for way in 0..=visit.next.len() {
                for before in 0..=self.all_open() {
                    for behind in (0..=before).filter(|behind| behind & !before == 0) {
                        let flow = Flow { visit: index, way, before, behind };
                        if self.is_allowed(flow) && self.cost(flow).is_some() {
                            flows.push(flow);
                        }
                    }
                }
            }
        }
        flows
    }

    fn is_allowed(&self, flow: Flow) -> bool {
        let visit = &self.topology.visits[flow.visit];
        let leaves = flow.way == visit.next.len();
        if leaves && (flow.behind != 0 || self.topology.exit(flow.visit) == 0.0) {
            return false;
        }
        match self.rule {
            StateRule::Optimum | StateRule::All | StateRule::ForwardOnly => true,
            StateRule::First => flow.behind == 0 && (flow.before == 0 || visit.entry > 0.0),
            StateRule::Last => leaves || flow.before == flow.behind,
        }
    }

    fn run(&self, goal: &Goal<'_>) -> Result<Solution, PlanError> {
        let minimise = matches!(goal, Goal::Balance { .. });
        let direction =
            if minimise { OptimizationDirection::Minimize } else { OptimizationDirection::Maximize };
        let mut problem = Problem::new(direction);
        let load = match goal {
            Goal::Load => problem.add_var(1.0, (0.0, f64::INFINITY)),
            Goal::Slack { load } | Goal::Balance { load, .. } => problem.add_var(0.0, (*load, *load)),
        };
        let flows = self.flows();
        let flows: Vec<(Flow, Variable)> =
            flows.into_iter().map(|flow| (flow, problem.add_var(0.0, (0.0, f64::INFINITY)))).collect();
        self.add_routing(&mut problem, load, &flows);
        let slacks = self.add_utilisation(&mut problem, goal, &flows);
        let failed = |reason: &dyn fmt::Display| PlanError::Solver(reason.to_string());
        let mut options = SolveOptions::default();
        options.tolerances.feasibility = TOLERANCE;
        let solution = problem.solve_with(options).map_err(|error| failed(&error))?;
        let solution = solution.into_solution().map_err(|_| failed(&"interrupted"))?;
        Ok(Solution {
            load: solution.var_value(load),
            flows: flows.into_iter().map(|(flow, it)| (flow, solution.var_value(it).max(0.0))).collect(),
            slacks: slacks.into_iter().map(|it| solution.var_value(it)).collect(),
        })
    }

    /// Adds equations 1, 2 and 5, for each class.
    fn add_routing(&self, problem: &mut Problem, load: Variable, flows: &[(Flow, Variable)]) {
        let classes = self.all_open() + 1;
        // Arrivals at each visit, by class.
        let mut coming = vec![Vec::new(); self.topology.visits.len() * classes];
        for (visit, at) in self.topology.visits.iter().zip(0..) {
            if visit.entry > 0.0 {
                coming[at * classes + self.all_open()].push((load, visit.entry));
            }
        }
        // Departures from each visit and class, by link.
        let mut leaving = vec![Vec::new(); coming.len()];
        for (flow, variable) in flows {
            leaving[flow.visit * classes + flow.before].push((flow.way, *variable));
            if let Some(way) = self.topology.visits[flow.visit].next.get(flow.way) {
                coming[way.to * classes + flow.behind].push((*variable, 1.0));
            }
        }
        for (place, (coming, leaving)) in coming.iter().zip(&leaving).enumerate() {
            let visit = place / classes;
            let ways: Vec<Option<usize>> = match self.topology.routing {
                Routing::Fixed => (0..=self.topology.visits[visit].next.len()).map(Some).collect(),
                Routing::Free => vec![None],
            };
            for way in ways {
                let share = way.map_or(1.0, |way| self.share(visit, way));
                let mut row = LinearExpr::empty();
                for (_, variable) in leaving.iter().filter(|(to, _)| way.is_none_or(|way| way == *to)) {
                    row.add(*variable, 1.0);
                }
                if share > 0.0 {
                    for (variable, part) in coming {
                        row.add(*variable, -part * share);
                    }
                }
                problem.add_constraint(row, ComparisonOp::Eq, 0.0);
            }
        }
    }

    /// Share of a visit's calls that take a link, with fixed routing.
    fn share(&self, visit: usize, way: usize) -> f64 {
        let next = self.topology.visits[visit].next.get(way);
        next.map_or_else(|| self.topology.exit(visit), |way| way.share)
    }

    /// Adds equations 3 and 4. Returns the slack variable of each node, if requested.
    fn add_utilisation(
        &self,
        problem: &mut Problem,
        goal: &Goal<'_>,
        flows: &[(Flow, Variable)],
    ) -> Vec<Variable> {
        let mut busy = vec![LinearExpr::empty(); self.topology.nodes.len()];
        for (flow, variable) in flows {
            let cost = self.cost(*flow).expect("only flows that a node can carry have a variable");
            busy[self.topology.visits[flow.visit].node].add(*variable, cost * self.unit);
        }
        let busiest = match goal {
            Goal::Balance { .. } => vec![problem.add_var(1.0, (0.0, 1.0))],
            Goal::Load | Goal::Slack { .. } => Vec::new(),
        };
        let mut slacks = Vec::new();
        for (node, mut row) in busy.into_iter().enumerate() {
            let mut limit = 1.0;
            match goal {
                Goal::Load => {}
                Goal::Slack { .. } => {
                    let slack = problem.add_var(1.0, (0.0, SLACK));
                    row.add(slack, 1.0);
                    slacks.push(slack);
                }
                Goal::Balance { tight, .. } if tight[node] => {}
                Goal::Balance { .. } => {
                    row.add(busiest[0], -1.0);
                    limit = 0.0;
                }
            }
            problem.add_constraint(row, ComparisonOp::Le, limit);
        }
        slacks
    }
}
