//! The balancing papers' experiments before servers that somebody else wrote: what INVITE and BYE cost there, and what
//! callers notice of the way in which calls are shared out.
//!
//! - [`Product`]: the servers. [`ClusterBench`]: the programs, and what each server may use of a processor.
//! - [`costs`]: processor time of each kind of transaction, by least squares.
//! - [`sweep`]: rising loads before a cluster, by one way. [`runs`]: all of them, and their file.
//! - [`simulated`]: the same in the simulator, at these costs.
//! - [`verdict`]: what the papers state, and whether it holds.
//!
//! Callers repeat INVITE and BYE as RFC 3261 has it (§17.1), come at random, and hold calls for normally distributed
//! times.

pub mod costs;
mod fit;
mod pauses;
pub mod runs;
mod servers;
pub mod simulated;
pub mod sweep;
pub mod verdict;
mod ways;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

pub use fit::fit;
pub use pauses::{Pause, pauses};
pub use servers::{Product, Servers};
pub use ways::Way;

/// The processor of the servers. Callers and balancer are on the last one.
const SERVERS: usize = 0;
/// Sockets of the callers.
const CALLERS: usize = 4;

/// What is measured.
pub struct ClusterBench {
    /// The program under test.
    pub sarabande: PathBuf,
    /// Kamailio's program.
    pub kamailio: PathBuf,
    /// Folder of the server in Java, with its `target`.
    pub java: PathBuf,
    /// Of what is drawn.
    pub seed: u64,
}

/// What a Kamailio has for what its processes share.
const KAMAILIO_MEGABYTES: u32 = 256;

/// The address of a server, from 0.
fn server(index: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 79, 0, index as u8 + 1)), 5060)
}

/// The balancer's address, at this port.
fn balancer(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 79, 0, 99)), port)
}
