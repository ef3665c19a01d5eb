//! A topology as it is written: the one table of its keys, in the manner of the configuration's.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use plan::Routing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::{self, FileKind};
use crate::kind::{CallRate, Choice, Flag, Names, NodeName, Share};
use crate::setting::{Listed, Setting};

/// Any share.
pub(super) type Part = Share<0, 1000>;

/// Shares of calls by the name of the node that gets them.
pub(super) type RawShares = BTreeMap<String, Setting<Part>>;

impl Names for Routing {
    const NAMES: &'static [(&'static str, Self)] = &[("fixed", Self::Fixed), ("free", Self::Free)];
}

/// A network of proxies that share out who keeps the state of a call.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Sarabande topology", extend("required" = ["node"]))]
pub(super) struct RawTopology {
    pub(super) network: RawNetwork,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("minProperties" = 1, "propertyNames" = { "pattern": "^[-_0-9A-Za-z]+$" }))]
    pub(super) node: BTreeMap<String, RawNode>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "pattern": "^[-_0-9A-Za-z]+$" }))]
    pub(super) path: BTreeMap<String, RawPath>,
}

/// What holds for all nodes.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawNetwork {
    /// Whether the shares in `next` are as they are (`fixed`), or the plan chooses them (`free`).
    pub(super) routing: Setting<Choice<Routing>>,
    /// Whether each call has to be authenticated, too, at one of the nodes that it passes and that have `authenticating`.
    pub(super) authentication: Setting<Flag>,
}

impl Default for RawNetwork {
    fn default() -> Self {
        Self { routing: Setting::of(Routing::default()), authentication: Setting::of(false) }
    }
}

/// One proxy. `<name>` is yours to choose (letters, digits, `-`, `_`), and `next` and paths refer to it.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["stateless"]))]
pub(super) struct RawNode {
    /// Calls a second that it carries when it keeps the state of none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<CallRate<1>>")]
    pub(super) stateless: Option<Setting<CallRate<1>>>,
    /// Calls a second that it carries when it keeps the state of all of them; at most `stateless`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<CallRate<1>>", extend("x-default" = "it never keeps state"))]
    pub(super) stateful: Option<Setting<CallRate<1>>>,
    /// Calls a second that it carries when it authenticates all of them and keeps no state; at most `stateless`. Only with
    /// `network.authentication`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<CallRate<1>>", extend("x-default" = "it never authenticates"))]
    pub(super) authenticating: Option<Setting<CallRate<1>>>,
    /// Share of all calls that enter the network here. Not with paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Setting<Part>",
        extend("x-default" = "where no node has it, calls enter in equal parts at those that no other sends to")
    )]
    pub(super) entry: Option<Setting<Part>>,
    /// The nodes that get its calls: one, several in equal parts, or each with its share. Not with paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Listed<NodeName, RawShares>",
        extend("x-default" = "none: its calls leave the network")
    )]
    pub(super) next: Option<Listed<NodeName, RawShares>>,
    /// Share of its calls that leave the network here, beside `next`. Not with paths or free routing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Part>", extend("x-default" = "0 with `next`, else 1"))]
    pub(super) exit: Option<Setting<Part>>,
}

/// The way of some calls, in place of `entry` and `next`: for networks without an order among nodes, such as two edges
/// that call each other through a core. Nodes then decide by the whole path of a call.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["nodes"]))]
pub(super) struct RawPath {
    /// The nodes that a call passes, in order.
    #[schemars(extend("minItems" = 1), extend("x-default" = ""))]
    pub(super) nodes: Vec<Setting<NodeName>>,
    /// Share of all calls that go this way; given for all paths or for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Part>", extend("x-default" = "equal parts"))]
    pub(super) share: Option<Setting<Part>>,
}

impl FileKind for RawTopology {
    fn schema() -> &'static Value {
        static SCHEMA: OnceLock<Value> = OnceLock::new();
        SCHEMA.get_or_init(document::schema::<Self>)
    }
}
