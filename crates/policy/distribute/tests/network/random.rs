//! Random networks of proxies, with and without an order: lost notices, restarts, retransmissions, any utilisations in
//! any order.

use super::model::{Cost, Network, salt};
use distribute::{AGE, DistributionSettings, Distributor, ShareLaw};
use plan::{PlanNode, Routing, Topology, TopologyLink, Visit, solve};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Periods after which no earlier information counts: notices have expired, and forwarded values have aged.
const FORGOTTEN: usize = (1.0 / AGE) as usize + 5;

/// An event in a period of a random run.
#[derive(Debug, Clone)]
enum Step {
    /// New calls, by path, and whether each is retransmitted.
    Calls(Vec<(usize, bool)>),
    /// The end of a period with these utilisations, and these notices lost.
    End(Vec<f64>, Vec<bool>),
    /// A node restarts and loses its state.
    Restart(usize),
    /// An earlier call is retransmitted.
    Again(usize),
}

const NODES: usize = 5;

fn settings() -> impl Strategy<Value = DistributionSettings> {
    let law = prop_oneof![Just(ShareLaw::Paper), Just(ShareLaw::Level)];
    (law, 1.0..20.0_f64).prop_map(|(law, delta_c)| DistributionSettings {
        law,
        delta_c,
        ..DistributionSettings::default()
    })
}

/// Paths of one to four different nodes in any order: series, forks, joins, edges that call each other, rings.
fn paths() -> impl Strategy<Value = Vec<(Vec<usize>, f64)>> {
    let path = (Just((0..NODES).collect::<Vec<_>>()).prop_shuffle(), 1..=4_usize);
    let path = path.prop_map(|(mut nodes, length)| {
        nodes.truncate(length);
        nodes
    });
    prop::collection::vec(path, 1..6).prop_map(|paths| {
        let share = 1.0 / paths.len() as f64;
        paths.into_iter().map(|path| (path, share)).collect()
    })
}

/// Calls a second without state, and the part of them that a node carries with state.
fn rates() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((400.0..1500.0_f64, 0.5..0.95_f64), NODES)
}

fn costs(rates: &[(f64, f64)]) -> Vec<Cost> {
    let cost =
        |(rate, part): &(f64, f64)| Cost { forward: 1.0 / rate, state: 1.0 / (rate * part) - 1.0 / rate };
    rates.iter().map(cost).collect()
}

fn rate(node: &PlanNode) -> (f64, f64) {
    (node.stateless, node.stateful.map_or(0.0, |stateful| stateful / node.stateless))
}

