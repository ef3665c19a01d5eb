//! Resources of a test: a block of loopback addresses and a scratch folder.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;

/// SIP's default port (RFC 3261 §19.1.2). Every address of a block is free, so each end can use it.
const SIP_PORT: u16 = 5060;

/// Port that claims a whole block, at its address 254.
const CLAIM_PORT: u16 = 9009;

/// A block 127.x.y.0/24 and a folder, for one test.
///
/// The block is claimed by binding a socket in it, so that no two tests, even of several processes, share one.
#[derive(Debug)]
pub struct TestSite {
    block: [u8; 2],
    folder: PathBuf,
    _claim: UdpSocket,
}

impl TestSite {
    /// Claims a block and creates the folder for the test called `name`.
    pub fn new(name: &str) -> Self {
        // 127.0.y.z is left to other programs of the machine.
        let (block, claim) = (1..=254u8)
            .flat_map(|x| (0..=255u8).map(move |y| [x, y]))
            .find_map(|block| {
                let lock = Ipv4Addr::new(127, block[0], block[1], 254);
                UdpSocket::bind((lock, CLAIM_PORT)).ok().map(|s| (block, s))
            })
            .expect("one of 65,000 loopback blocks is free");
        let folder = std::env::temp_dir().join(format!("sarabande-{}-{name}", process::id()));
        fs::create_dir_all(&folder).expect("the scratch folder can be made");
        Self { block, folder, _claim: claim }
    }

    /// Returns the address `127.x.y.host`.
    pub fn ip(&self, host: u8) -> IpAddr {
        Ipv4Addr::new(127, self.block[0], self.block[1], host).into()
    }

    /// Returns `127.x.y.host` with the SIP port.
    pub fn sip(&self, host: u8) -> SocketAddr {
        SocketAddr::new(self.ip(host), SIP_PORT)
    }

    /// Returns a port for end `n`, if all ends share one address (IPv6 has a single loopback address).
    pub fn port(&self, n: u8) -> u16 {
        20_000 + u16::from(self.block[1]) * 100 + u16::from(n)
    }

    /// Returns the path of the scratch folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file to the scratch folder, creates its folders, and returns its path.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let file = self.folder.join(name);
        let folder = file.parent().expect("it is in the scratch folder");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&file, text))
            .expect("the scratch folder can be written");
        file
    }
}

impl Drop for TestSite {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("logs are kept in {}", self.folder.display());
        } else {
            // A folder that stays does no harm; the test has passed.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Returns a new folder in this one, so that a restarted program does not read its predecessor's files.
pub(crate) fn fresh(folder: &Path, name: &str) -> PathBuf {
    let name = name.replace(['[', ']', ':'], "_");
    let path = |number: u32| folder.join(format!("{name}-{number}"));
    (0..1000).map(path).find(|path| !path.exists()).expect("a test starts less than 1000 of a kind")
}

/// Asks the kernel whether a socket is bound to `address`. A test message would count as a call at SIPp, and binding a
/// socket would take the address from the process that is about to bind it.
pub(crate) fn listens(address: SocketAddr) -> bool {
    let (tables, ip) = match address.ip() {
        IpAddr::V4(ip) => {
            (["/proc/net/udp", "/proc/net/tcp"], format!("{:08X}", u32::from_le_bytes(ip.octets())))
        }
        IpAddr::V6(ip) => {
            let words = ip.octets();
            let words =
                words.as_chunks::<4>().0.iter().map(|word| format!("{:08X}", u32::from_le_bytes(*word)));
            (["/proc/net/udp6", "/proc/net/tcp6"], words.collect())
        }
    };
    let wanted = format!(" {ip}:{:04X} ", address.port());
    tables.iter().any(|table| fs::read_to_string(table).unwrap_or_default().contains(&wanted))
}
