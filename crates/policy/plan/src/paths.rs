//! A plan by paths: the nodes of each path that keep its state.

use serde::Serialize;

use crate::answer::{Plan, WayPlan};
use crate::topology::Topology;

/// Treatment of the calls of one path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathPlan {
    /// Indices of its nodes, in order.
    pub nodes: Vec<usize>,
    /// Calls a second.
    pub calls: f64,
    /// Share of its calls whose state each of these nodes keeps; the sum is 1.
    pub kept: Vec<f64>,
}

impl Plan {
    /// Distribution of state on each path with calls. `None` if there are more than [`PATHS_MAX`](crate::PATHS_MAX)
    /// paths.
    pub fn paths(&self, topology: &Topology) -> Option<Vec<PathPlan>> {
        let paths = topology.paths()?.into_iter().map(|(visits, _)| self.path(topology, &visits));
        // Leaves out paths that free routing does not use.
        Some(paths.filter(|path| path.calls > self.load * 1e-9).collect())
    }

    fn path(&self, topology: &Topology, visits: &[usize]) -> PathPlan {
        let entry = topology.visits()[visits[0]].entry * self.load;
        let (mut open, mut kept) = (entry, Vec::<f64>::new());
        for (place, visit) in visits.iter().enumerate() {
            let to = visits.get(place + 1).copied();
            let ways = || self.ways.iter().filter(|way| way.visit == *visit);
            let total = |part: fn(&WayPlan) -> f64| ways().map(part).sum::<f64>();
            let here = |part: fn(&WayPlan) -> f64| ways().filter(|way| way.to == to).map(part).sum::<f64>();
            // The part of the calls, open or kept, that takes this link in this way.
            let of = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
            let came_open = total(|way| way.open + way.kept_here);
            let goes_on = of(here(|way| way.kept_before), total(|way| way.kept_before));
            for calls in &mut kept {
                *calls *= goes_on;
            }
            kept.push(open * of(here(|way| way.kept_here), came_open));
            open *= of(here(|way| way.open), came_open);
        }
        let calls: f64 = kept.iter().sum::<f64>() + open;
        PathPlan {
            nodes: visits.iter().map(|visit| topology.visits()[*visit].node).collect(),
            calls,
            kept: kept.iter().map(|kept| if calls > 0.0 { kept / calls } else { 0.0 }).collect(),
        }
    }
}
