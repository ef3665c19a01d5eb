//! `[[route]]` and `[access]` as they are written.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kind::{
    AnswerKind, Bound, Choice, Count, FieldText, HOUR, MethodText, NetworkText, NextHop, Ratio, SECOND,
    Share, Text, Time, TransportName,
};
use crate::raw::InviteTimeout;
use crate::setting::{Entry, Item, Listed, Setting, Several, Short};
use crate::table::REQUIRED;
use route::{BudgetSettings, Failover, Origin, Outcome, Refusal};

/// New requests a second of one source: far above a phone, or a few hundred behind one address that all register at once,
/// and a tenth of what a thread serves.
const PER_ADDRESS: u32 = 1_000;

/// What a text is to be like: a value, several of which one has to fit, or a table with more ways to compare.
pub(crate) type RawTexts<K = Text> = Listed<K, RawText>;

/// Header fields to write, by name: a value, or several.
type RawFields = BTreeMap<String, Several<Text>>;

table! {
    /// A rule. The first whose conditions all hold wins; of several values of one condition, one has to fit. Only
    /// requests that begin something are asked about: a request within a dialog goes where the dialog is. A request
    /// that no rule is for gets 404, one from a member goes where its Request-URI leads. Each rule has exactly one of
    /// `pool`, `next`, `location`, `request_uri` and `answer`. A condition on a text is `"text"` for exactly that, an
    /// array for any of several, or a table of `exact`, `prefix`, `suffix`, `contains` and `regex`, which all have to
    /// hold: `user = { prefix = ["+44", "0044"] }`.
    struct RawRoute {
        /// What messages and metrics call it.
        name: Option<Setting<Text>> => "`route-1`, `route-2`, ...",
        /// Condition: the method. ACK and CANCEL go where their INVITE goes.
        method: Option<Several<MethodText>> => "any",
        /// Condition: who sends it. `"outside"` is whoever is no member of a pool.
        from: Option<Setting<Choice<Origin>>> => "`\"outside\"`",
        /// Condition: the network that it comes from.
        source: Option<Several<NetworkText>> => "any",
        /// Condition: the listener that it came to, by its address.
        listener: Option<Several<Bound>> => "any",
        /// Condition: what carried it.
        transport: Option<Several<Choice<TransportName>>> => "any",
        /// Condition: the user of the Request-URI, most often a number; without its parameters, escapes decoded.
        user: Option<RawTexts> => "any",
        /// Condition: the host of the Request-URI, in any case, without a port.
        host: Option<RawTexts> => "any",
        /// Condition: the host of the Request-URI is an address in this network. A name is in none, nor is an address of
        /// ours.
        host_network: Option<Several<NetworkText>> => "any",
        /// Condition: the user of From. Anybody can write there what they like.
        from_user: Option<RawTexts> => "any",
        /// Condition: the host of From.
        from_host: Option<RawTexts> => "any",
        /// Condition: the user of To.
        to_user: Option<RawTexts> => "any",
        /// Condition: the host of To.
        to_host: Option<RawTexts> => "any",
        /// Conditions: values of header fields, by long name, in any case; `true` = it is there. One of the values
        /// has to fit.
        header: BTreeMap<String, RawTexts<FieldText>> => "any",
        /// Networks that may use the rule; anybody else is refused, also where a later rule would take them. Of this
        /// and `deny`, the smallest network that holds an address decides. Refused as `refuse` of `[access]` says.
        allow: Vec<Setting<NetworkText>>,
        /// Networks that may not use the rule.
        deny: Vec<Setting<NetworkText>>,
        /// Whether only users of `[registrar]` may use the rule: whoever is no member of a pool is asked for a
        /// password (407), and is refused who then calls as another user of its domains.
        authenticate: Option<Setting<crate::kind::Flag>> => "`false`",
        /// First: taken off the user of the Request-URI if it begins with it; of several, the first that fits.
        strip_prefix: Option<Several<Text>> => "none",
        /// Then: set in front of the user.
        add_prefix: Option<Setting<Text>> => "none",
        /// In place of the user; without `strip_prefix` and `add_prefix`.
        set_user: Option<Setting<Text>> => "as it is",
        /// In place of host and port of the Request-URI: `host` or `host:port`.
        set_host: Option<Setting<Text>> => "as it is",
        /// Header fields that go, by long name. Those that forwarding itself owns, such as Via or Contact, cannot be
        /// touched.
        remove_header: Vec<Setting<Text>>,
        /// Header fields that are written in place of those of the same name.
        set_header: RawFields => "none",
        /// Header fields that are written besides those of the same name.
        add_header: RawFields => "none",
        /// Target: a pool by its name; or several, of which the next is tried when one fails. An item is a name, or a
        /// table that also gives priority and weight. `"proxy"` is the next hops of `[proxy]`.
        pool: Option<Listed<Text, RawChoice, Item<RawChoice>>> => "none",
        /// Target: next hops, with a transaction of ours, in the order of a hash of the Call-ID; each is tried when
        /// another fails.
        next: Option<Several<NextHop>> => "none",
        /// Target: where the Request-URI leads, as it is after all the above. For members of pools. From a source in
        /// `source` or `allow` also to an address in `host_network`, without a transaction and without a look-up.
        request_uri: Option<Setting<crate::kind::Flag>> => "`false`",
        /// Target: where the user in the Request-URI has registered with `[registrar]`; 480 where that is nowhere.
        location: Option<Setting<crate::kind::Flag>> => "`false`",
        /// Target: an answer by its status; or a table that gives more; or silence.
        answer: Option<Entry<AnswerKind, RawAnswer>> => "none",
        /// The time to the first answer to an INVITE, in place of `invite_timeout` of the pools; for `next`, where it is
        /// `"4s"` otherwise.
        invite_timeout: Option<InviteTimeout> => "as the pools have it",
        failover: RawFailover,
    }

    /// Ways to compare a text. All that are given have to hold, each for one of its values.
    struct RawText where { "title": "table of `exact`, `prefix`, `suffix`, `contains`, `regex`" } {
        /// Exactly this.
        exact: Option<Several<Text>>,
        /// It begins with this.
        prefix: Option<Several<Text>>,
        /// It ends with this.
        suffix: Option<Several<Text>>,
        /// This is somewhere in it.
        contains: Option<Several<Text>>,
        /// The regular expression is found somewhere in it.
        regex: Option<Several<Text>>,
    }

    /// A pool of a route's target.
    struct RawChoice where { "title": "table of `name`, `priority`, `weight`" } {
        /// Name of the pool.
        name: Option<Setting<Text>> => REQUIRED,
        /// Pools of the lowest number are tried first.
        priority: Option<Setting<Count<1, 1000>>> => "its place in the list",
        /// Share of the calls among the pools of the same priority.
        weight: Setting<Ratio> = 1.0,
    }

    /// An answer.
    struct RawAnswer where { "title": "table of `status`, `reason`, `contact`" } {
        /// The status.
        status: Option<Setting<Count<300, 699>>> => REQUIRED,
        /// The reason phrase.
        reason: Option<Setting<Text>> => "that of RFC 3261 §21",
        /// Where the caller is to go instead, with a status from 300 to 399: SIP URIs.
        contact: Option<Several<Text>> => "none",
    }

    let Failover { attempts, budget: BudgetSettings { ratio, .. }, .. } = Failover::default();

    /// When the next pool of `pool` is tried, and how often. After `"503"` and `"timeout"` that is a retry, and only
    /// a pool with `forward = "transaction"` can make one.
    struct RawFailover {
        /// `"dead"`: no member takes calls; `"full"`: all have as many as they may, or the queue of the pool has no
        /// room for the call, or had nobody for it in time; `"503"`: a member answered that; `"timeout"`: a member
        /// answered nothing at all, or cannot be reached.
        on: Vec<Setting<Choice<Outcome>>> = Outcome::ALL.into(),
        /// Most pools that a request is sent to, the first included.
        attempts: Setting<Count<1, 16>> = attempts.into(),
        /// Retries as a share of what is tried for the first time in 10 s, so that they cannot multiply an overload. 100
        /// in that time may be made however few requests there are.
        budget: Setting<Share<0, 1000>> = ratio,
    }

    /// Who may begin anything here. Members of pools always may, and calls in progress go on.
    struct RawAccess {
        /// Networks that may; everyone where there is none. Of this and `deny`, the smallest network that holds an
        /// address decides. A listener may have lists of its own instead.
        allow: Vec<Setting<NetworkText>>,
        /// Networks that may not.
        deny: Vec<Setting<NetworkText>>,
        /// The response to a request that is not let in, be it by a list of a listener or of a route: a status, or
        /// none (`"silence"`). A source above `rate` gets 503, or none with `"silence"`.
        refuse: Setting<Choice<Refusal>> = Refusal::default(),
        rate: RawRate,
    }

    /// How many new requests each source may begin a second, over all threads, those included that overload control
    /// refuses. Retransmissions do not count, nor do the one or two requests with the same method and Request-URI that
    /// follow a 401, 407 or 422. Memory is fixed, however many sources there are, or seem to be.
    struct RawRate {
        /// New requests a second of one sender, an IPv4 address or an IPv6 network of 64 bits; 0 = no
        /// limit. The default is far above what a phone sends, and protects the process from floods. The default
        /// counts retransmissions as well. It does not apply to loopback addresses and to the `source` networks of
        /// routes, nor if `per_network` is set.
        per_address: Setting<Count<0, 1_000_000>> = PER_ADDRESS,
        /// New requests a second of all senders of a network together, of 24 bits of IPv4 or 48 of IPv6; 0 =
        /// no limit.
        per_network: Setting<Count<0, 1_000_000>> = 0,
        /// How long a source that was silent may save up: what comes at once may be the rate times this.
        burst: Setting<Time<SECOND, HOUR>> = Duration::from_secs(5),
        /// Networks without a limit, such as those of carriers. The hosts of members and next hops, and `neighbours`,
        /// never have one.
        exempt: Vec<Setting<NetworkText>>,
    }
}

impl Short for RawChoice {
    type Main = Text;

    fn main(&mut self) -> &mut Option<Setting<Text>> {
        &mut self.name
    }
}
