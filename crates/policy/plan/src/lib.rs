//! Planning: the largest load that a network of proxies carries, and the share of state that each proxy keeps.
//!
//! Pure: the argument is a topology, the result a plan. The linear program is that of the SERvartuka paper (section
//! 2.3, equations 1 to 5). A proxy forwards calls, and forwarding costs more if the proxy keeps the call's state. The
//! state of every call is kept at one proxy of its path. [`solve`] finds the largest load, and a distribution of state
//! that carries it.
//!
//! The program is more exact than the paper in two points.
//!
//! - The paper's equation 5 requires only that the total of kept state equals the number of calls. In a network that
//!   forks, this would allow state to be kept twice on one branch and not at all on another. Here the calls without
//!   state are followed along the links.
//! - A second function of the same kind, [`PlannedFunction::Authentication`], is distributed together with the first
//!   (section 7 of the paper names it).
//!
//! ```
//! use plan::{PlanNode, Routing, Topology, solve};
//!
//! // The paper's section 2.3.1: two servers in series, 4700 calls/s with state, 5700 without.
//! let nodes = ["S1", "S2"].map(|name| PlanNode::new(name, 5700.0, 4700.0)).to_vec();
//! let topology = Topology::of_paths(nodes, &[(vec![0, 1], 1.0)], Routing::Fixed).unwrap();
//! let plan = solve(&topology).unwrap();
//! assert!((plan.load - 5151.92).abs() < 0.01);
//! assert!((plan.nodes[0].kept + plan.nodes[1].kept - plan.load).abs() < 0.01);
//! ```
#![forbid(unsafe_code)]

mod answer;
mod paths;
mod program;
mod topology;

pub use answer::{NodePlan, Plan, WayPlan};
pub use paths::PathPlan;
pub use program::{PlanError, StateRule, solve, solve_with};
pub use topology::{
    PATHS_MAX, PlanNode, PlannedFunction, Routing, Topology, TopologyError, TopologyLink, Visit,
};
