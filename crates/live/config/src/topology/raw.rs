//! Keys of a topology: the only place where they are declared, as in `raw.rs` for the configuration.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use plan::Routing;
use serde_json::Value;

use crate::document::{self, FileKind};
use crate::kind::{CallRate, Choice, Flag, Names, NodeName, Share};
use crate::setting::{Listed, Setting};
use crate::table::{NAME, REQUIRED};

/// A share from 0 to 1.
pub(super) type Part = Share<0, 1000>;

/// Shares of calls, by the name of the node that gets them.
pub(super) type RawShares = BTreeMap<String, Setting<Part>>;

impl Names for Routing {
    const NAMES: &'static [(&'static str, Self)] = &[("fixed", Self::Fixed), ("free", Self::Free)];
}

table! {
    /// A network of proxies that divide among them which proxy keeps the state of a call.
    struct RawTopology where { "title": "Sarabande topology" } {
        network: RawNetwork,
        node: BTreeMap<String, RawNode> where { "minProperties": 1, "propertyNames": { "pattern": NAME } } => REQUIRED,
        path: BTreeMap<String, RawPath> where { "propertyNames": { "pattern": NAME } },
    }

    /// Settings of all nodes.
    struct RawNetwork {
        /// Whether the shares in `next` are given (`fixed`), or the plan chooses them (`free`).
        routing: Setting<Choice<Routing>> = Routing::default(),
        /// Whether each call must also be authenticated, at one of the nodes on its path that have `authenticating`.
        authentication: Setting<Flag> = false,
    }

    /// One proxy. `<name>` is free to choose (letters, digits, `-`, `_`), and `next` and paths refer to it.
    struct RawNode {
        /// Calls a second that the node carries if it keeps no state. Measure it with `sarabande load` and
        /// `forward = "stateless"`.
        stateless: Option<Setting<CallRate<1>>> => REQUIRED,
        /// Calls a second that the node carries if it keeps the state of all calls; at most `stateless`. Measure it
        /// with `sarabande load` and `forward = "transaction"`.
        stateful: Option<Setting<CallRate<1>>> => "the node never keeps state",
        /// Calls a second that the node carries if it authenticates all of them and keeps no state; at most
        /// `stateless`. Only with `network.authentication`.
        authenticating: Option<Setting<CallRate<1>>> => "the node never authenticates",
        /// Share of all calls that enter the network at this node. Not with paths.
        entry: Option<Setting<Part>> => "if no node has it, calls enter in equal parts at the nodes that get calls from no other node",
        /// Nodes that get the calls of this node: one, several in equal parts, or each with its share. Not with paths.
        next: Option<Listed<NodeName, RawShares>> => "none: all calls leave the network here",
        /// Share of the calls of this node that leave the network here, in addition to `next`. Not with paths or free
        /// routing.
        exit: Option<Setting<Part>> => "0 with `next`, else 1",
    }

    /// Path of a part of the calls, in place of `entry` and `next`. Use it if calls pass the nodes in different orders,
    /// as between two edges that call each other through a core. Nodes then decide by the whole path of a call.
    struct RawPath {
        /// Nodes that a call passes, in order.
        nodes: Vec<Setting<NodeName>> where { "minItems": 1 } => REQUIRED,
        /// Share of all calls that take this path; set for all paths or for none.
        share: Option<Setting<Part>> => "equal parts",
    }
}

impl FileKind for RawTopology {
    fn schema_of_file() -> &'static Value {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        SCHEMA.get_or_init(document::schema::<Self>)
    }
}
