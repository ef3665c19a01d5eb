//! The program against two answers found without it, on small random networks.

use plan::{Plan, PlanNode, PlannedFunction, Routing, Topology, TopologyLink, Visit, solve};
use proptest::prelude::*;

/// Visits are in order: links lead to later visits only.
fn topologies() -> impl Strategy<Value = Topology> {
    let node = (100.0..1000.0_f64, 0.3..0.98_f64);
    prop::collection::vec(node, 2..=4).prop_flat_map(|rates| {
        let count = rates.len();
        let weights = prop::collection::vec(prop::collection::vec(0_u32..3, count + 1), count);
        let entries = prop::collection::vec(0_u32..3, count);
        (Just(rates), weights, entries).prop_map(|(rates, weights, mut entries)| {
            entries[0] += 1;
            let sum: u32 = entries.iter().sum();
            let nodes = rates.iter().enumerate();
            let nodes =
                nodes.map(|(at, (rate, part))| PlanNode::new(at.to_string(), *rate, rate * part)).collect();
            let visits = weights.iter().enumerate().map(|(at, weights)| {
                // The last weight is that of the exit.
                let all: u32 = weights[at + 1..].iter().sum();
                let share = |to: usize| f64::from(weights[to]) / f64::from(all);
                let next = (at + 1..rates.len()).filter(|to| all > 0 && weights[*to] > 0);
                let next = next.map(|to| TopologyLink { to, share: share(to) }).collect();
                Visit { node: at, entry: f64::from(entries[at]) / f64::from(sum), next }
            });
            Topology::new(nodes, visits.collect(), Routing::Fixed).expect("a good network")
        })
    })
}

fn extra(node: &PlanNode) -> f64 {
    node.extra_cost(PlannedFunction::State).expect("each node keeps state")
}

/// Calls of each node at a load of 1.
fn calls(topology: &Topology, paths: &[(Vec<usize>, f64)]) -> Vec<f64> {
    let mut calls = vec![0.0; topology.nodes().len()];
    for (path, share) in paths {
        for node in path {
            calls[*node] += share;
        }
    }
    calls
}

/// With whole paths known, distributing state is a transport problem from paths to nodes. By Hall's marriage theorem a
/// load can be carried if, for each set of paths, its nodes have room for that set. Each set bounds the load by a
/// formula.
fn by_marriage(topology: &Topology) -> f64 {
    let paths = topology.paths().expect("few paths");
    let calls = calls(topology, &paths);
    let forwards = topology.nodes().iter().zip(&calls).filter(|(_, calls)| **calls > 0.0);
    let mut load = forwards.map(|(node, calls)| node.stateless / calls).fold(f64::INFINITY, f64::min);
    for set in 1_u32..1 << paths.len() {
        let chosen = || paths.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, path)| path);
        let share: f64 = chosen().map(|(_, share)| share).sum();
        let (mut room, mut taken) = (0.0, 0.0);
        for (at, node) in topology.nodes().iter().enumerate() {
            if chosen().any(|(path, _)| path.contains(&at)) {
                room += 1.0 / extra(node);
                taken += calls[at] * node.forward_cost() / extra(node);
            }
        }
        load = load.min(room / (share + taken));
    }
    load
}

/// Largest load when a node keeps `keep[visit][way]` of the calls without state on that link.
fn with_shares(topology: &Topology, keep: impl Fn(usize, Option<usize>) -> f64) -> f64 {
    let visits = topology.visits();
    let (mut all, mut open) = (vec![0.0; visits.len()], vec![0.0; visits.len()]);
    let mut busy = vec![0.0; topology.nodes().len()];
    for (at, visit) in visits.iter().enumerate() {
        let node = &topology.nodes()[visit.node];
        let (came, without) = (all[at] + visit.entry, open[at] + visit.entry);
        busy[visit.node] += came * node.forward_cost();
        for way in &visit.next {
            let kept = keep(at, Some(way.to)).clamp(0.0, 1.0);
            busy[visit.node] += without * way.share * kept * extra(node);
            all[way.to] += came * way.share;
            open[way.to] += without * way.share * (1.0 - kept);
        }
        let leaves = 1.0 - visit.next.iter().map(|way| way.share).sum::<f64>();
        busy[visit.node] += without * leaves.max(0.0) * extra(node);
    }
    1.0 / busy.into_iter().fold(0.0, f64::max)
}

fn of_plan(plan: &Plan) -> impl Fn(usize, Option<usize>) -> f64 + '_ {
    move |visit, to| {
        let way = plan.ways.iter().find(|way| way.visit == visit && way.to == to);
        way.map_or(1.0, plan::WayPlan::keep)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn with_whole_paths_known_the_load_is_that_of_the_marriage_theorem(topology in topologies()) {
        let expected = by_marriage(&topology);
        let load = solve(&topology.by_path().unwrap()).unwrap().load;
        prop_assert!((load / expected - 1.0).abs() < 1e-6, "{load}, expected {expected}");
    }

    #[test]
    fn the_shares_of_a_plan_carry_its_load_and_no_others_carry_more(
        topology in topologies(),
        tries in prop::collection::vec(prop::collection::vec(0_u8..=4, 20), 40),
    ) {
        let plan = solve(&topology).unwrap();
        let carried = with_shares(&topology, of_plan(&plan));
        prop_assert!((carried / plan.load - 1.0).abs() < 1e-4, "{carried}, planned {}", plan.load);
        for shares in &tries {
            let share = |visit: usize, to: Option<usize>| f64::from(shares[visit * 5 + to.unwrap_or(4)]) / 4.0;
            let other = with_shares(&topology, share);
            prop_assert!(other < plan.load * (1.0 + 1e-6), "{other} with {shares:?}, planned {}", plan.load);
        }
        let whole = solve(&topology.by_path().unwrap()).unwrap().load;
        prop_assert!(plan.load < whole * (1.0 + 1e-6), "{} knowing less, {whole} knowing more", plan.load);
    }

    #[test]
    fn each_path_keeps_the_state_of_each_call_once(topology in topologies()) {
        let plan = solve(&topology).unwrap();
        let paths = plan.paths(&topology).unwrap();
        let calls: f64 = paths.iter().map(|path| path.calls).sum();
        prop_assert!((calls / plan.load - 1.0).abs() < 1e-6);
        for path in paths {
            prop_assert!((path.kept.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{path:?}");
        }
    }

    #[test]
    fn free_routing_carries_no_less(topology in topologies()) {
        let visits: Vec<Visit> = topology.visits().to_vec();
        let leaves = |visit: &Visit| visit.next.iter().map(|way| way.share).sum::<f64>() < 0.999;
        prop_assume!(visits.iter().all(|visit| visit.next.is_empty() || !leaves(visit)));
        let free = Topology::new(topology.nodes().to_vec(), visits, Routing::Free).unwrap();
        let (fixed, free) = (solve(&topology).unwrap().load, solve(&free).unwrap().load);
        prop_assert!(fixed < free * (1.0 + 1e-6), "{fixed} fixed, {free} free");
    }
}
