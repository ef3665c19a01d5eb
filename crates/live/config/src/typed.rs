//! The checked configuration, in the types that the rest of the program works with.
//!
//! Every value here is legal: ranges, families, duplicates and references between keys have been checked by
//! [`crate::parse`], so that readers need no second look.

mod listen;
mod scale;

pub use listen::*;
pub use scale::*;

use crate::kind::name_of;
use balance::PolicyKind;
use base::Transport;
use control::{Address, MemberSettings, PoolSettings};
use digest_auth::Offer;
use elastic::queue::Accrual;
use elastic::update::{Keys, Server};
use node::{
    CapacitySource, DialogSettings, Distribution, OverloadControl, ProxySettings, QueueSetup,
    RegistrarSettings,
};
use route::{Access, Forward, Network, RateSettings, Rule};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How calls are kept whose dialogs are, and where their records go.
#[derive(Debug, Clone, PartialEq)]
pub struct CallsConfig {
    /// Times and limits.
    pub dialogs: DialogSettings,
    /// Where a record of each call goes.
    pub records: Option<RecordsPlace>,
    /// Bytes of a file of records, which is put aside then.
    pub rotate: u64,
    /// How many of those are kept.
    pub keep: u32,
}

/// A server that keeps something for this process.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// Where it is, and as whom we log in.
    pub url: String,
    /// File of those who are trusted to vouch for it, where it speaks TLS; `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
}

/// Without the URL, which may have a password in it: configurations end up in logs.
impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerUrl").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

/// Where records of calls go.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordsPlace {
    /// Lines of JSON in this file.
    File(PathBuf),
    /// A PostgreSQL database.
    Database(ServerUrl),
}

/// Port of SIP over UDP where an address names none (RFC 3261 §19.1.2).
pub const SIP_PORT: u16 = 5060;

/// One configuration file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Sockets and the names of this balancer.
    pub listen: Listen,
    /// What connections may take.
    pub connections: Connections,
    /// Certificates, and whom to trust; there where a listener needs it.
    pub tls: Option<Tls>,
    /// All pools, by the index that routes name them by: those of the file in its order, then that of `[proxy]`, then
    /// those of the next hops of routes.
    pub pools: Vec<PoolConfig>,
    /// Timers and limits of all that is forwarded with transactions.
    pub transactions: ProxySettings,
    /// With whom the state of calls is shared out.
    pub distribution: Option<Distribution>,
    /// How calls are kept, where the state of any is.
    pub calls: Option<CallsConfig>,
    /// `[[route]]`s in order; without any, all requests go to the one pool or to the proxy.
    pub routes: Vec<Rule>,
    /// The users of the own domains.
    pub registrar: Option<RegistrarConfig>,
    /// Who may begin anything at each listener of [`Listen::listeners`], by its index there.
    pub access: Vec<Access>,
    /// Limits of what each source may begin, over all threads.
    pub rates: RateSettings,
    /// What is done about more requests than can be served.
    pub overload: OverloadControl,
    /// Keys of the tokens in Record-Route and Via.
    pub token: Token,
    /// The admin HTTP listener.
    pub admin: Admin,
    /// Who says what servers can take; `None`: nobody is listened to.
    pub capacity: Option<CapacityConfig>,
    /// Log level and format.
    pub log: Log,
    /// What SIGTERM does.
    pub stop: Stop,
    /// Name resolution of members.
    pub dns: Dns,
}

impl Config {
    /// The pool, if this is a balancer; the first one, if there are several.
    pub fn pool(&self) -> Option<&PoolConfig> {
        self.pools.iter().find(|pool| pool.origin == PoolOrigin::Table)
    }

    /// The pools that are `[pool.<name>]`s, in the order of the file: routes name them by their places.
    pub fn table_pools(&self) -> impl Iterator<Item = &PoolConfig> {
        self.pools.iter().filter(|pool| pool.origin == PoolOrigin::Table)
    }

