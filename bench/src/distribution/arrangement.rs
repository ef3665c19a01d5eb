//! Networks of proxies, and the state of calls that each proxy keeps.

use plan::{Plan, PlanNode, Routing, Topology, solve};

use super::prices::{NetworkPrices, NodePrices};

/// State kept of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// Transactions.
    Transactions,
    /// Transactions, dialogs and a record.
    Dialogs,
    /// The same, and callers must authenticate, once for each call.
    Authenticated,
}

/// Next hop of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Proxy(usize),
    Answerer(usize),
}

/// A route of calls through a proxy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProxyPlace {
    /// The previous proxy; `None`: the callers.
    pub(super) from: Option<usize>,
    pub(super) next: Vec<Target>,
}

impl ProxyPlace {
    fn is_exit(&self) -> bool {
        matches!(self.next[0], Target::Answerer(_))
    }
}

/// Forwarding mode of a proxy.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Forward {
    Stateless,
    /// Keeps transactions.
    Transactions,
    /// Keeps all state.
    Stateful,
    /// Shares state, with these lines of `[distribution]`.
    Shared {
        /// Whether authentication is shared out too.
        authentication: bool,
        keys: String,
    },
    /// Keeps all state, and reports its utilisation.
    Told(&'static str),
}

impl Forward {
    pub(super) fn name(&self, kept: Kept) -> &'static str {
        match (self, kept) {
            (Self::Stateless, _) => "stateless",
            (Self::Shared { .. }, _) => "distributed",
            (Self::Told(name), _) => name,
            (Self::Transactions, _) | (Self::Stateful, Kept::Transactions) => "transaction",
            (Self::Stateful, Kept::Dialogs | Kept::Authenticated) => "dialog",
        }
    }

    pub(super) fn keys(&self) -> Option<&str> {
        match self {
            Self::Shared { keys, .. } => Some(keys),
            Self::Told(_) => Some(""),
            Self::Stateless | Self::Transactions | Self::Stateful => None,
        }
    }
}

/// A network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// This many proxies in series.
    Series(usize),
    /// One in front of two.
    Fork,
    /// Two edges that call each other through a core.
    Edges,
}

impl Shape {
    /// Returns the routes of calls through each proxy. A route without a source comes last and takes all other calls.
    pub(super) fn places(self) -> Vec<Vec<ProxyPlace>> {
        let way = |from, next: &[Target]| ProxyPlace { from, next: next.to_vec() };
        match self {
            Self::Series(length) => {
                let next = |index| {
                    if index + 1 < length { Target::Proxy(index + 1) } else { Target::Answerer(0) }
                };
                (0..length).map(|index: usize| vec![way(index.checked_sub(1), &[next(index)])]).collect()
            }
            Self::Fork => vec![
                vec![way(None, &[Target::Proxy(1), Target::Proxy(2)])],
                vec![way(Some(0), &[Target::Answerer(0)])],
                vec![way(Some(0), &[Target::Answerer(0)])],
            ],
            Self::Edges => vec![
                vec![way(Some(1), &[Target::Answerer(0)]), way(None, &[Target::Proxy(1)])],
                vec![way(Some(0), &[Target::Proxy(2)]), way(Some(2), &[Target::Proxy(0)])],
                vec![way(Some(1), &[Target::Answerer(1)]), way(None, &[Target::Proxy(1)])],
            ],
        }
    }

    /// Returns the proxies where calls enter.
    pub(super) fn entries(self) -> Vec<usize> {
        if self == Self::Edges { vec![0, 2] } else { vec![0] }
    }

    fn paths(self) -> Vec<(Vec<usize>, f64)> {
        match self {
            Self::Series(length) => vec![((0..length).collect(), 1.0)],
            Self::Fork => vec![(vec![0, 1], 0.5), (vec![0, 2], 0.5)],
            Self::Edges => vec![(vec![0, 1, 2], 0.5), (vec![2, 1, 0], 0.5)],
        }
    }

    fn proxies(self) -> usize {
        if let Self::Series(length) = self { length } else { 3 }
    }

    /// Returns the network's capacity, and the share of state that each proxy then keeps. `prices` are those of the
    /// entry and of the proxies behind it.
    pub(super) fn plan(self, prices: &[NodePrices; 2]) -> Plan {
        self.plan_with(prices, 0.0, 0.0)
    }

