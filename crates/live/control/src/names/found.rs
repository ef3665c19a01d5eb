//! What a look-up found, and which part of it failed.

use base::Transport;
use std::net::{IpAddr, SocketAddr};

/// An address that a name stands for, and what it is worth relative to the mean of the name's targets.
pub type Share = (SocketAddr, f64);

/// What was said of a host, IPv4 first. No address is an answer, too.
pub type Families = [Result<Vec<IpAddr>, String>; 2];

/// A host that a name stands for.
#[derive(Clone, PartialEq, Debug)]
struct Target {
    host: String,
    port: u16,
    share: f64,
    addresses: Families,
}

/// What a look-up found. Each family of each host was answered or failed by itself.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FoundAddresses {
    targets: Vec<Target>,
    /// What they are reached over, if the question has left that open.
    transport: Option<Transport>,
    /// What to say if it has no address: which records there were none of.
    absent: String,
}

impl FoundAddresses {
    /// Hosts with their port, their share and their addresses; and what to say if there is none.
    pub fn new(targets: impl IntoIterator<Item = (String, u16, f64, Families)>, absent: String) -> Self {
        let target = |(host, port, share, addresses)| Target { host, port, share, addresses };
        Self { targets: targets.into_iter().map(target).collect(), transport: None, absent }
    }

    /// The same over this transport.
    #[must_use]
    pub(super) fn over(self, transport: Option<Transport>) -> Self {
        Self { transport, ..self }
    }

    /// What the addresses are reached over, if the question has left that open.
    pub fn transport(&self) -> Option<Transport> {
        self.transport
    }

    /// The addresses, in an order that does not change; none if the name has none.
    pub fn shares(&self) -> Vec<Share> {
        let of = |target: &Target| {
            let (port, share) = (target.port, target.share);
            let ips = target.addresses.iter().flatten().flatten();
            ips.map(|&ip| (SocketAddr::new(ip, port), share)).collect::<Vec<_>>()
        };
        let mut shares: Vec<_> = self.targets.iter().flat_map(of).collect();
        // Answers come in changing order; slots and shares should not.
        shares.sort_by_key(|&(address, _)| address);
        shares
    }

    /// Whether this is one of the addresses.
    pub(super) fn has(&self, at: SocketAddr) -> bool {
        let is_there = |ips: &Vec<IpAddr>| ips.contains(&at.ip());
        let mut there = self.targets.iter().filter(|target| target.port == at.port());
        there.any(|target| target.addresses.iter().flatten().any(is_there))
    }

    /// What the DNS had none of, where no address was found and nothing failed.
    pub fn absent(&self) -> &str {
        &self.absent
    }

    /// How a part of it failed, if one did.
    pub fn failure(&self) -> Option<&str> {
        let mut families = self.targets.iter().flat_map(|target| &target.addresses);
        families.find_map(|family| family.as_ref().err()).map(String::as_str)
    }

    /// What failed keeps the addresses that it had: only an answer takes one away.
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
