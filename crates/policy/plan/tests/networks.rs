//! The program on networks with a known answer: the paper's, forks, joins, different nodes.

use plan::{
    PlanError, PlanNode, PlannedFunction, Routing, StateRule, Topology, TopologyError, TopologyLink, Visit,
    solve, solve_with,
};
use proptest::prelude::*;

/// The paper's server (section 2.2): 5700 calls/s without state, 4700 with.
fn server(name: &str) -> PlanNode {
    PlanNode::new(name, 5700.0, 4700.0)
}

fn servers(count: usize) -> Vec<PlanNode> {
    (0..count).map(|index| server(&format!("S{}", index + 1))).collect()
}

fn in_series(nodes: Vec<PlanNode>) -> Topology {
    let path = (0..nodes.len()).collect();
    Topology::of_paths(nodes, &[(path, 1.0)], Routing::Fixed).expect("a good network")
}

/// One visit per node, with the nodes that get its calls and their shares.
fn graph(nodes: Vec<PlanNode>, entries: &[f64], next: &[&[(usize, f64)]], routing: Routing) -> Topology {
    let ways = |next: &[(usize, f64)]| next.iter().map(|&(to, share)| TopologyLink { to, share }).collect();
    let visits = entries.iter().zip(next).enumerate();
    let visits = visits.map(|(node, (entry, next))| Visit { node, entry: *entry, next: ways(next) });
    Topology::new(nodes, visits.collect(), routing).expect("a good network")
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 0.01, "{value}, expected {expected}");
}

#[test]
fn servers_in_series_carry_the_load_of_the_paper() {
    for (count, load) in [(1, 4700.0), (2, 5151.92), (3, 5322.52), (4, 5412.12)] {
        let plan = solve(&in_series(servers(count))).unwrap();
        near(plan.load, load);
        near(plan.load, closed_form(&servers(count)).unwrap());
        for node in &plan.nodes {
            near(node.kept, load / count as f64);
            near(node.calls, load);
            assert!(node.bottleneck);
        }
    }
}

/// Largest load, in calls a second, of nodes in series when each call's state is kept at one of them. `None` without
/// nodes, or if one of them never keeps state.
///
/// With `f_i` the cost of forwarding and `x_i` the extra cost of state, a load t leaves node i room for `(1 - f_i t) /
/// x_i` calls with state. Together they must keep t (equation 5 of the paper):
///
/// `t = sum(1 / x_i) / (1 + sum(f_i / x_i))`, and at most the smallest `1 / f_i`.
fn closed_form(nodes: &[PlanNode]) -> Option<f64> {
    let forwards = nodes.iter().map(|node| node.stateless).reduce(f64::min)?;
    let (mut room, mut taken) = (0.0, 0.0);
    for node in nodes {
        let extra = node.extra_cost(PlannedFunction::State)?;
        room += 1.0 / extra;
        taken += node.forward_cost() / extra;
    }
    // If state costs nothing, room is infinite, and only forwarding counts.
    Some(if room.is_finite() { forwards.min(room / (1.0 + taken)) } else { forwards })
}

proptest! {
    #[test]
    fn a_series_of_unlike_nodes_has_the_closed_form(
        rates in prop::collection::vec((100.0..10_000.0_f64, 0.2..1.0_f64), 1..6),
    ) {
        let nodes: Vec<_> = rates.iter().map(|(rate, part)| PlanNode::new("", *rate, rate * part)).collect();
        let expected = closed_form(&nodes).unwrap();
        let load = solve(&in_series(nodes)).unwrap().load;
        prop_assert!((load / expected - 1.0).abs() < 1e-6, "{load}, expected {expected}");
    }
}

#[test]
fn a_fixed_rule_is_limited_by_its_slowest_server() {
    let topology = in_series(servers(2));
    let load = |rule| solve_with(&topology, rule).unwrap().load;
    near(load(StateRule::All), 4700.0);
    near(load(StateRule::First), 4700.0);
    near(load(StateRule::Last), 4700.0);
    near(load(StateRule::ForwardOnly), 5700.0);
}

#[test]
fn with_a_fixed_rule_other_servers_have_room_left() {
    let plan = solve_with(&in_series(servers(2)), StateRule::Last).unwrap();
    assert!(!plan.nodes[0].bottleneck && plan.nodes[1].bottleneck);
    near(plan.nodes[0].utilisation, 4700.0 / 5700.0);
    near(plan.nodes[0].kept, 0.0);
    near(plan.nodes[1].kept, 4700.0);
    let all = solve_with(&in_series(servers(2)), StateRule::All).unwrap();
    near(all.nodes[0].kept, 4700.0);
}