    /// The members of [`pool`](Self::pool); a proxy has none.
    pub fn members(&self) -> &[MemberSettings] {
        self.pool().map_or(&[], |pool| &pool.members)
    }

    /// Settings that are legal and known to do harm, and what to do about each.
    pub fn warnings(&self) -> Vec<String> {
        let of_process = self.overload.collapses().map(str::to_owned);
        of_process
            .into_iter()
            .chain(self.neighbour_warnings())
            .chain(self.key_warnings())
            .chain(self.table_pools().filter_map(PoolConfig::warning))
            .chain(self.stateless_warnings())
            .collect()
    }

    /// Stateless forwarding repeats nothing, and a client of a connection does not either: it waits for a message that
    /// was lost on its way to a member.
    fn stateless_warnings(&self) -> impl Iterator<Item = String> {
        let reliable = |transport: &Transport| transport.is_reliable();
        let mut listeners = self.listen.listeners.iter().map(|listener| listener.transport);
        let of_listener = listeners.find(reliable);
        let stateless =
            self.pools.iter().filter(|pool| pool.settings.service.forward() == Forward::Stateless);
        stateless.filter_map(move |pool| {
            let mut members = pool.members.iter().map(|member| member.address.transport());
            let transport = of_listener.or_else(|| members.find(reliable))?;
            let table = if pool.origin == PoolOrigin::Proxy { "proxy".to_owned() } else { format!("pool.{}", pool.settings.name) };
            Some(format!(
                "{table}.forward = \"stateless\": beside {} a message that is lost over UDP is repeated by nobody, and its call \
                 hangs; set forward = \"transaction\"",
                transport.name().to_uppercase()
            ))
        })
    }

    /// A key that speaks for many servers, and members whose monitors have none.
    fn key_warnings(&self) -> Vec<String> {
        let Some(capacity) = &self.capacity else { return Vec::new() };
        if capacity.keys.shared.is_some() {
            let text = "capacity.keys.\"*\": whoever has this key can announce any capacity for every server without a key of its own, \
                        and each of their monitors has it; give each server its own";
            return vec![text.to_owned()];
        }
        let is_monitored = |pool: &&PoolConfig| {
            pool.settings.queue.as_ref().is_some_and(|queue| queue.source == CapacitySource::Announced)
        };
        let monitored = self.pools.iter().filter(is_monitored);
        let members = monitored.flat_map(|pool| pool.members.iter().map(move |member| (pool, member)));
        let own = &capacity.keys.own;
        let literal = |server: &Server| {
            let members = self.pools.iter().flat_map(|pool| &pool.members);
            members
                .filter_map(|member| match &member.address {
                    Address::Socket(peer) => Some(Server::Address(peer.address)),
                    _ => None,
                })
                .any(|member| member == *server)
        };
        // An address that no member has may be one of a name.
        let has_others = own.keys().any(|server| matches!(server, Server::Address(_)) && !literal(server));
        let has_key = |address: &Address| match address {
            Address::Socket(peer) => own.contains_key(&Server::Address(peer.address)),
            name => has_others || name.to_string().parse().is_ok_and(|name: Server| own.contains_key(&name)),
        };
        let without = members.filter(|(_, member)| !has_key(&member.address)).map(|(pool, member)| format!(
            "capacity.keys: {}, a member of pool.{}, has none, so no monitor can say what it takes; add one",
            member.address, pool.settings.name
        ));
        without.collect()
    }

