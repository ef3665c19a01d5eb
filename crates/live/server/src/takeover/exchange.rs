//! What the two processes of a take-over say to each other, and how.

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

/// The first bytes of the successor; another number when the rest of the exchange changes.
pub(super) const GREETING: &[u8] = b"sarabande takeover 2\n";
/// Longest silence of a process that is asked to hand its sockets over, or that has asked.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Word that nothing is left to do when the successor ends: it ends as it should, or waits no longer.
pub(super) const RELEASE: u8 = b'r';
/// How often the predecessor reports its remaining work.
pub(super) const PERIOD: Duration = Duration::from_millis(100);
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
pub(super) struct Offer {
    /// Its process.
    pub(super) pid: u32,
    /// Its network namespace; `None`: it does not know.
    pub(super) network: Option<u64>,
    /// The addresses of the sockets of a set.
    pub(super) listeners: Vec<SocketAddr>,
    /// How many sets there are: each has a socket for each address, in that order.
    pub(super) sets: usize,
    /// Whether there is a listener of the admin interface.
    pub(super) admin: bool,
    /// Listening sockets of connections: transport and address. Their descriptors come last.
    pub(super) streams: Vec<(String, SocketAddr)>,
}

/// The network namespace of this process, by its inode (namespaces(7)); `None` where `/proc` is not mounted.
pub(super) fn network_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/net").ok().map(|namespace| namespace.ino())
}

impl Offer {
    /// Whether its sockets are of another network: an address of theirs is not the same one here.
    pub(super) fn is_of_other_network(&self) -> bool {
        self.network.zip(network_namespace()).is_some_and(|(theirs, ours)| theirs != ours)
    }

    /// The number of its port that is at the address of this one. Those of datagrams come first.
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

/// Which of the offered addresses the successor reads from now on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) listeners: Vec<bool>,
    /// Of [`Offer::streams`], whether the successor accepts connections there.
    pub(super) streams: Vec<bool>,
}

impl Taken {
    /// Whether the successor accepts connections at the listening socket in this place of the offer.
    pub(super) fn serves(&self, place: usize) -> bool {
        self.streams.get(place) == Some(&true)
    }
}

/// The calls that the predecessor keeps, once it has stopped reading. A descriptor for each thread follows, and the
/// hashes of the calls.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// How many threads own calls.
    pub(super) threads: usize,
    /// How their Call-IDs are hashed.
    pub(super) call_hash: [u64; 2],
    /// How many calls there are.
    pub(super) calls: u64,
    #[serde(flatten)]
    pub(super) node_states: NodeStates,
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
pub(super) fn is_served(path: &Path) -> bool {
    connect(path).is_ok()
}

pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    Near::to(path).and_then(|near| UnixStream::connect(near.path()))
}

/// Sends a value as text with its length before it.
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

/// A path that fits the address of a Unix socket, 108 bytes (unix(7)), whatever the folder is called.
pub(super) struct Near {
    /// Open as long as the path is used.
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
