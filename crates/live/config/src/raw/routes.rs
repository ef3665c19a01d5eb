//! Keys of `[[route]]` and `[access]`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kind::{
    AnswerKind, Bound, Choice, Count, FieldText, HOUR, MethodText, NetworkText, NextHop, Ratio, SECOND,
    Share, Text, Time, TransportName,
};
use crate::raw::InviteTimeout;
use crate::setting::{Entry, Item, Listed, Setting, Several, Short};
use crate::table::REQUIRED;
use route::{AccessRefusal, BudgetSettings, Failover, FailoverCause, Origin};

/// Default of `per_address`: a tenth of what a thread serves. It is far above the rate of a phone, or of a few hundred
/// behind one address that all register at once.
const PER_ADDRESS: u32 = 1_000;

/// Condition on a text: a value, several of which one must match, or a table with further ways to compare.
pub(crate) type RawTexts<K = Text> = Listed<K, RawText>;

/// Header fields to write, by name: a value, or several.
type RawFields = BTreeMap<String, Several<Text>>;

table! {
    /// A rule that chooses the target of requests outside dialogs; the first rule whose conditions all hold is used. Of
    /// several values of a condition, one must match. Requests within dialogs go to the server of the dialog. A request
    /// that matches no rule gets 404, or if it comes from a member, follows its Request-URI. Each rule has exactly one
    /// of `pool`, `next`, `location`, `request_uri` and `answer`. A condition on a text is `"text"` for an exact match,
    /// an array for any of several, or a table of `exact`, `prefix`, `suffix`, `contains` and `regex`, which must all
    /// match: `user = { prefix = ["+44", "0044"] }`.
    struct RawRoute {
        /// Name of the rule in messages and metrics.
        name: Option<Setting<Text>> => "`route-1`, `route-2`, ...",
        /// Condition: the method. ACK and CANCEL follow their INVITE.
        method: Option<Several<MethodText>> => "any",
        /// Condition: the sender. `"outside"`: not a member of a pool; `"members"`: members; `"anyone"`: both. Set it
        /// to `"members"` for calls that your servers make.
        from: Option<Setting<Choice<Origin>>> => "`\"outside\"`",
        /// Condition: the network of the source address.
        source: Option<Several<NetworkText>> => "any",
        /// Condition: the listener that received the request, by its address.
        listener: Option<Several<Bound>> => "any",
        /// Condition: the transport that carried the request.
        transport: Option<Several<Choice<TransportName>>> => "any",
        /// Condition: the user of the Request-URI, usually a number, without its parameters and with escapes decoded.
        user: Option<RawTexts> => "any",
        /// Condition: the host of the Request-URI, in any case, without the port.
        host: Option<RawTexts> => "any",
        /// Condition: the host of the Request-URI is an address in this network. Names, and addresses of this process,
        /// never match.
        host_network: Option<Several<NetworkText>> => "any",
        /// Condition: the user of From. Senders can write any value.
        from_user: Option<RawTexts> => "any",
        /// Condition: the host of From.
        from_host: Option<RawTexts> => "any",
        /// Condition: the user of To.
        to_user: Option<RawTexts> => "any",
        /// Condition: the host of To.
        to_host: Option<RawTexts> => "any",
        /// Conditions on header fields, by long name in any case; `true`: the field is present. One of its values must
        /// match.
        header: BTreeMap<String, RawTexts<FieldText>> => "any",
        /// Networks that may use the rule. Other senders are refused (`refuse` of `[access]`), even if a later rule
        /// would accept them. If an address is in networks of `allow` and of `deny`, the smallest one decides.
        allow: Vec<Setting<NetworkText>>,
        /// Networks that may not use the rule.
        deny: Vec<Setting<NetworkText>>,
        /// Whether only users of `[registrar]` may use the rule. Senders outside the pools are asked for a password
        /// (407), and refused if their From names another user of the domains.
        authenticate: Option<Setting<crate::kind::Flag>> => "`false`",
        /// Step 1: a prefix that is removed from the user of the Request-URI; of several, the first that matches.
        strip_prefix: Option<Several<Text>> => "none",
        /// Step 2: a prefix that is added to the user.
        add_prefix: Option<Setting<Text>> => "none",
        /// New user of the Request-URI. Not with `strip_prefix` and `add_prefix`.
        set_user: Option<Setting<Text>> => "as it is",
        /// New host and port of the Request-URI: `host` or `host:port`.
        set_host: Option<Setting<Text>> => "as it is",
        /// Header fields that are removed, by long name. Fields that the proxy itself needs, such as Via or Contact,
        /// cannot be changed.
        remove_header: Vec<Setting<Text>>,
        /// Header fields that replace those of the same name.
        set_header: RawFields => "none",
        /// Header fields that are added to those of the same name.
        add_header: RawFields => "none",
        /// Target: a pool by name, or several, of which the next is tried if one fails. An item is a name, or a table
        /// with priority and weight. `"proxy"` means the next hops of `[proxy]`.
        pool: Option<Listed<Text, RawChoice, Item<RawChoice>>> => "none",
        /// Target: next hops, with a transaction, in the order of a hash of the Call-ID. The next one is tried if one
        /// fails.
        next: Option<Several<NextHop>> => "none",
        /// Target: the address in the Request-URI, after all changes of the rule; for requests of members. From a
        /// network in `source` or `allow` also to an address in `host_network`, without a transaction and without DNS.
        request_uri: Option<Setting<crate::kind::Flag>> => "`false`",
        /// Target: the registered contacts of the user in the Request-URI, with `[registrar]`; 480 if there are none.
        location: Option<Setting<crate::kind::Flag>> => "`false`",
        /// Target: a response of this process, by its status, as a table with more, or none (`"silence"`).
        answer: Option<Entry<AnswerKind, RawAnswer>> => "none",
        /// Longest wait for the first response to an INVITE, in place of `invite_timeout` of the pools; `"4s"` for
        /// `next`. Set it if the next hops of this rule are slower than others.
        invite_timeout: Option<InviteTimeout> => "`invite_timeout` of the pools",
        failover: RawFailover,
    }

    /// Ways to compare a text. All that are set must match, each with one of its values.
    struct RawText where { "title": "table of `exact`, `prefix`, `suffix`, `contains`, `regex`" } {
        /// The text is exactly this.
        exact: Option<Several<Text>>,
        /// The text starts with this.
        prefix: Option<Several<Text>>,
        /// The text ends with this.
        suffix: Option<Several<Text>>,
        /// The text contains this.
        contains: Option<Several<Text>>,
        /// The regular expression matches anywhere in the text.
        regex: Option<Several<Text>>,
    }

    /// A pool of a route's target.
    struct RawChoice where { "title": "table of `name`, `priority`, `weight`" } {
        /// Name of the pool.
        name: Option<Setting<Text>> => REQUIRED,
        /// Order in which pools are tried: the lowest number first.
        priority: Option<Setting<Count<1, 1000>>> => "its place in the list",
        /// Share of the calls among the pools of the same priority.
        weight: Setting<Ratio> = 1.0,
    }

    /// A response of this process.
    struct RawAnswer where { "title": "table of `status`, `reason`, `contact`" } {
        /// Status code.
        status: Option<Setting<Count<300, 699>>> => REQUIRED,
        /// Reason phrase.
        reason: Option<Setting<Text>> => "that of RFC 3261 §21",
        /// SIP URIs that the caller should try instead, with a status from 300 to 399.
        contact: Option<Several<Text>> => "none",
    }

    let Failover { attempts, budget: BudgetSettings { ratio, .. }, .. } = Failover::default();

    /// When the next pool of `pool` is tried, and how often. After `"503"` and `"timeout"` this needs a pool with
    /// `forward = "transaction"`.
    struct RawFailover {
        /// Reasons to try the next pool. `"dead"`: no member takes calls. `"full"`: all members are at their limits, or
        /// the queue of the pool is full or found no member in time. `"503"`: a member answered 503. `"timeout"`: a
        /// member did not answer, or cannot be reached. Remove a reason if the next pool costs more than a lost call.
        on: Vec<Setting<Choice<FailoverCause>>> = FailoverCause::ALL.into(),
        /// Most pools that a request is sent to, the first included. Set it lower if callers should not wait for many
        /// pools.
        attempts: Setting<Count<1, 16>> = attempts.into(),
        /// Retries as a share of the first attempts of 10 s, so that retries cannot multiply an overload. 100 retries
        /// in 10 s are always possible. Set it higher if the other pools have room for all calls.
        budget: Setting<Share<0, 1000>> = ratio,
    }

    /// Senders that may send new requests. Members of pools always may, and calls in progress are not affected.
    struct RawAccess {
        /// Networks that may send new requests; empty: all. If an address is in networks of `allow` and of `deny`, the
        /// smallest one decides. A listener may have lists of its own instead.
        allow: Vec<Setting<NetworkText>>,
        /// Networks that may not send new requests.
        deny: Vec<Setting<NetworkText>>,
        /// Response to requests that lists of `[access]`, a listener or a route refuse: a status, or none
        /// (`"silence"`). A source above `rate` gets 503, or none with `"silence"`. Choose `"silence"` against
        /// scanners.
        refuse: Setting<Choice<AccessRefusal>> = AccessRefusal::default(),
        rate: RawRate,
    }

    /// Most new requests a second of each source, over all threads, with those that overload control refuses.
    /// Retransmissions do not count, nor one or two requests with the same method and Request-URI after a 401, 407 or
    /// 422. The memory for sources has a fixed size, also for forged ones.
    struct RawRate {
        /// Most new requests a second of one sender, an IPv4 address or an IPv6 network of 64 bits; 0: no limit. The
        /// default counts retransmissions as well, and does not apply to loopback addresses, to the `source` networks
        /// of routes, or if `per_network` is set. Set it to a few times what one of your clients sends.
        per_address: Setting<Count<0, 1_000_000>> = PER_ADDRESS,
        /// Most new requests a second of all senders of a network together, 24 bits of IPv4 or 48 bits of IPv6; 0: no
        /// limit. Set it if floods come from many addresses of one network.
        per_network: Setting<Count<0, 1_000_000>> = 0,
        /// Time that a silent source may save up: the requests of this time may come at once. Set it higher if many
        /// phones behind one address register at once.
        burst: Setting<Time<SECOND, HOUR>> = Duration::from_secs(5),
        /// Networks without a limit, such as those of carriers. The hosts of members and next hops, and `neighbours`,
        /// never have a limit.
        exempt: Vec<Setting<NetworkText>>,
    }
}

impl Short for RawChoice {
    type Main = Text;

    fn main(&mut self) -> &mut Option<Setting<Text>> {
        &mut self.name
    }
}