    /// Neighbours that may be anybody, and next hops that share out state and are no neighbours.
    fn neighbour_warnings(&self) -> Vec<String> {
        let Some(distribution) = &self.distribution else { return Vec::new() };
        let neighbours = &distribution.neighbours;
        // The largest private networks are 10.0.0.0/8 and fc00::/7.
        let is_wide = |network: &&Network| network.length() < if network.first().is_ipv4() { 8 } else { 7 };
        let wide = neighbours.iter().filter(is_wide).map(|network| {
            format!(
                "distribution.neighbours: {network} holds strangers, who could have calls pass without state; list the proxies alone"
            )
        });
        let sharers =
            self.pools.iter().filter(|pool| pool.settings.service.forward() == Forward::Distributed);
        let hops = sharers.flat_map(|pool| pool.members.iter().map(move |member| (pool, member)));
        let strangers = hops.filter_map(|(pool, member)| match &member.address {
            Address::Socket(peer) if !neighbours.iter().any(|it| it.contains(peer.address.ip())) => Some(format!(
                "distribution.neighbours: {}, a next hop of `{}`, is in none: this proxy keeps all calls that go there; add it if \
                 it shares out state",
                peer.address, pool.settings.name
            )),
            _ => None,
        });
        wide.chain(strangers).collect()
    }

    /// In a few words, for people.
    pub fn summary(&self) -> String {
        let users = self.registrar.as_ref().map(|registrar| {
            let domains = &registrar.settings.registrar.domains;
            let first = domains.first().map(|domain| String::from_utf8_lossy(domain)).unwrap_or_default();
            match domains.len() {
                1 => format!("users of {first}"),
                many => format!("users of {many} domains"),
            }
        });
        let proxy = self.pools.iter().find(|pool| pool.origin == PoolOrigin::Proxy);
        match (proxy, self.pool()) {
            _ if let (Some(users), true) = (&users, self.pools.is_empty()) => users.clone(),
            _ if let Some(users) = users => {
                let pools = self.pools.iter().filter(|pool| pool.origin != PoolOrigin::Route).count();
                format!("{users}, {}, {}", counted(self.routes.len(), "route"), counted(pools, "pool"))
            }
            _ if !self.routes.is_empty() => {
                let pools = self.pools.iter().filter(|pool| pool.origin != PoolOrigin::Route).count();
                format!("{}, {}", counted(self.routes.len(), "route"), counted(pools, "pool"))
            }
            (Some(proxy), _) => match &proxy.members[..] {
                [only] => format!("proxy, next hop {}", only.address),
                hops => format!("proxy, {} next hops", hops.len()),
            },
            (None, Some(pool)) => {
                format!(
                    "{}, {}",
                    members(&pool.members),
                    orders(pool.settings.policy, pool.settings.queue.as_deref())
                )
            }
            (None, None) => "nothing".to_owned(),
        }
    }
}

/// So many of something.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How many members are in the file: a name may stand for several, or for none.
fn members(members: &[MemberSettings]) -> String {
    let names = members.iter().filter(|member| !matches!(member.address, Address::Socket(_))).count();
    match (members.len() - names, names) {
        (addresses, 0) => counted(addresses, "member"),
        (0, names) => format!("members by {}", counted(names, "name")),
        (addresses, names) => {
            format!("{} and members by {}", counted(addresses, "member"), counted(names, "name"))
        }
    }
}

/// `[registrar]`
#[derive(Debug, Clone, PartialEq)]
pub struct RegistrarConfig {
    /// Domains, what is granted to clients, and how users prove who they are.
    pub settings: RegistrarSettings,
    /// Algorithms that the file names, to be offered; `None`: the one that most clients know and the users have
    /// hashes of.
    pub algorithms: Option<Offer>,
    /// Who knows their secrets; `None`: nobody is asked for a password.
    pub users: Option<UsersPlace>,
    /// Where bindings are kept; `None`: in a file beside the configuration.
    pub store: Option<StorePlace>,
}

/// Who knows the secrets of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsersPlace {
    /// A file.
    File(PathBuf),
    /// A `PostgreSQL` database.
    Database(ServerUrl),
}

/// Where bindings are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// In this process alone.
    Memory,
    /// A file.
    File(PathBuf),
    /// A Redis or Valkey server.
    Redis(ServerUrl),
}

/// What made a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolOrigin {
    /// `[pool.<name>]`.
    Table,
    /// `next` of `[proxy]`.
    Proxy,
    /// `next` of a `[[route]]`.
    Route,
}

