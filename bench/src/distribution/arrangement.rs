//! Networks of proxies, and who keeps what of a call in them.

use plan::{Node, Plan, Routing, Topology, solve};

use super::prices::NodePrices;

/// What is kept of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Its transactions.
    Transactions,
    /// Transactions, dialogs and a record.
    Dialogs,
    /// The same, and whoever keeps it asks for a password. It is a price: no arrangement shares it out.
    Authenticated,
}

/// Where calls go on to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Proxy(usize),
    Answerer(usize),
}

/// A way of calls through a proxy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProxyPlace {
    /// The proxy that calls come from; `None`: callers.
    pub(super) from: Option<usize>,
    pub(super) next: Vec<Target>,
}

impl ProxyPlace {
    fn is_exit(&self) -> bool {
        matches!(self.next[0], Target::Answerer(_))
    }
}

/// How a proxy forwards.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Forward {
    Stateless,
    /// Keeps all.
    Stateful,
    /// Finds what it keeps, with these lines of `[distribution]`.
    Shared(String),
    /// Keeps all and says how busy it is, with these lines of `[distribution]`.
    Told(&'static str, String),
}

impl Forward {
    pub(super) fn name(&self, kept: Kept) -> &'static str {
        match (self, kept) {
            (Self::Stateless, _) => "stateless",
            (Self::Shared(_), _) => "distributed",
            (Self::Told(name, _), _) => name,
            (Self::Stateful, Kept::Transactions) => "transaction",
            (Self::Stateful, Kept::Dialogs | Kept::Authenticated) => "dialog",
        }
    }

    pub(super) fn keys(&self) -> Option<&str> {
        match self {
            Self::Shared(keys) | Self::Told(_, keys) => Some(keys),
            Self::Stateless | Self::Stateful => None,
        }
    }

    pub(super) fn authenticates(&self, kept: Kept) -> bool {
        kept == Kept::Authenticated && *self != Self::Stateless
    }
}

/// A network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// So many proxies, one after the other.
    Series(usize),
    /// One before two.
    Fork,
    /// Two edges that call each other through a core.
    Edges,
}

impl Shape {
    /// The ways of calls through each proxy. One without a source is the last: it takes what no other takes.
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

    /// The proxies that calls enter at.
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

    /// What it carries at most, and who keeps how much then. `prices` are those of the entry and of what stands
    /// behind it.
    pub(super) fn plan(self, prices: &[NodePrices; 2]) -> Plan {
        let entries = self.entries();
        let node = |index: usize| {
            let NodePrices { stateless, stateful } = prices[usize::from(!entries.contains(&index))];
            Node::new("", stateless, stateful.min(stateless))
        };
        let nodes = (0..self.proxies()).map(node).collect();
        let topology =
            Topology::of_paths(nodes, &self.paths(), Routing::Fixed).expect("paths of these proxies");
        solve(&topology).expect("each proxy may keep all")
    }

    /// The share that the first proxy keeps by the plan.
    pub fn keep(self, prices: &[NodePrices; 2]) -> f64 {
        self.plan(prices).ways.first().map_or(1.0, plan::WayPlan::keep)
    }
}

/// Who keeps what, in a network.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Arrangement {
    /// Every proxy keeps all.
    Every,
    /// The proxy where a call enters keeps it.
    Entry,
    /// The proxy where a call leaves keeps it.
    Exit,
    /// Each keeps this share of what comes open, by hand.
    Fixed(f64),
    /// Each finds its share, by the law and with further lines.
    Law(&'static str, String),
}

impl Arrangement {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Every => "every proxy".to_owned(),
            Self::Entry => "the first".to_owned(),
            Self::Exit => "the last".to_owned(),
            Self::Fixed(_) => "by the plan, fixed".to_owned(),
            Self::Law(law, _) => format!("law {law}"),
        }
    }

    pub(super) fn forward(&self, place: &ProxyPlace) -> Forward {
        let stateful = |keeps: bool| if keeps { Forward::Stateful } else { Forward::Stateless };
        match self {
            Self::Every => Forward::Stateful,
            Self::Entry => stateful(place.from.is_none()),
            Self::Exit => stateful(place.is_exit()),
            Self::Fixed(keep) => Forward::Shared(format!("law = \"fixed\"\nkeep = {keep:.3}")),
            Self::Law(law, keys) => Forward::Shared(format!("law = \"{law}\"\n{keys}")),
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
        // Between both prices a series of two keeps half at each; behind a fork there is room for all of it.
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
