//! A start while another process of the same configuration runs: the new one takes over its sockets, so that no
//! datagram meets a closed port or a process that refuses calls.
//!
//! The running process, the predecessor, listens on a Unix socket in the state directory of the service, or beside
//! the configuration ([`offer`]). The new one, the successor, connects to it ([`claim`]) and gets its UDP sockets and
//! the listener of the admin interface (`SCM_RIGHTS`). It makes all ready that it needs while the predecessor goes
//! on, and then says which sockets it takes. The predecessor stops reading those; what comes in the moment until the
//! successor reads them waits in the kernel.
//!
//! Calls and transactions stay with the predecessor until they are over. It says which they are ([`owned`]); the
//! successor hands it their datagrams, as one thread hands them to another, and the answers leave through the
//! predecessor's own copies of the sockets. It also says how much each member has to do for these calls, so that
//! policies count them.
//!
//! Whichever of the two ends, by `kill -9` too, the other one goes on alone: the predecessor reads its sockets again,
//! the successor treats the predecessor's calls like those of a process that was killed.

pub(crate) mod claim;
pub(crate) mod offer;
pub(crate) mod owned;
mod passing;

use crate::state;
use balance::{Load, NodeId};
use offer::Near;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first bytes of the successor; another number when the rest of the exchange changes.
const GREETING: &[u8] = b"sarabande takeover 1\n";
/// Longest silence of a process that is asked to hand its sockets over, or that has asked.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the predecessor reports its remaining work.
const PERIOD: Duration = Duration::from_millis(100);
/// Bytes of a text in the exchange: 256 addresses, 65,535 members.
const LONGEST: u32 = 16 << 20;

/// The sockets at which a process with the configuration at `path` may listen for a successor, the usual one first:
/// `sarabande.sock` for `sarabande.toml`.
pub(crate) fn socket_paths(path: &Path) -> Vec<PathBuf> {
    state::places(path, "sock")
}

/// The state that the predecessor hands over. Descriptors follow: of the sets, set by set, and of the admin
/// interface.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    /// Its process.
    pid: u32,
    /// The addresses of the sockets of a set.
    listeners: Vec<SocketAddr>,
    /// How many sets there are: each has a socket for each address, in that order.
    sets: usize,
    /// Whether there is a listener of the admin interface.
    admin: bool,
}

/// Which of the offered addresses the successor reads from now on.
#[derive(Debug, Serialize, Deserialize)]
struct Taken {
    listeners: Vec<bool>,
}

/// The calls that the predecessor keeps, once it has stopped reading. A descriptor for each thread follows, and the
/// hashes of the calls.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// How many threads own calls.
    threads: usize,
    /// How their Call-IDs are hashed.
    call_hash: [u64; 2],
    /// How many calls there are.
    calls: u64,
    #[serde(flatten)]
    findings: Findings,
}

/// State of the nodes at the predecessor, each by its number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// Nodes that an operator has drained.
    pub(crate) drained: Vec<u32>,
    /// Nodes that the scaler of their pool has drained.
    #[serde(default)]
    pub(crate) drained_by_scaler: Vec<u32>,
    /// Dead nodes.
    #[serde(default)]
    pub(crate) dead: Vec<u32>,
    /// Learned capacities of members of pools with queues: the pool's name, the node, calls a second.
    #[serde(default)]
    pub(crate) capacities: Vec<(String, u32, f64)>,
}

/// Remaining work of the predecessor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Remainder {
    /// Calls, or requests of a proxy that wait for their answer.
    pub(crate) calls: usize,
    /// By the number of a node: calls, transactions, work.
    nodes: BTreeMap<u32, (u32, u32, u64)>,
}

impl Remainder {
    /// Adds the work of a thread.
    fn add(&mut self, loads: &[(NodeId, Load)]) {
        for &(NodeId(node), Load { calls, transactions, work }) in loads {
            let sum = self.nodes.entry(node).or_default();
            *sum = (sum.0 + calls, sum.1 + transactions, sum.2 + work);
        }
    }

    /// Adds the work of another process.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.calls += other.calls;
        self.add(&other.loads().collect::<Vec<_>>());
    }

    /// The loads of all nodes.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (NodeId, Load)> + '_ {
        self.nodes.keys().map(|&node| (NodeId(node), self.load(NodeId(node))))
    }

    /// The load of a node.
    fn load(&self, NodeId(node): NodeId) -> Load {
        let (calls, transactions, work) = self.nodes.get(&node).copied().unwrap_or_default();
        Load { calls, transactions, work }
    }
}

/// The stages of a predecessor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Succession {
    /// The other one reads the sockets.
    Begun,
    /// It was killed: this one reads them again.
    GivenBack,
    /// It has ended as it should, or waits no longer for this one, which gets nothing any more.
    Over,
}

/// Whether a process listens there.
fn is_served(path: &Path) -> bool {
    connect(path).is_ok()
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    Near::to(path).and_then(|near| UnixStream::connect(near.path()))
}

/// Sends a value as text with its length before it.
fn send(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(value).map_err(io::Error::other)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    stream.write_all(&length.to_ne_bytes())?;
    stream.write_all(&text)
}

fn receive<T: for<'a> Deserialize<'a>>(stream: &mut UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_ne_bytes(length);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length as usize];
    stream.read_exact(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}