/// `[pool.<name>]`, or next hops as a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolConfig {
    /// What made it.
    pub origin: PoolOrigin,
    /// What the control plane is told. The name is the `<name>` of the table; `proxy`; or `route.` and the name of the
    /// route.
    pub settings: PoolSettings,
    /// At least one; no two alike; in the order of the file.
    pub members: Vec<MemberSettings>,
    /// Weights, times and limit of sessions, over all threads.
    pub sessions: balance::SessionSettings,
    /// Who starts and stops its servers, if anybody does.
    pub scale: Option<ScaleConfig>,
}

/// What orders the new calls of a pool: its policy, or the queue in front of it, with where its capacities come from.
pub fn orders(policy: PolicyKind, queue: Option<&QueueSetup>) -> String {
    match queue {
        None => format!("policy {policy}"),
        Some(queue) => {
            let rules = if queue.settings.accrual == Accrual::PerSecond { ", the paper's rules" } else { "" };
            format!("queue, capacity {}{rules}", name_of(queue.source))
        }
    }
}

impl PoolConfig {
    fn warning(&self) -> Option<String> {
        let PoolSettings { name, health, .. } = &self.settings;
        let quick = health.regular && health.fall == 1;
        quick.then(|| {
            format!(
                "pool.{name}: probe.fall = 1: under load one late answer takes a member out, and the others get its calls; set 2 or \
                 more"
            )
        })
    }
}

/// `[token]`
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// `SipHash` key of new tokens; `None`: the file has none, make a random one.
    pub key: Option<[u8; 16]>,
    /// Keys whose tokens are still accepted.
    pub previous_keys: Vec<[u8; 16]>,
    /// How long a token is accepted.
    pub lifetime: Duration,
}

/// Without the keys: configurations end up in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("key", &self.key.map(|_| "secret"))
            .field("previous_keys", &self.previous_keys.len())
            .field("lifetime", &self.lifetime)
            .finish()
    }
}

/// What a request to the admin interface has to show.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(String);

impl Bearer {
    /// Fewest characters: what can be guessed keeps nobody out.
    const MIN: usize = 16;

    /// A token as RFC 6750 §2.1 has it (`b64token`), if the text is one, and long enough.
    pub fn parse(text: &str) -> Option<Self> {
        let characters = text.trim_end_matches('=');
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let good = characters.len() >= Self::MIN && characters.bytes().all(is_token);
        good.then(|| Self(text.to_owned()))
    }

    /// Of what a file holds: the token, with or without a line end.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::parse(std::str::from_utf8(bytes).ok()?.trim())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Without the text: configurations end up in logs.
impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(..)")
    }
}

/// `[admin]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// HTTP listener; `None` = off.
    pub listen: Option<SocketAddr>,
    /// What requests have to show; `None`: the file has none.
    pub token: Option<Bearer>,
}

/// `[capacity]`. Keys do not print themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityConfig {
    /// TCP listener of updates.
    pub listen: SocketAddr,
    /// Who may speak for which server. No two are alike.
    pub keys: Arc<Keys>,
    /// Who may connect.
    pub from: Access,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Least severity that is written.
    pub level: Level,
    /// How a line is written.
    pub format: LogFormat,
}

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Nothing is written.
    Off,
    /// What needs a person.
    Error,
    /// What may soon need one.
    Warn,
    /// Life of the process and of its members.
    Info,
    /// Each request that failed, with the reason.
    Debug,
    /// The same; for what `RUST_LOG` asks of the libraries.
    Trace,
}

impl Level {
    /// The name as the file has it, which is also that of the usual log filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[stop]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Longest wait for calls in progress after SIGTERM; zero = none.
    pub wait: Duration,
}

/// `[dns]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// Time between two look-ups of a member's name.
    pub refresh: Duration,
    /// Servers to ask; empty for those of the system.
    pub servers: Vec<SocketAddr>,
}
