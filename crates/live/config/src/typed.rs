//! The checked configuration, in the types of the other crates.
//!
//! All values are legal: ranges, families, duplicates and references between keys have been checked by
//! [`crate::parse`].

mod hep;
mod listen;
mod scale;

pub use hep::*;
pub use listen::*;
pub use scale::*;

use crate::kind::name_of;
use balance::PolicyKind;
use base::Transport;
use control::{Address, MemberSettings, PoolSettings};
use digest_auth::Offer;
use elastic::queue::Accrual;
use elastic::update::{ServerName, UpdateKeys};
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

/// State and records of calls with dialog state.
#[derive(Debug, Clone, PartialEq)]
pub struct CallsConfig {
    /// Times and limits.
    pub dialogs: DialogSettings,
    /// Where call records are written.
    pub records: Option<RecordsPlace>,
    /// Size of a file of records, in bytes, at which a new one is started.
    pub rotate: u64,
    /// Number of old files that are kept.
    pub keep: u32,
}

/// A server that stores data for this process.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// Its URL, with the user name for the login.
    pub url: String,
    /// File of the authorities that are trusted to certify the server, if it uses TLS; `None`: the authorities of the
    /// system.
    pub authorities: Option<PathBuf>,
}

/// Without the URL, which may contain a password: configurations are written to logs.
impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerUrl").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

/// Where call records are written.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordsPlace {
    /// Lines of JSON in this file.
    File(PathBuf),
    /// A PostgreSQL database.
    Database(ServerUrl),
}

/// Default port of SIP over UDP (RFC 3261 §19.1.2).
pub const SIP_PORT: u16 = 5060;

/// One configuration file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Listeners and names of this process.
    pub listen: Listen,
    /// Limits of connections.
    pub connections: Connections,
    /// Certificates and trusted authorities; present if a listener needs them.
    pub tls: Option<Tls>,
    /// All pools, by the index that routes use. The pools of the file come first, in its order, then the pool of
    /// `[proxy]`, then the pools of next hops of routes.
    pub pools: Vec<PoolConfig>,
    /// Timers and limits of all requests that are forwarded with transactions.
    pub transactions: ProxySettings,
    /// Neighbours that divide the state of calls.
    pub distribution: Option<Distribution>,
    /// State and records of calls; `None` if no pool keeps dialogs.
    pub calls: Option<CallsConfig>,
    /// The `[[route]]`s in order. Without any, all requests go to the single pool or to the proxy.
    pub routes: Vec<Rule>,
    /// The users of the own domains.
    pub registrar: Option<RegistrarConfig>,
    /// Access to each listener of [`Listen::listeners`], by its index there.
    pub access: Vec<Access>,
    /// Limits of new requests of each source, over all threads.
    pub rates: RateSettings,
    /// Overload control of this process.
    pub overload: OverloadControl,
    /// Keys of the tokens in Record-Route and Via.
    pub token: Token,
    /// The admin HTTP listener.
    pub admin: Admin,
    /// Capacity updates of monitors; `None`: none are accepted.
    pub capacity: Option<CapacityConfig>,
    /// Copies of messages for a collector; `None`: none are sent.
    pub hep: Option<HepConfig>,
    /// Log level and format.
    pub log: Log,
    /// Behaviour after SIGTERM.
    pub stop: Stop,
    /// Name resolution of members.
    pub dns: Dns,
}

impl Config {
    /// Returns the first pool of the file; `None` if there is none.
    pub fn pool(&self) -> Option<&PoolConfig> {
        self.pools.iter().find(|pool| pool.origin == PoolOrigin::Table)
    }

    /// Returns the pools of the file in its order; routes refer to them by index.
    pub fn table_pools(&self) -> impl Iterator<Item = &PoolConfig> {
        self.pools.iter().filter(|pool| pool.origin == PoolOrigin::Table)
    }

    /// The members of [`pool`](Self::pool); a proxy has none.
    pub fn members(&self) -> &[MemberSettings] {
        self.pool().map_or(&[], |pool| &pool.members)
    }

