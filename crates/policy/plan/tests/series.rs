//! The closed form of a series against the program.

use plan::{Node, Routing, Topology, series, solve};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_series_of_unlike_nodes_has_the_closed_form(
        rates in prop::collection::vec((100.0..10_000.0_f64, 0.2..1.0_f64), 1..6),
    ) {
        let nodes: Vec<_> = rates.iter().map(|(rate, part)| Node::new("", *rate, rate * part)).collect();
        let expected = series(&nodes).unwrap();
        let path = [((0..nodes.len()).collect(), 1.0)];
        let load = solve(&Topology::of_paths(nodes, &path, Routing::Fixed).unwrap()).unwrap().load;
        prop_assert!((load / expected - 1.0).abs() < 1e-6, "{load}, expected {expected}");
    }
}

#[test]
fn no_node_carries_nothing() {
    assert_eq!(series(&[]), None);
}
