//! `[[route]]` and `[access]` as they are written.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{
    AnswerKind, Bound, Choice, Count, FieldText, HOUR, MethodText, NetworkText, NextHop, Ratio, SECOND,
    Share, Text, Time, TransportName,
};
use crate::setting::{Entry, Listed, Setting, Several};
use route::{BudgetSettings, Failover, Origin, Outcome, Refusal};

/// What a text is to be like: a value, several of which one has to fit, or a table with more ways to compare.
pub(crate) type RawTexts<K = Text> = Listed<K, RawText>;

/// Header fields to write, by name: a value, or several.
type RawFields = BTreeMap<String, Several<Text>>;

/// A rule. The first whose conditions all hold wins; of several values of one condition, one has to fit. Only requests that
/// begin something are asked about: a request within a dialog goes where the dialog is. A request that no rule is for gets
/// 404, one from a member goes where its Request-URI leads. Each rule has exactly one of `pool`, `next`, `location`,
/// `request_uri` and `answer`. A condition on a text is `"text"` for exactly that, an array for any of several, or a table of `exact`,
/// `prefix`, `suffix`, `contains` and `regex`, which all have to hold: `user = { prefix = ["+44", "0044"] }`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawRoute {
    /// What messages and metrics call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "`route-1`, `route-2`, ..."))]
    pub(crate) name: Option<Setting<Text>>,
    /// Condition: the method. ACK and CANCEL go where their INVITE goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<MethodText>", extend("x-default" = "any"))]
    pub(crate) method: Option<Several<MethodText>>,
    /// Condition: who sends it. `"outside"` is whoever is no member of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Choice<Origin>>", extend("x-default" = "`\"outside\"`"))]
    pub(crate) from: Option<Setting<Choice<Origin>>>,
    /// Condition: the network that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<NetworkText>", extend("x-default" = "any"))]
    pub(crate) source: Option<Several<NetworkText>>,
    /// Condition: the listener that it came to, by its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Bound>", extend("x-default" = "any"))]
    pub(crate) listener: Option<Several<Bound>>,
    /// Condition: what carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Choice<TransportName>>", extend("x-default" = "any"))]
    pub(crate) transport: Option<Several<Choice<TransportName>>>,
    /// Condition: the user of the Request-URI, most often a number; without its parameters, escapes decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawTexts", extend("x-default" = "any"))]
    pub(crate) user: Option<RawTexts>,
    /// Condition: the host of the Request-URI, in any case, without a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawTexts", extend("x-default" = "any"))]
    pub(crate) host: Option<RawTexts>,
    /// Condition: the user of From. Anybody can write there what they like.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawTexts", extend("x-default" = "any"))]
    pub(crate) from_user: Option<RawTexts>,
    /// Condition: the host of From.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawTexts", extend("x-default" = "any"))]
    pub(crate) from_host: Option<RawTexts>,
    /// Condition: the user of To.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawTexts", extend("x-default" = "any"))]
    pub(crate) to_user: Option<RawTexts>,
    /// Condition: the host of To.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawTexts", extend("x-default" = "any"))]
    pub(crate) to_host: Option<RawTexts>,
    /// Conditions: values of header fields, by long name, in any case; `true` = it is there. One of the values has to fit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-default" = "any"))]
    pub(crate) header: BTreeMap<String, RawTexts<FieldText>>,
    /// Networks that may use the rule; anybody else is refused, also where a later rule would take them. Of this and `deny`,
    /// the smallest network that holds an address decides.
    pub(crate) allow: Vec<Setting<NetworkText>>,
    /// Networks that may not use the rule.
    pub(crate) deny: Vec<Setting<NetworkText>>,
    /// Whether only users of `[registrar]` may use the rule: whoever is no member of a pool is asked for a password (407), and is
    /// refused who then calls as another user of its domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<crate::kind::Flag>", extend("x-default" = "`false`"))]
    pub(crate) authenticate: Option<Setting<crate::kind::Flag>>,
    /// What those hear that may not use the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Choice<Refusal>>", extend("x-default" = "`refuse` of `[access]`"))]
    pub(crate) refuse: Option<Setting<Choice<Refusal>>>,
    /// First: taken off the user of the Request-URI if it begins with it; of several, the first that fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>", extend("x-default" = "none"))]
    pub(crate) strip_prefix: Option<Several<Text>>,
    /// Then: set in front of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "none"))]
    pub(crate) add_prefix: Option<Setting<Text>>,
    /// In place of the user; without `strip_prefix` and `add_prefix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "as it is"))]
    pub(crate) set_user: Option<Setting<Text>>,
    /// In place of host and port of the Request-URI: `host` or `host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "as it is"))]
    pub(crate) set_host: Option<Setting<Text>>,
    /// Header fields that go, by long name. Those that forwarding itself owns, such as Via or Contact, cannot be touched.
    pub(crate) remove_header: Vec<Setting<Text>>,
    /// Header fields that are written in place of those of the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub(crate) set_header: RawFields,
    /// Header fields that are written besides those of the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-default" = "none"))]
    pub(crate) add_header: RawFields,
    /// Target: a pool by its name; or several, of which the next is tried when one fails. An item is a name, or a table that
    /// also gives priority and weight. `"proxy"` is the next hops of `[proxy]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Listed<Text, RawChoice, Entry<Text, RawChoice>>", extend("x-default" = "none"))]
    pub(crate) pool: Option<Listed<Text, RawChoice, Entry<Text, RawChoice>>>,
    /// Target: next hops, with a transaction of ours, in the order of a hash of the Call-ID; each is tried when another fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<NextHop>", extend("x-default" = "none"))]
    pub(crate) next: Option<Several<NextHop>>,
    /// Target: where the Request-URI leads, as it is after all the above. With `true`, whoever may use the rule can have
    /// requests sent anywhere: give it to members, or to sources that you know.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<crate::kind::Flag>", extend("x-default" = "`false`"))]
    pub(crate) request_uri: Option<Setting<crate::kind::Flag>>,
    /// Target: where the user in the Request-URI has registered with `[registrar]`; 480 where that is nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<crate::kind::Flag>", extend("x-default" = "`false`"))]
    pub(crate) location: Option<Setting<crate::kind::Flag>>,
    /// Target: an answer by its status; or a table that gives more; or silence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Entry<AnswerKind, RawAnswer>", extend("x-default" = "none"))]
    pub(crate) answer: Option<Entry<AnswerKind, RawAnswer>>,
    pub(crate) failover: RawFailover,
}