/// Networks in which calls go from a node to random later ones, and leave anywhere: the path of a call is not known in
/// advance.
fn topologies() -> impl Strategy<Value = Topology> {
    let weights = prop::collection::vec(prop::collection::vec(0_u32..3, NODES + 1), NODES);
    let entries = (1_u32..3, prop::collection::vec(0_u32..3, NODES - 1));
    (rates(), weights, entries).prop_map(|(rates, weights, (first, others))| {
        let entries: Vec<u32> = std::iter::once(first).chain(others).collect();
        let visits = weights.iter().enumerate().map(|(node, weights)| {
            // The last weight is that of the exit.
            let all: u32 = weights[node + 1..].iter().sum();
            let next = (node + 1..NODES).filter(|to| weights[*to] > 0);
            let next =
                next.map(|to| TopologyLink { to, share: f64::from(weights[to]) / f64::from(all) }).collect();
            Visit { node, entry: f64::from(entries[node]) / f64::from(entries.iter().sum::<u32>()), next }
        });
        let nodes = rates.iter().map(|(rate, part)| PlanNode::new("", *rate, rate * part));
        Topology::new(nodes.collect(), visits.collect(), Routing::Fixed).expect("a good network")
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let calls = prop::collection::vec((0..6_usize, any::<bool>()), 1..40).prop_map(Step::Calls);
    let busy = prop::collection::vec(prop_oneof![Just(0.0), Just(1.0), 0.7..1.0_f64], NODES);
    let end = (busy, prop::collection::vec(prop::bool::weighted(0.2), NODES * NODES));
    let end = end.prop_map(|(busy, lost)| Step::End(busy, lost));
    let restart = (0..NODES).prop_map(Step::Restart);
    let again = (0..200_usize).prop_map(Step::Again);
    prop::collection::vec(prop_oneof![6 => calls, 6 => end, 1 => restart, 4 => again], 1..120)
}

fn network(paths: Vec<(Vec<usize>, f64)>, settings: DistributionSettings) -> Network {
    Network::new(vec![Cost { forward: 0.001, state: 0.0003 }; NODES], paths, settings)
}

/// Sends a copy of a call along its path, up to the node that keeps its state and absorbs it.
fn send_again(network: &mut Network, path: usize, key: u64, keeper: usize) {
    let whole = network.paths[path].0.clone();
    network.paths[path].0.truncate(keeper + 1);
    // With the path cut there, the keeper is the exit, which keeps the state.
    assert_eq!(network.walk(path, key), [keeper], "no other node keeps the state of a copy");
    network.paths[path].0 = whole;
}

proptest! {
    // The nightly step runs a release build.
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 300 }))]

    /// For any notices, losses and restarts: the state of each call is kept at one node of its path. Without restarts,
    /// a copy of the call finds it there.
    #[test]
    fn state_is_kept_exactly_once(paths in paths(), settings in settings(), steps in steps()) {
        let mut network = network(paths, settings);
        let mut past: Vec<(usize, u64, usize)> = Vec::new();
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Calls(calls) => {
                    for (path, again) in calls {
                        let (path, key) = (path % network.paths.len(), network.key());
                        let keepers = network.walk(path, key);
                        prop_assert_eq!(keepers.len(), 1);
                        past.push((path, key, keepers[0]));
                        if again {
                            send_again(&mut network, path, key, keepers[0]);
                        }
                    }
                }
                Step::End(busy, lost) => network.end(&busy, |teller, told| !lost[teller * NODES + told]),
                Step::Restart(node) => {
                    network.nodes[node] = Distributor::new(settings, salt(node as u64, at as u64 + 1));
                    past.clear();
                }
                Step::Again(which) => {
                    if let Some((path, key, keeper)) = past.get(which % past.len().max(1)).copied() {
                        send_again(&mut network, path, key, keeper);
                    }
                }
            }
        }
    }

    /// After the load is gone, no node is throttled, whatever was reported before and whether or not calls still come.
    #[test]
    fn nothing_is_throttled_for_ever(
        paths in paths(),
        settings in settings(),
        steps in steps(),
        calls in 0..3_usize,
        lossy in any::<bool>(),
    ) {
        let mut network = network(paths, settings);
        for step in steps {
            match step {
                Step::Calls(calls) => calls.into_iter().for_each(|(path, _)| {
                    let (path, key) = (path % network.paths.len(), network.key());
                    network.walk(path, key);
                }),
                Step::End(busy, lost) => network.end(&busy, |teller, told| !lost[teller * NODES + told]),
                Step::Restart(node) => network.nodes[node] = Distributor::new(settings, 7),
                Step::Again(_) => {}
            }
        }
        for period in 0..FORGOTTEN {
            for _ in 0..calls {
                let (path, key) = (period % network.paths.len(), network.key());
                network.walk(path, key);
            }
            network.end(&[0.1; NODES], |_, _| !lossy || period % 2 == 0);
        }
        for node in &network.nodes {
            prop_assert!(!node.notice(None).throttled);
            let upstream: Vec<usize> = node.upstream().collect();
            for neighbour in upstream {
                prop_assert!(!node.notice(Some(neighbour)).throttled);
            }
        }
        // Later calls are kept where they enter.
        (0..FORGOTTEN * 10).for_each(|_| {
            (0..network.paths.len()).for_each(|path| {
                let key = network.key();
                network.walk(path, key);
            });
            network.end(&[0.1; NODES], |_, _| true);
        });
        for path in 0..network.paths.len() {
            let key = network.key();
            prop_assert_eq!(network.walk(path, key), [0]);
        }
    }

    /// Vanished room is not reported for ever, even if calls go round in a ring: when all nodes are full, all entries
    /// learn it.
    #[test]
    fn there_is_no_phantom_room(paths in paths(), settings in settings(), before in 0.0..0.85_f64) {
        let mut network = network(paths, settings);
        for busy in [before, 0.97] {
            for _ in 0..FORGOTTEN {
                (0..network.paths.len()).for_each(|path| {
                    let key = network.key();
                    network.walk(path, key);
                });
                network.end(&[busy; NODES], |_, _| true);
            }
        }
        for (path, _) in &network.paths {
            prop_assert!(network.nodes[path[0]].notice(None).throttled, "the entry of {path:?}");
        }
    }

    /// As long as a node on the path of an entry's calls has room, the clients of the entry are not throttled. Work and
    /// load are simulated.
    #[test]
    fn no_client_is_throttled_while_a_node_of_its_path_has_room(
        paths in paths(),
        rates in rates(),
        settings in settings(),
        load in 100.0..1500.0_f64,
    ) {
        let mut network = Network::new(costs(&rates), paths, settings);
        (0..40).for_each(|_| drop(network.period(load)));
        let mut busy = vec![0.0_f64; NODES];
        for _ in 0..FORGOTTEN {
            let outcome = network.period(load);
            busy.iter_mut().zip(&outcome.demand).for_each(|(most, demand)| *most = most.max(*demand));
        }
        // A value reported over three hops counts as slightly busier.
        let room = settings.low - 3.0 * AGE;
        let mut has_room: BTreeMap<usize, bool> = BTreeMap::new();
        for (path, _) in &network.paths {
            *has_room.entry(path[0]).or_default() |= path.iter().any(|node| busy[*node] < room);
        }
        for (entry, _) in has_room.into_iter().filter(|(_, has_room)| *has_room) {
            prop_assert!(!network.nodes[entry].notice(None).throttled, "node {entry}, demands {busy:?}");
        }
    }

    /// At least 95 % of the linear program's load is carried, apart from chance, for any forks and joins. The program
    /// knows all costs; the nodes differ, but all are configured with the same cost of state.
    #[test]
    fn levelling_is_near_the_optimum_of_any_network(topology in topologies()) {
        let load = solve(&topology).expect("a plan").load * 0.95;
        let rates: Vec<_> = topology.nodes().iter().map(rate).collect();
        let paths = topology.paths().expect("few paths");
        let mut network = Network::new(costs(&rates), paths, DistributionSettings::default());
        (0..80).for_each(|_| drop(network.period(load)));
        let lost = (0..20).map(|_| network.period(load).lost).sum::<f64>() / 20.0;
        prop_assert!(lost < 0.02, "{lost} lost");
    }
}
