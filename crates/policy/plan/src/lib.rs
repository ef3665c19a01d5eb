//! The most calls that a network of proxies carries, and which of them keeps the state of how many.
//!
//! Pure: a topology is an argument, a plan is the result. The program is that of the SERvartuka paper (section 2.3,
//! equations 1 to 5). A proxy forwards a call, and forwarding costs more where it keeps the call's state; the state
//! of every call is kept at one proxy of the call's path. [`solve`] finds the largest load and a way to share out the
//! state that carries it.
//!
//! Two things are more exact than in the paper. Its equation 5 asks that as much state is kept in all as calls come
//! in. In a network that forks, that would allow state to be kept twice on one branch and nowhere on another; here
//! the calls whose state nobody keeps yet are followed along the edges. And a second function of the same kind,
//! [`Function::Authentication`], is shared out with the first (section 7 of the paper names it).
//!
//! ```
//! use plan::{Node, Routing, Topology, solve};
//!
//! // The paper's section 2.3.1: two servers in series, 4700 calls/s with state, 5700 without.
//! let nodes = ["S1", "S2"].map(|name| Node::new(name, 5700.0, 4700.0)).to_vec();
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
pub use program::{PlanError, Rule, solve, solve_with};
pub use topology::{Function, Link, Node, PATHS_MAX, Routing, Topology, TopologyError, Visit};