    /// Returns warnings about legal settings that are known to cause trouble, with remedies.
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

    /// Warns of stateless forwarding beside connections. Nothing is retransmitted then: the process does not, and a
    /// client over a connection does not either.
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
                "{table}.forward = \"stateless\": beside {} a message that is lost over UDP is not retransmitted, \
                 and its call hangs; set forward = \"transaction\"",
                transport.name().to_uppercase()
            ))
        })
    }

    /// Warns of a key for many servers, and of members whose monitors have no key.
    fn key_warnings(&self) -> Vec<String> {
        let Some(capacity) = &self.capacity else { return Vec::new() };
        if capacity.keys.shared.is_some() {
            let text = "capacity.keys.\"*\": each monitor with this key can announce any capacity for every server \
                        without its own key; give each server its own key";
            return vec![text.to_owned()];
        }
        let is_monitored = |pool: &&PoolConfig| {
            pool.settings.queue.as_ref().is_some_and(|queue| queue.source == CapacitySource::Announced)
        };
        let monitored = self.pools.iter().filter(is_monitored);
        let members = monitored.flat_map(|pool| pool.members.iter().map(move |member| (pool, member)));
        let own = &capacity.keys.own;
        let literal = |server: &ServerName| {
            let members = self.pools.iter().flat_map(|pool| &pool.members);
            members
                .filter_map(|member| match &member.address {
                    Address::Socket(peer) => Some(ServerName::Address(peer.address)),
                    _ => None,
                })
                .any(|member| member == *server)
        };
        // An address that no member has may belong to a name.
        let has_others =
            own.keys().any(|server| matches!(server, ServerName::Address(_)) && !literal(server));
        let has_key = |address: &Address| match address {
            Address::Socket(peer) => own.contains_key(&ServerName::Address(peer.address)),
            name => {
                has_others || name.to_string().parse().is_ok_and(|name: ServerName| own.contains_key(&name))
            }
        };
        let without = members.filter(|(_, member)| !has_key(&member.address)).map(|(pool, member)| format!(
            "capacity.keys: {}, a member of pool.{}, has no key, so no monitor can announce its capacity; add a key",
            member.address, pool.settings.name
        ));
        without.collect()
    }

    /// Warns of neighbours in very large networks, and of next hops that divide state but are no neighbours.
    fn neighbour_warnings(&self) -> Vec<String> {
        let Some(distribution) = &self.distribution else { return Vec::new() };
        let neighbours = &distribution.neighbours;
        // The largest private networks are 10.0.0.0/8 and fc00::/7.
        let is_wide = |network: &&Network| network.length() < if network.first().is_ipv4() { 8 } else { 7 };
        let wide = neighbours.iter().filter(is_wide).map(|network| {
            format!(
                "distribution.neighbours: {network} contains more than your proxies, and other senders in it could \
                have calls forwarded without state; list the addresses of the proxies"
            )
        });
        let sharers =
            self.pools.iter().filter(|pool| pool.settings.service.forward() == Forward::Distributed);
        let hops = sharers.flat_map(|pool| pool.members.iter().map(move |member| (pool, member)));
        let outsiders = hops.filter_map(|(pool, member)| match &member.address {
            Address::Socket(peer) if !neighbours.iter().any(|it| it.contains(peer.address.ip())) => Some(format!(
                "distribution.neighbours: {}, a next hop of `{}`, is in none of them: this proxy keeps the state of \
                 all calls to it; add it if it shares state",
                peer.address, pool.settings.name
            )),
            _ => None,
        });
        wide.chain(outsiders).collect()
    }

    /// Returns a summary in a few words.
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

/// A number with its noun.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Number of members in the file. A name may stand for several, or for none.
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
    /// Domains, limits of registrations, and authentication.
    pub settings: RegistrarSettings,
    /// Digest algorithms that the file names; `None`: the most widely supported algorithm that the users have hashes
    /// of.
    pub algorithms: Option<Offer>,
    /// Where passwords are stored; `None`: no password is needed.
    pub users: Option<UsersPlace>,
    /// Where bindings are stored; `None`: in a file beside the configuration.
    pub store: Option<StorePlace>,
}