#[test]
fn a_fork_is_limited_by_its_slower_branch() {
    // S1 sends half of its calls to S2 and half to S3. S2 is slow: it forwards 2000 and keeps 1000.
    let nodes = vec![server("S1"), PlanNode::new("S2", 2000.0, 1000.0), server("S3")];
    let topology = graph(nodes, &[1.0, 0.0, 0.0], &[&[(1, 0.5), (2, 0.5)], &[], &[]], Routing::Fixed);
    let plan = solve(&topology).unwrap();
    // S2 is full with calls whose state S1 keeps: 4000 in all. S1 then has a load of 4000/5700 + 2000 * 3.7e-5 = 0.78.
    near(plan.load, 4000.0);
    near(plan.nodes[1].kept, 0.0);
    assert!(plan.nodes[1].bottleneck && !plan.nodes[0].bottleneck && !plan.nodes[2].bottleneck);
    // All state of S2's branch is kept before S2.
    let way = plan.ways.iter().find(|way| (way.visit, way.to) == (0, Some(1))).unwrap();
    near(way.keep(), 1.0);
}

#[test]
fn equation_5_alone_would_promise_more_than_a_fork_can_keep() {
    // Behind S1, which keeps no state, S2 can keep 1000 a second and S3 many. In total that is enough for 2 * 5000, but
    // S3 cannot keep the state of calls on S2's branch.
    let first = PlanNode { stateful: None, ..PlanNode::new("S1", 20_000.0, 1.0) };
    let nodes = vec![first, PlanNode::new("S2", 6000.0, 1000.0), PlanNode::new("S3", 50_000.0, 40_000.0)];
    let topology = graph(nodes, &[1.0, 0.0, 0.0], &[&[(1, 0.5), (2, 0.5)], &[], &[]], Routing::Fixed);
    near(solve(&topology).unwrap().load, 2000.0);
}

#[test]
fn free_routing_sends_calls_where_there_is_room() {
    let nodes = vec![server("S1"), PlanNode::new("S2", 2000.0, 1000.0), PlanNode::new("S3", 3000.0, 2500.0)];
    let next: &[&[(usize, f64)]] = &[&[(1, 0.5), (2, 0.5)], &[], &[]];
    let fixed = solve(&graph(nodes.clone(), &[1.0, 0.0, 0.0], next, Routing::Fixed)).unwrap();
    near(fixed.load, 4000.0);
    let free = solve(&graph(nodes, &[1.0, 0.0, 0.0], next, Routing::Free)).unwrap();
    // S2 and S3 forward at most 5000. S1 can then keep (1 - 5000/5700) / 3.73e-5 = 3290, and S2 and S3 the rest: the
    // load is where all three are full.
    assert!(free.load > 4500.0 && free.load < 5000.0, "{}", free.load);
    assert!(free.nodes.iter().all(|node| node.bottleneck));
    near(free.nodes.iter().map(|node| node.kept).sum::<f64>(), free.load);
}

#[test]
fn two_entries_share_a_core() {
    // Two edges of 3000 and 1000 calls/s before a core of 4200: each keeps as much as forwarding leaves room for, which
    // is (6000 - 1.5 t) + (4000 - t) + (21000 - 5 t) = t.
    let nodes = vec![
        PlanNode::new("A", 3000.0, 2000.0),
        PlanNode::new("B", 1000.0, 800.0),
        PlanNode::new("core", 4200.0, 3500.0),
    ];
    let next: &[&[(usize, f64)]] = &[&[(2, 1.0)], &[(2, 1.0)], &[]];
    let plan = solve(&graph(nodes, &[0.75, 0.25, 0.0], next, Routing::Fixed)).unwrap();
    near(plan.load, 31_000.0 / 8.5);
    near(plan.nodes[0].kept, 6000.0 - 1.5 * plan.load);
    near(plan.nodes[1].kept, 4000.0 - plan.load);
    near(plan.nodes[2].kept, 21_000.0 - 5.0 * plan.load);
}

/// A calls B's users and B calls A's: A and B have no order.
#[test]
fn edge_core_edge_without_an_order() {
    let paths = [(vec![0, 2, 1], 0.5), (vec![1, 2, 0], 0.5)];
    let plan = solve(&Topology::of_paths(servers(3), &paths, Routing::Fixed).unwrap()).unwrap();
    // Each call passes all three, as in a series of three.
    near(plan.load, 5322.52);
    let topology = Topology::of_paths(servers(3), &paths, Routing::Fixed).unwrap();
    for path in plan.paths(&topology).unwrap() {
        near(path.calls, plan.load / 2.0);
        near(path.kept.iter().sum::<f64>(), 1.0);
    }
}

