//! Who may connect: asked once the address of the client is known, before TLS or anything else begins.

use super::counts::CloseReason;
use super::limits::ConnectionPlace;
use super::settings::StreamSettings;
use base::{Flow, Instant};
use route::Access;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The access lists of listeners, and the hosts for which they are not asked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Admission {
    /// The access list of each port, by its index; beyond the end everyone may connect.
    pub access: Vec<Access>,
    /// Hosts of members and next hops. They may always connect, and as often as they like: each of their messages is judged.
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

/// Takes in a connection from the client at the other end of this flow, or says why not.
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
