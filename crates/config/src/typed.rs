//! The checked configuration, in the types that the rest of the program works with.
//!
//! Every value here is legal: ranges, families, duplicates and references between keys have been checked by
//! [`crate::parse`], so that readers need no second look.

use crate::kind::{Kind, MemberAddress};
use crate::setting::Leaf;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// Port of SIP over UDP where an address names none (RFC 3261 §19.1.2).
pub const SIP_PORT: u16 = 5060;

/// One configuration file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Sockets and the names of this balancer.
    pub listen: Listen,
    /// What the process is.
    pub role: Role,
    /// How long leases and sessions live.
    pub timers: Timers,
    /// Keys of the tokens in Record-Route and Via.
    pub token: Token,
    /// The admin HTTP listener.
    pub admin: Admin,
    /// Log level and format.
    pub log: Log,
    /// What SIGTERM does.
    pub stop: Stop,
    /// Name resolution of members.
    pub dns: Dns,
}

/// What a process is: a file has either table.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// `[pool.<name>]`: a balancer in front of servers.
    Pool(Pool),
    /// `[proxy]`: a transaction-stateful proxy.
    Proxy(Proxy),
}

impl Config {
    /// The pool, if this is a balancer.
    pub fn pool(&self) -> Option<&Pool> {
        match &self.role {
            Role::Pool(pool) => Some(pool),
            Role::Proxy(_) => None,
        }
    }

    /// The proxy's table, if this is one.
    pub fn proxy(&self) -> Option<&Proxy> {
        match &self.role {
            Role::Pool(_) => None,
            Role::Proxy(proxy) => Some(proxy),
        }
    }

    /// The members of the pool; a proxy has none.
    pub fn members(&self) -> &[Member] {
        self.pool().map_or(&[], |pool| &pool.members)
    }

    /// In a few words, for people.
    pub fn summary(&self) -> String {
        match &self.role {
            Role::Pool(pool) => format!("{}, policy {}", members(&pool.members), pool.policy),
            Role::Proxy(proxy) if proxy.next.len() == 1 => format!("proxy, next hop {}", proxy.next[0]),
            Role::Proxy(proxy) => format!("proxy, {} next hops", proxy.next.len()),
        }
    }
}

/// How many members are in the file: a name may stand for several, or for none.
fn members(members: &[Member]) -> String {
    let names = members.iter().filter(|member| !matches!(member.address, Address::Socket(_))).count();
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    };
    match (members.len() - names, names) {
        (addresses, 0) => counted(addresses, "member"),
        (0, names) => format!("members by {}", counted(names, "name")),
        (addresses, names) => {
            format!("{} and members by {}", counted(addresses, "member"), counted(names, "name"))
        }
    }
}

/// `[proxy]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Where requests go; at least one, no two alike.
    pub next: Vec<SocketAddr>,
    /// Timer C; more than three minutes.
    pub timer_c: Duration,
    /// Most transactions at a time.
    pub max_transactions: usize,
    /// Most bytes of memory for them and their messages.
    pub max_memory: usize,
}

/// `[listen]`
#[derive(Debug, Clone, PartialEq)]
pub struct Listen {
    /// At least one; no two with the same `bind`.
    pub udp: Vec<UdpListener>,
    /// Lower-case `host` or `host:port` forms that mean this balancer in a Request-URI or Route; no IP addresses.
    pub names: Vec<String>,
    /// Worker threads; 0 = one a core.
    pub threads: usize,
    /// `SO_RCVBUF` asked for, in bytes a socket.
    pub receive_buffer: usize,
}

/// One UDP listener.
#[derive(Debug, Clone, PartialEq)]
pub struct UdpListener {
    /// Local address; may be a wildcard, never port 0.
    pub bind: SocketAddr,
    /// Address that peers see in Via and Record-Route; never a wildcard, never port 0.
    pub advertise: Option<SocketAddr>,
}

