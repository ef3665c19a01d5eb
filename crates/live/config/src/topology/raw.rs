//! A topology as it is written: the one table of its keys, in the manner of the configuration's.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use plan::Routing;
use serde_json::Value;

use crate::document::{self, FileKind};
use crate::kind::{CallRate, Choice, Flag, Names, NodeName, Share};
use crate::setting::{Listed, Setting};
use crate::table::{NAME, REQUIRED};

/// Any share.
pub(super) type Part = Share<0, 1000>;

/// Shares of calls by the name of the node that gets them.
pub(super) type RawShares = BTreeMap<String, Setting<Part>>;

impl Names for Routing {
    const NAMES: &'static [(&'static str, Self)] = &[("fixed", Self::Fixed), ("free", Self::Free)];
}

table! {
    /// A network of proxies that share out who keeps the state of a call.
    struct RawTopology where { "title": "Sarabande topology" } {
        network: RawNetwork,
        node: BTreeMap<String, RawNode> where { "minProperties": 1, "propertyNames": { "pattern": NAME } } => REQUIRED,
        path: BTreeMap<String, RawPath> where { "propertyNames": { "pattern": NAME } },
    }

    /// What holds for all nodes.
    struct RawNetwork {
        /// Whether the shares in `next` are as they are (`fixed`), or the plan chooses them (`free`).
        routing: Setting<Choice<Routing>> = Routing::default(),
        /// Whether each call has to be authenticated, too, at one of the nodes that it passes and that have
        /// `authenticating`.
        authentication: Setting<Flag> = false,
    }

    /// One proxy. `<name>` is yours to choose (letters, digits, `-`, `_`), and `next` and paths refer to it.
    struct RawNode {
        /// Calls a second that it carries when it keeps the state of none.
        stateless: Option<Setting<CallRate<1>>> => REQUIRED,
        /// Calls a second that it carries when it keeps the state of all of them; at most `stateless`.
        stateful: Option<Setting<CallRate<1>>> => "it never keeps state",
        /// Calls a second that it carries when it authenticates all of them and keeps no state; at most `stateless`.
        /// Only with `network.authentication`.
        authenticating: Option<Setting<CallRate<1>>> => "it never authenticates",
        /// Share of all calls that enter the network here. Not with paths.
        entry: Option<Setting<Part>> => "where no node has it, calls enter in equal parts at those that no other sends to",
        /// The nodes that get its calls: one, several in equal parts, or each with its share. Not with paths.
        next: Option<Listed<NodeName, RawShares>> => "none: its calls leave the network",
        /// Share of its calls that leave the network here, beside `next`. Not with paths or free routing.
        exit: Option<Setting<Part>> => "0 with `next`, else 1",
    }

    /// The way of some calls, in place of `entry` and `next`: for networks without an order among nodes, such as two
    /// edges that call each other through a core. Nodes then decide by the whole path of a call.
    struct RawPath {
        /// The nodes that a call passes, in order.
        nodes: Vec<Setting<NodeName>> where { "minItems": 1 } => REQUIRED,
        /// Share of all calls that go this way; given for all paths or for none.
        share: Option<Setting<Part>> => "equal parts",
    }
}

impl FileKind for RawTopology {
    fn schema_of_file() -> &'static Value {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        SCHEMA.get_or_init(document::schema::<Self>)
    }
}