/// Ways to compare a text. All that are given have to hold, each for one of its values.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "table of `exact`, `prefix`, `suffix`, `contains`, `regex`")]
pub(crate) struct RawText {
    /// Exactly this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>")]
    pub(crate) exact: Option<Several<Text>>,
    /// It begins with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>")]
    pub(crate) prefix: Option<Several<Text>>,
    /// It ends with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>")]
    pub(crate) suffix: Option<Several<Text>>,
    /// This is somewhere in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>")]
    pub(crate) contains: Option<Several<Text>>,
    /// The regular expression is found somewhere in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>")]
    pub(crate) regex: Option<Several<Text>>,
}

/// A pool of a route's target.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "table of `name`, `priority`, `weight`", extend("required" = ["name"]))]
pub(crate) struct RawChoice {
    /// Name of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>")]
    pub(crate) name: Option<Setting<Text>>,
    /// Pools of the lowest number are tried first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Count<1, 1000>>", extend("x-default" = "its place in the list"))]
    pub(crate) priority: Option<Setting<Count<1, 1000>>>,
    /// Share of the calls among the pools of the same priority.
    pub(crate) weight: Setting<Ratio>,
}

impl Default for RawChoice {
    fn default() -> Self {
        Self { name: None, priority: None, weight: 1.0.into() }
    }
}

/// An answer.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "table of `status`, `reason`, `contact`", extend("required" = ["status"]))]
pub(crate) struct RawAnswer {
    /// The status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Count<300, 699>>")]
    pub(crate) status: Option<Setting<Count<300, 699>>>,
    /// The reason phrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Setting<Text>", extend("x-default" = "that of RFC 3261 §21"))]
    pub(crate) reason: Option<Setting<Text>>,
    /// Where the caller is to go instead, with a status from 300 to 399: SIP URIs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Several<Text>", extend("x-default" = "none"))]
    pub(crate) contact: Option<Several<Text>>,
}