/// `[pool.<name>]`
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// The `<name>` of the table.
    pub name: String,
    /// Who gets the next call.
    pub policy: Policy,
    /// At least one; no two alike; in the order of the file.
    pub members: Vec<Member>,
    /// What happens to in-dialog requests out of nowhere.
    pub orphans: Orphans,
    /// Time in which a server that came back ramps up from 10 % of its capacity; zero = off.
    pub slow_start: Duration,
    /// Longest rest after a 503.
    pub max_rest: Duration,
    /// The calls of a member that has been silent for so long are lost.
    pub forget_after: Duration,
    /// Most sessions.
    pub max_sessions: usize,
    /// OPTIONS probes.
    pub probe: Probe,
    /// Ejection of members that fail what the others do not.
    pub outlier: Outlier,
}

/// Work per method; methods that it does not name weigh 1.0. Names are upper-case SIP methods.
pub type Weights = BTreeMap<String, f64>;

/// The assignment policy with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// One after the other.
    RoundRobin,
    /// By Call-ID, with least disruption when a member leaves.
    Hash,
    /// By FNV hash of the Call-ID, modulo the number of members.
    FnvHash,
    /// Call-join-shortest-queue.
    Cjsq,
    /// Transaction-join-shortest-queue.
    Tjsq,
    /// Transaction-least-work-left.
    Tlwl {
        /// Always holds INVITE and BYE.
        weights: Weights,
    },
    /// Response-time weighted moving average.
    Rwma,
}

impl Policy {
    /// The name as the file has it; `tlwl` for every set of weights.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Hash => "hash",
            Self::FnvHash => "fnv-hash",
            Self::Cjsq => "cjsq",
            Self::Tjsq => "tjsq",
            Self::Tlwl { .. } => "tlwl",
            Self::Rwma => "rwma",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One server, or one name that stands for several.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Where it is.
    pub address: Address,
    /// Relative capacity, 0.001 to 1,000,000; 1.0 unless set.
    pub capacity: f64,
    /// Most calls at a time; 0 = no limit.
    pub max_calls: u32,
}

/// Where a member is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An address, the port filled in.
    Socket(SocketAddr),
    /// A name with A and AAAA records.
    Host {
        /// Lower-case, without a final dot.
        name: String,
        /// Port, where the file gives one; otherwise [`SIP_PORT`].
        port: Option<u16>,
    },
    /// A name with SRV records (RFC 2782), lower-case: `_sip._udp.example.com`.
    Srv(String),
}

impl FromStr for Address {
    type Err = String;

    /// From any form that a file may have it in; the error says what is expected.
    fn from_str(text: &str) -> Result<Self, String> {
        MemberAddress::read(&Leaf::Text(text.to_owned())).map_err(|refusal| refusal.expected)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => write!(f, "{socket}"),
            Self::Host { name, port: Some(port) } => write!(f, "{name}:{port}"),
            Self::Host { name, port: None } | Self::Srv(name) => f.write_str(name),
        }
    }
}

/// In-dialog requests that carry no token and belong to no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// Answered with 481 (Call/Transaction Does Not Exist).
    Reject481,
    /// Given to the policy as if they opened a call.
    Balance,
    /// Not answered.
    Drop,
}

/// `[pool.<name>.probe]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Whether OPTIONS probes are sent.
    pub enabled: bool,
    /// Time between two probes of a server.
    pub interval: Duration,
    /// Longest wait for an answer; at most `interval`.
    pub timeout: Duration,
    /// Probes in a row without a good answer that mark a server dead; at least 1.
    pub fall: u32,
    /// Good answers in a row that bring it back; at least 1.
    pub rise: u32,
}

/// `[pool.<name>.outlier]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlier {
    /// Whether outliers are ejected.
    pub enabled: bool,
    /// Time over which shares of failures are counted.
    pub interval: Duration,
    /// Fewest final answers from which a share is judged.
    pub min_answers: u32,
    /// Length of the first ejection.
    pub ejection: Duration,
    /// Longest ejection.
    pub max_ejection: Duration,
}

/// `[timers]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timers {
    /// Round-trip time estimate of RFC 3261 §17.1.1.1.
    pub t1: Duration,
    /// Lease of an INVITE that has a provisional answer; more than 64 * `t1`.
    pub invite: Duration,
    /// Lease of a call in which no message passes.
    pub call: Duration,
    /// How long an ended session is remembered; at least 64 * `t1`.
    pub linger: Duration,
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
