//! Result of a look-up: addresses, and which part failed.

use base::Transport;
use std::net::{IpAddr, SocketAddr};

/// An address of a name, and its share relative to the mean of the name's targets.
pub type Share = (SocketAddr, f64);

/// Answers about a host, IPv4 first. An empty list is an answer, too.
pub type Families = [Result<Vec<IpAddr>, String>; 2];

/// A host of a name.
#[derive(Clone, PartialEq, Debug)]
struct Target {
    host: String,
    port: u16,
    share: f64,
    addresses: Families,
}

/// Result of a look-up. Each address family of each host has its own answer or error.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FoundAddresses {
    targets: Vec<Target>,
    /// Transport of the targets, if the question left it open.
    transport: Option<Transport>,
    /// Error text if there is no address: the records that do not exist.
    absent: String,
}

impl FoundAddresses {
    /// Creates a result from hosts with port, share and addresses. `absent` is the error text if there is no address.
    pub fn new(targets: impl IntoIterator<Item = (String, u16, f64, Families)>, absent: String) -> Self {
        let target = |(host, port, share, addresses)| Target { host, port, share, addresses };
        Self { targets: targets.into_iter().map(target).collect(), transport: None, absent }
    }

    #[must_use]
    pub(super) fn over(self, transport: Option<Transport>) -> Self {
        Self { transport, ..self }
    }

    /// Returns the transport of the addresses, if the question left it open.
    pub fn transport(&self) -> Option<Transport> {
        self.transport
    }

    /// Returns the addresses in a stable order; empty if the name has none.
    pub fn shares(&self) -> Vec<Share> {
        let of = |target: &Target| {
            let (port, share) = (target.port, target.share);
            let ips = target.addresses.iter().flatten().flatten();
            ips.map(|&ip| (SocketAddr::new(ip, port), share)).collect::<Vec<_>>()
        };
        let mut shares: Vec<_> = self.targets.iter().flat_map(of).collect();
        // The order of DNS answers changes; slots and shares must not.
        shares.sort_by_key(|&(address, _)| address);
        shares
    }

    pub(super) fn has(&self, at: SocketAddr) -> bool {
        let is_there = |ips: &Vec<IpAddr>| ips.contains(&at.ip());
        let mut there = self.targets.iter().filter(|target| target.port == at.port());
        there.any(|target| target.addresses.iter().flatten().any(is_there))
    }

    /// Returns the records that do not exist, if no address was found and nothing failed.
    pub fn absent(&self) -> &str {
        &self.absent
    }

    /// Returns the error of a failed part; `None` if nothing failed.
    pub fn failure(&self) -> Option<&str> {
        let mut families = self.targets.iter().flat_map(|target| &target.addresses);
        families.find_map(|family| family.as_ref().err()).map(String::as_str)
    }

    /// Keeps the former addresses of failed parts. Only an answer removes an address.
    pub(super) fn keep(&mut self, former: &Self) {
        for target in &mut self.targets {
            let Some(known) = former.targets.iter().find(|known| known.host == target.host) else { continue };
            for (family, known) in target.addresses.iter_mut().zip(&known.addresses) {
                if family.is_err() && known.is_ok() {
                    family.clone_from(known);
                }
            }
        }
    }
}
