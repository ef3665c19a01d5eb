//! The messages between the two processes of a takeover.

use base::{Peer, Transport};
use serde::{Deserialize, Serialize};
use shards::{NodeStates, state};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// First bytes that the successor sends. The number changes when the rest of the exchange changes, or the hash that
/// assigns calls to threads.
pub(super) const GREETING: &[u8] = b"sarabande takeover 3\n";
/// Longest silence of either process during the exchange.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Message of the successor that the predecessor must not read the sockets again: the successor ends regularly, or no
/// longer waits for the predecessor.
pub(super) const RELEASE: u8 = b'r';
/// Interval at which the predecessor is asked for its remaining work.
pub(super) const PERIOD: Duration = Duration::from_millis(100);
/// Limit of a text in the exchange in bytes: 256 addresses, 65,535 members.
const LONGEST: u32 = 16 << 20;

/// Returns the sockets at which a process with the configuration at `path` may listen for a successor. The usual socket
/// is first: `sarabande.sock` for `sarabande.toml`.
pub(crate) fn socket_paths(path: &Path) -> Vec<PathBuf> {
    state::places(path, "sock")
}

/// The predecessor's offer. Descriptors follow: first the sets, set by set, then the admin interface.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Offer {
    /// Process ID of the predecessor.
    pub(super) pid: u32,
    /// Network namespace of the predecessor; `None` if unknown.
    pub(super) network: Option<u64>,
    pub(super) listeners: Vec<SocketAddr>,
    /// Number of sets. Each set has a socket for each address, in the same order.
    pub(super) sets: usize,
    /// Whether the admin interface has a listener.
    pub(super) admin: bool,
    /// Listening sockets of connections: transport and address. Their descriptors come last.
    pub(super) streams: Vec<(String, SocketAddr)>,
}

/// Returns the network namespace of this process as its inode (namespaces(7)); `None` if `/proc` is not mounted.
pub(super) fn network_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/net").ok().map(|namespace| namespace.ino())
}

impl Offer {
    /// Returns whether the offered sockets belong to another network namespace. Equal addresses are then different
    /// endpoints.
    pub(super) fn is_of_other_network(&self) -> bool {
        self.network.zip(network_namespace()).is_some_and(|(theirs, ours)| theirs != ours)
    }

    /// Returns the predecessor's number of the port with this address. Ports of datagrams come first.
    pub(super) fn number_of(&self, at: Peer) -> Option<usize> {
        if at.transport == Transport::Udp {
            return self.listeners.iter().position(|address| *address == at.address);
        }
        let mut known = Vec::new();
        for stream in &self.streams {
            if !known.contains(&stream) {
                known.push(stream);
            }
        }
        let is_it = |(transport, address): &&(String, SocketAddr)| {
            transport == at.transport.name() && *address == at.address
        };
        known.into_iter().position(|stream| is_it(&stream)).map(|place| self.listeners.len() + place)
    }
}

/// Offered sockets that the successor reads from now on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) listeners: Vec<bool>,
    /// For each entry of [`Offer::streams`], whether the successor accepts connections there.
    pub(super) streams: Vec<bool>,
}

impl Taken {
    /// Returns whether the successor accepts connections at the listening socket with this index in the offer.
    pub(super) fn serves(&self, place: usize) -> bool {
        self.streams.get(place) == Some(&true)
    }
}

/// Calls that the predecessor keeps, sent after it has stopped reading. A descriptor for each thread follows, then the
/// hashes of the calls.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Number of threads that own calls.
    pub(super) threads: usize,
    /// Hash function of their Call-IDs.
    pub(super) call_hash: [u64; 2],
    pub(super) calls: u64,
    #[serde(flatten)]
    pub(super) node_states: NodeStates,
}

/// Stages of the takeover from a predecessor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Succession {
    /// The successor reads the sockets.
    Started,
    /// The successor was killed, and the predecessor reads the sockets again.
    GivenBack,
    /// The successor has ended regularly, or no longer waits for the predecessor, which gets no more messages.
    Over,
}

pub(super) fn is_served(path: &Path) -> bool {
    connect(path).is_ok()
}

pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    Near::to(path).and_then(|near| UnixStream::connect(near.path()))
}

/// Sends a value as JSON, preceded by its length.
pub(super) fn send(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(value).map_err(io::Error::other)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    stream.write_all(&length.to_ne_bytes())?;
    stream.write_all(&text)
}

pub(super) fn receive<T: for<'a> Deserialize<'a>>(stream: &mut UnixStream) -> io::Result<T> {
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

/// A path short enough for the address of a Unix socket, 108 bytes (unix(7)), whatever the length of its folder.
pub(super) struct Near {
    /// Kept open as long as the path is used.
    _folder: File,
    path: PathBuf,
}

impl Near {
    pub(super) fn to(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new(".")))?;
        let name = path.file_name().unwrap_or_default();
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { _folder: folder, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