/// When the next pool of `pool` is tried, and how often. After `"503"` and `"timeout"` that is a retry, and only a pool with
/// `forward = "transaction"` can make one.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawFailover {
    /// `"dead"`: no member takes calls; `"full"`: all have as many as they may, or the queue of the pool has no room for the call, or had nobody for it in time; `"503"`: a member answered that; `"timeout"`: a
    /// member answered nothing at all, or cannot be reached.
    pub(crate) on: Vec<Setting<Choice<Outcome>>>,
    /// Most pools that a request is sent to, the first included.
    pub(crate) attempts: Setting<Count<1, 16>>,
    /// Retries as a share of what is tried for the first time, so that they cannot multiply an overload.
    pub(crate) budget: Setting<Share<0, 1000>>,
    /// Retries in a window however few requests there are.
    pub(crate) budget_min: Setting<Count<0, 100_000>>,
    /// Time over which both are counted.
    pub(crate) budget_window: Setting<Time<SECOND, HOUR>>,
}

impl Default for RawFailover {
    fn default() -> Self {
        let Failover { attempts, budget: BudgetSettings { ratio, least, window }, .. } = Failover::default();
        Self {
            on: Outcome::ALL.map(Setting::of).into(),
            attempts: Setting::of(attempts.into()),
            budget: Setting::of(ratio),
            budget_min: Setting::of(least),
            budget_window: Setting::of(window),
        }
    }
}

/// Who may begin anything here. Members of pools always may, and calls in progress go on.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawAccess {
    /// Networks that may; everyone where there is none. Of this and `deny`, the smallest network that holds an address decides.
    /// A listener may have lists of its own instead.
    pub(crate) allow: Vec<Setting<NetworkText>>,
    /// Networks that may not.
    pub(crate) deny: Vec<Setting<NetworkText>>,
    /// What those hear that may not: a status, or nothing at all.
    pub(crate) refuse: Setting<Choice<Refusal>>,
    pub(crate) rate: RawRate,
}

impl Default for RawAccess {
    fn default() -> Self {
        let refuse = Setting::of(Refusal::default());
        Self { allow: Vec::new(), deny: Vec::new(), refuse, rate: RawRate::default() }
    }
}

/// How many new requests each source may begin a second, over all threads; what is refused does not count, nor do
/// retransmissions, nor the one or two requests with the same method and Request-URI that follow a 401, 407 or 422. Memory is fixed,
/// however many sources there are, or seem to be.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawRate {
    /// New requests a second of one sender, an IPv4 address or an IPv6 network of `ipv6_address` bits; 0 = no limit.
    pub(crate) per_address: Setting<Count<0, 1_000_000>>,
    /// New requests a second of all senders of a network of `ipv4_network` or `ipv6_network` bits together; 0 = no limit.
    pub(crate) per_network: Setting<Count<0, 1_000_000>>,
    /// How long a source that was silent may save up: what comes at once may be the rate times this.
    pub(crate) burst: Setting<Time<SECOND, HOUR>>,
    /// Bits of an IPv4 network.
    pub(crate) ipv4_network: Setting<Count<8, 32>>,
    /// Bits of an IPv6 network in which one sender chooses its address.
    pub(crate) ipv6_address: Setting<Count<32, 128>>,
    /// Bits of an IPv6 network.
    pub(crate) ipv6_network: Setting<Count<16, 128>>,
    /// Networks without a limit, such as those of carriers.
    pub(crate) exempt: Vec<Setting<NetworkText>>,
    /// What those hear that have used up theirs.
    pub(crate) refuse: Setting<Choice<Refusal>>,
}

impl Default for RawRate {
    fn default() -> Self {
        Self {
            per_address: 0.into(),
            per_network: 0.into(),
            burst: Setting::of(Duration::from_secs(5)),
            ipv4_network: 24.into(),
            ipv6_address: 64.into(),
            ipv6_network: 48.into(),
            exempt: Vec::new(),
            refuse: Setting::of(Refusal::Unavailable),
        }
    }
}
