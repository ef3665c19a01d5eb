//! Admission of connections, once the address of the client is known and before TLS starts.

use super::counts::CloseReason;
use super::limits::ConnectionPlace;
use super::settings::StreamSettings;
use base::{Flow, Instant};
use route::Access;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Access lists of listeners, and hosts that are exempt.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Admission {
    /// Access list of each port, by its index; ports beyond the end admit all clients.
    pub access: Vec<Access>,
    /// Hosts of members and next hops. They may open any number of connections, since each of their messages is
    /// checked.
    pub nodes: BTreeSet<IpAddr>,
}

impl Admission {
    /// Whether a client at this address may connect to this port.
    fn admits(&self, port: u16, ip: IpAddr) -> bool {
        self.access.get(usize::from(port)).is_none_or(|access| access.admits(ip))
    }

    pub(super) fn is_node(&self, ip: IpAddr) -> bool {
        self.nodes.contains(&ip.to_canonical())
    }
}

/// Admits a connection from the client of this flow, or returns the reason for closing it.
pub(super) fn admit(
    settings: &StreamSettings,
    now: Instant,
    flow: Flow,
    place: &mut ConnectionPlace,
) -> Result<(), CloseReason> {
    let ip = flow.peer.ip();
    if !settings.admission.is_node(ip) {
        if !settings.admission.admits(flow.listener, ip) {
            return Err(CloseReason::Denied);
        }
        place.begin(now, ip)?;
    }
    Ok(place.count(ip)?)
}
