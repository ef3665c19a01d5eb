//! `[hep]`

use std::fmt;

/// `[hep]`
#[derive(Clone, PartialEq)]
pub struct HepConfig {
    /// The collector.
    pub to: HepTarget,
    /// Calls that are copied.
    pub calls: HepCalls,
    /// Share of the calls that are copied.
    pub share: f64,
    /// Number of this capture agent.
    pub id: u32,
    /// Name of this node; empty for none.
    pub node: String,
    /// Password of the collector; empty for none.
    pub password: String,
}

/// Without the password: configurations are written to logs.
impl fmt::Debug for HepConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, calls, share, id, node, password: _ } = self;
        write!(f, "HepConfig {{ {to}, {calls:?}, share: {share}, id: {id}, node: {node:?} }}")
    }
}

/// Calls that are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HepCalls {
    /// All calls.
    All,
    /// Calls that fail.
    Failed,
}

/// Address of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HepTarget {
    /// Whether it is reached over TCP; otherwise over UDP.
    pub is_tcp: bool,
    /// Its name, or its IP address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for HepTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_tcp, host, port } = self;
        let transport = if *is_tcp { "tcp" } else { "udp" };
        if host.contains(':') {
            write!(f, "{transport}:[{host}]:{port}")
        } else {
            write!(f, "{transport}:{host}:{port}")
        }
    }
}