/// Where passwords of users are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsersPlace {
    /// A file.
    File(PathBuf),
    /// A `PostgreSQL` database.
    Database(ServerUrl),
}

/// Where bindings are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// In this process only.
    Memory,
    /// A file.
    File(PathBuf),
    /// A Redis or Valkey server.
    Redis(ServerUrl),
}

/// Origin of a pool.
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
    /// Origin of the pool.
    pub origin: PoolOrigin,
    /// Settings for the control plane. The pool's name is the `<name>` of the table, or `proxy`, or `route.` and the
    /// name of the route.
    pub settings: PoolSettings,
    /// At least one member; no two are equal; in the order of the file.
    pub members: Vec<MemberSettings>,
    /// `max_calls` and `max_rate` of members without their own.
    pub limits: [u32; 2],
    /// Weights, times and limit of sessions, over all threads.
    pub sessions: balance::SessionSettings,
    /// How its servers are started and stopped; `None`: not at all.
    pub scale: Option<ScaleConfig>,
}

/// Text about how new calls are assigned: by the policy, or by the queue, with the source of its capacities.
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
                "pool.{name}: probe.fall = 1: under load one late answer makes a member dead, and the other members \
                 get its calls; set 2 or more"
            )
        })
    }
}

/// `[token]`
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// `SipHash` key of new tokens; `None`: the file has none, and a random one is made.
    pub key: Option<[u8; 16]>,
    /// Keys whose tokens are still accepted.
    pub previous_keys: Vec<[u8; 16]>,
    /// Time for which a token is accepted.
    pub lifetime: Duration,
}

/// Without the keys: configurations are written to logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("key", &self.key.map(|_| "secret"))
            .field("previous_keys", &self.previous_keys.len())
            .field("lifetime", &self.lifetime)
            .finish()
    }
}

/// A bearer token for the admin interface.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(String);

impl Bearer {
    /// Smallest number of characters, so that it cannot be guessed.
    const MIN: usize = 16;

    /// Reads a token of RFC 6750 §2.1 (`b64token`); `None` if the text is none, or too short.
    pub fn parse(text: &str) -> Option<Self> {
        let characters = text.trim_end_matches('=');
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let good = characters.len() >= Self::MIN && characters.bytes().all(is_token);
        good.then(|| Self(text.to_owned()))
    }

    /// Reads a token from the content of a file, with or without a line end.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::parse(std::str::from_utf8(bytes).ok()?.trim())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Without the text: configurations are written to logs.
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
    /// Token that requests need; `None`: the file has none.
    pub token: Option<Bearer>,
    /// The web page.
    pub page: AdminPage,
    /// Whether the metrics have histograms of each member, not only of each pool.
    pub member_histograms: bool,
}

/// Web page of the admin interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminPage {
    /// No page.
    Off,
    /// The page changes nothing.
    ReadOnly,
    /// The page can drain members.
    Drain,
}

/// `[capacity]`. `Debug` does not print the keys.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityConfig {
    /// TCP listener of updates.
    pub listen: SocketAddr,
    /// Keys by server. No two are equal.
    pub keys: Arc<UpdateKeys>,
    /// Networks that may connect.
    pub from: Access,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Lowest severity that is written.
    pub level: Level,
    /// Format of a line.
    pub format: LogFormat,
}

/// Severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Nothing is written.
    Off,
    /// A person has to act.
    Error,
    /// A person may have to act soon.
    Warn,
    /// Life of the process and of its members.
    Info,
    /// Each failed request, with the reason.
    Debug,
    /// As `Debug`; for libraries that `RUST_LOG` names.
    Trace,
}

impl Level {
    /// The name in the file, which log filters use as well.
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

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[stop]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Longest wait for calls in progress after SIGTERM; zero: none.
    pub wait: Duration,
}

/// `[dns]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// Time between two look-ups of a member's name.
    pub refresh: Duration,
    /// DNS servers; empty: the DNS servers of the system.
    pub servers: Vec<SocketAddr>,
}