#[test]
fn a_path_names_the_nodes_that_keep_its_state() {
    let nodes = vec![server("S1"), PlanNode::new("S2", 2000.0, 1000.0), server("S3")];
    let topology = graph(nodes, &[1.0, 0.0, 0.0], &[&[(1, 0.5), (2, 0.5)], &[], &[]], Routing::Fixed);
    let paths = solve(&topology).unwrap().paths(&topology).unwrap();
    assert_eq!(paths.len(), 2);
    assert_eq!(paths[0].nodes, [0, 1]);
    near(paths[0].kept[0], 1.0);
    near(paths[0].kept[1], 0.0);
    near(paths[1].kept.iter().sum::<f64>(), 1.0);
}

/// S2 can keep no more state, nor can S3 behind it, but S4 could. With knowledge of the whole path, only the state of
/// S3's calls is kept at S1.
#[test]
fn knowing_whole_paths_can_increase_the_load() {
    let nodes = vec![
        server("S1"),
        PlanNode { stateful: None, ..server("S2") },
        PlanNode { stateful: None, ..server("S3") },
        server("S4"),
    ];
    let next: &[&[(usize, f64)]] = &[&[(1, 1.0)], &[(2, 0.5), (3, 0.5)], &[], &[]];
    let topology = graph(nodes, &[1.0, 0.0, 0.0, 0.0], next, Routing::Fixed);
    let next_hop = solve(&topology).unwrap().load;
    let whole = solve(&topology.by_path().unwrap()).unwrap().load;
    near(next_hop, 4700.0);
    // S1 keeps a half: 1 / (1/5700 + 0.5 * (1/4700 - 1/5700)).
    near(whole, 5151.92);
}

#[test]
fn some_calls_leave_before_the_last_node() {
    // A third leaves at S1, so S2 has less to do.
    let topology = graph(servers(2), &[1.0, 0.0], &[&[(1, 2.0 / 3.0)], &[]], Routing::Fixed);
    let plan = solve(&topology).unwrap();
    near(plan.nodes[1].calls, plan.load * 2.0 / 3.0);
    let kept: f64 = plan.nodes.iter().map(|node| node.kept).sum();
    near(kept, plan.load);
    assert!(plan.nodes[0].kept >= plan.load / 3.0 - 0.01);
    near(plan.nodes[0].utilisation, 1.0);
}

#[test]
fn authentication_is_shared_out_with_state() {
    let node = |name: &str| PlanNode { authenticating: Some(3000.0), ..server(name) };
    let topology = in_series(vec![node("S1"), node("S2")]).authenticated();
    let plan = solve(&topology).unwrap();
    // A call costs two forwardings, and state and authentication once: 2 / (2/5700 + (1/4700 - 1/5700) + (1/3000 -
    // 1/5700)).
    let cost = 2.0 / 5700.0 + (1.0 / 4700.0 - 1.0 / 5700.0) + (1.0 / 3000.0 - 1.0 / 5700.0);
    near(plan.load, 2.0 / cost);
    near(plan.nodes.iter().map(|node| node.authenticated).sum::<f64>(), plan.load);
    near(plan.nodes.iter().map(|node| node.kept).sum::<f64>(), plan.load);
    // Free routing gives the same program: a series leaves no choice.
    let both = [(vec![0, 1], 1.0)];
    let free = Topology::of_paths(vec![node("S1"), node("S2")], &both, Routing::Free).unwrap();
    near(solve(&free.authenticated()).unwrap().load, plan.load);
    let all = solve_with(&topology, StateRule::All).unwrap();
    near(all.nodes[1].authenticated, all.load);
}

#[test]
fn a_plan_for_less_has_the_same_shares() {
    let plan = solve(&in_series(servers(2))).unwrap().at(2575.96);
    near(plan.nodes[0].utilisation, 0.5);
    near(plan.nodes[0].kept, 1287.98);
}