    /// Returns the calls carried of this many calls/s, if entries spend time on refusals.
    pub(super) fn carried(self, prices: &NetworkPrices, offered: f64) -> f64 {
        let plan = self.plan(&prices.nodes).load;
        // Unknown if refusals take all the time of an entry, or cost as much as forwarding.
        if offered >= prices.refusals || prices.refusals <= prices.nodes[0].stateless {
            return f64::NAN;
        }
        if offered <= plan {
            offered
        } else {
            self.plan_with(&prices.nodes, 1.0 / prices.refusals, offered).load
        }
    }

    /// An entry that is offered X calls/s and accepts L spends `refusal` seconds on X - L of them. It behaves like a
    /// proxy that loses `refusal * X` of its time, and forwards each accepted call for that much less.
    fn plan_with(self, prices: &[NodePrices; 2], refusal: f64, offered: f64) -> Plan {
        let (entries, paths) = (self.entries(), self.paths());
        let node = |index: usize| {
            let is_entry = entries.contains(&index);
            let NodePrices { stateless, stateful } = prices[usize::from(!is_entry)];
            let share = |passes: &dyn Fn(&[usize]) -> bool| -> f64 {
                paths.iter().filter(|(path, _)| passes(path)).map(|(_, share)| share).sum()
            };
            let own = share(&|path| path[0] == index);
            let saved = refusal * own / share(&|path| path.contains(&index));
            let time = 1.0 - refusal * own * offered;
            let [without, with] =
                [stateless, stateful.min(stateless)].map(|rate| time / (1.0 / rate - saved));
            PlanNode::new("", without, with)
        };
        let nodes = (0..self.proxies()).map(node).collect();
        let topology =
            Topology::of_paths(nodes, &self.paths(), Routing::Fixed).expect("paths of these proxies");
        solve(&topology).expect("each proxy may keep all")
    }
}

/// Distribution of state in a network.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Arrangement {
    /// Every proxy keeps all state.
    Every,
    /// The proxy where a call enters keeps it.
    Entry,
    /// The proxy where a call leaves keeps it.
    Exit,
    /// The proxy where a call enters authenticates the caller, the one where it leaves keeps the call.
    Split,
    /// Each keeps this fixed share of the calls without state.
    Fixed(f64),
    /// Each finds its share of calls by the law `level`, and the first one authenticates.
    Calls,
    /// Each finds its share by this law with further lines.
    Law(&'static str, String),
}

impl Arrangement {
    /// Returns true if a proxy authenticates callers, where any does. If all keep state, the first one does.
    pub(super) fn asks(&self, place: &ProxyPlace) -> bool {
        match self {
            Self::Every | Self::Entry | Self::Split | Self::Calls => place.from.is_none(),
            Self::Exit => place.is_exit(),
            Self::Fixed(_) | Self::Law(..) => true,
        }
    }

    pub(super) fn forward(&self, place: &ProxyPlace) -> Forward {
        let stateful = |keeps: bool| if keeps { Forward::Stateful } else { Forward::Stateless };
        let shared = |authentication, keys: String| Forward::Shared { authentication, keys };
        match self {
            Self::Every => Forward::Stateful,
            Self::Entry => stateful(place.from.is_none()),
            Self::Exit => stateful(place.is_exit()),
            Self::Split if place.is_exit() => Forward::Stateful,
            Self::Split => Forward::Transactions,
            Self::Fixed(keep) => shared(true, format!("law = \"fixed\"\nkeep = {keep:.3}")),
            Self::Calls => shared(false, String::new()),
            Self::Law(law, keys) => shared(true, format!("law = \"{law}\"\n{keys}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EQUAL: [NodePrices; 2] = [NodePrices { stateless: 1_000.0, stateful: 800.0 }; 2];

    #[test]
    fn plans_know_the_ways_of_calls() {
        let load = |shape: Shape| shape.plan(&EQUAL).load.round() as u64;
        // Between both costs a series of two keeps half at each; behind a fork there is room for all of it.
        assert_eq!([load(Shape::Series(2)), load(Shape::Fork)], [889, 1_000]);
        assert_eq!(load(Shape::Edges), load(Shape::Series(3)));
    }

    #[test]
    fn an_edge_is_the_entry_of_its_callers_alone() {
        let keepers = |arrangement: &Arrangement| -> Vec<Vec<bool>> {
            let keeps = |place: &ProxyPlace| arrangement.forward(place) == Forward::Stateful;
            Shape::Edges.places().iter().map(|ways| ways.iter().map(keeps).collect()).collect()
        };
        assert_eq!(keepers(&Arrangement::Entry), [[false, true], [false, false], [false, true]]);
        assert_eq!(keepers(&Arrangement::Exit), [[true, false], [false, false], [true, false]]);
    }
}