#[test]
fn a_missing_function_is_reported() {
    let none = vec![PlanNode { stateful: None, ..server("S1") }];
    assert_eq!(solve(&in_series(none)), Err(PlanError::MissingFunction(PlannedFunction::State)));
    let state = in_series(servers(2)).authenticated();
    assert_eq!(solve(&state), Err(PlanError::MissingFunction(PlannedFunction::Authentication)));
    let last = in_series(vec![server("S1"), PlanNode { stateful: None, ..server("S2") }]);
    assert_eq!(solve_with(&last, StateRule::Last), Err(PlanError::MissingFunction(PlannedFunction::State)));
}

#[test]
fn state_without_cost_does_not_limit_the_load() {
    let nodes = vec![PlanNode::new("S1", 100.0, 100.0), PlanNode::new("S2", 50.0, 40.0)];
    near(solve(&in_series(nodes.clone())).unwrap().load, 50.0);
    near(closed_form(&nodes).unwrap(), 50.0);
}

/// A slow node beside one that is six orders of magnitude faster.
#[test]
fn a_slow_node_is_not_lost_in_rounding() {
    let nodes = vec![PlanNode::new("fast", 1e6, 9e5), PlanNode::new("slow", 1.0, 0.5)];
    near(solve(&in_series(nodes)).unwrap().load, 1.0);
    let nodes =
        vec![PlanNode { stateful: None, ..PlanNode::new("fast", 1e6, 1.0) }, PlanNode::new("slow", 1.0, 0.5)];
    near(solve(&in_series(nodes)).unwrap().load, 0.5);
}

#[test]
fn impossible_networks_are_refused() {
    let one = |node| Topology::of_paths(vec![node], &[(vec![0], 1.0)], Routing::Fixed).unwrap_err();
    for node in
        [PlanNode::new("a", 100.0, 101.0), PlanNode::new("a", f64::NAN, 1.0), PlanNode::new("a", 1.0, 0.0)]
    {
        assert_eq!(one(node), TopologyError::Rate(0));
    }
    let visit = |entry, next: &[(usize, f64)]| Visit {
        node: 0,
        entry,
        next: next.iter().map(|&(to, share)| TopologyLink { to, share }).collect(),
    };
    let new = |visits, routing| Topology::new(servers(1), visits, routing).unwrap_err();
    assert_eq!(new(vec![], Routing::Fixed), TopologyError::Empty);
    assert_eq!(new(vec![visit(0.5, &[])], Routing::Fixed), TopologyError::Entries(0.5));
    assert_eq!(new(vec![visit(1.0, &[(1, 1.0)])], Routing::Fixed), TopologyError::Absent(0));
    assert_eq!(new(vec![visit(1.0, &[(0, 1.1)])], Routing::Fixed), TopologyError::Share(0));
    assert_eq!(new(vec![visit(1.0, &[(0, 1.0)])], Routing::Fixed), TopologyError::Circle(0));
    let leaves = vec![visit(1.0, &[(1, 0.5)]), visit(0.0, &[])];
    assert_eq!(new(leaves, Routing::Free), TopologyError::Leaves(0));
}

/// Ten layers of ten nodes, each with three links: 100 different nodes, 270 edges.
#[test]
fn a_hundred_nodes_are_solved() {
    for routing in [Routing::Fixed, Routing::Free] {
        let rate = |index: usize| 1000.0 + (index * 7919 % 1000) as f64;
        let nodes = (0..100).map(|index| PlanNode::new(format!("n{index}"), rate(index), rate(index) * 0.8));
        let visits = (0..100).map(|index| {
            let (layer, place) = (index / 10, index % 10);
            let ways = (0..3)
                .map(|way| TopologyLink { to: (layer + 1) * 10 + (place + way * 3) % 10, share: 1.0 / 3.0 });
            let next = if layer < 9 { ways.collect() } else { Vec::new() };
            Visit { node: index, entry: if layer == 0 { 0.1 } else { 0.0 }, next }
        });
        let topology = Topology::new(nodes.collect(), visits.collect(), routing).unwrap();
        let plan = solve(&topology).unwrap();
        let kept: f64 = plan.nodes.iter().map(|node| node.kept).sum();
        assert!((kept / plan.load - 1.0).abs() < 1e-6, "{kept} of {}", plan.load);
        assert!(plan.nodes.iter().all(|node| node.utilisation < 1.0 + 1e-6));
        assert!(plan.nodes.iter().any(|node| node.bottleneck));
        // Free or not, ten layers of ten nodes carry no more than ten nodes forward.
        assert!(plan.load > 5000.0 && plan.load < 16_000.0, "{}", plan.load);
        assert!(topology.by_path().is_none(), "there are too many paths to list");
        assert_eq!(solve(&topology).unwrap(), plan, "the same plan again");
    }
}
