//! State of the control task. Together with the counts of the shards it is the source of all figures.

use super::{PoolName, ScaleView};
use crate::capacity::CapacityReport;
use ::control::{ListedMember, MemberName};
use balance::{PoolId, Slot};
use base::{Flow, Instant, Peer, Transport};
use node::{Port, Ports};
use shards::{MirrorCounts, RecordCounts, StoreReport};
use std::collections::BTreeMap;
use streams::tls::CertificateFacts;

/// State of the control task at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    /// Pools by their number.
    pub(crate) pools: Vec<PoolName>,
    pub(crate) stopping: bool,
    /// When the process ends even if calls remain; `None` before a stop.
    pub(crate) stops_at: Option<Instant>,
    /// Calls, or requests of a proxy, that remain at the predecessor.
    pub(crate) predecessor_calls: Option<usize>,
    /// Ports by their index.
    pub(crate) ports: Ports,
    /// Whether the configuration has no pool of members, only next hops.
    pub(crate) is_proxy: bool,
    /// The next hops.
    pub(crate) hops: Vec<Slot>,
    /// Members in the order of their slots. A slot can be empty.
    pub(crate) members: Vec<ListedMember>,
    /// Names from requests that were not looked up because too many look-ups were under way.
    pub(crate) look_ups_forgotten: u64,
    /// Members that the configuration gives as names.
    pub(crate) names: Vec<MemberName>,
    /// Counts of the written call records; `None` without call records.
    pub(crate) records: Option<RecordCounts>,
    /// Counts of copies for a collector; `None` without one.
    pub(crate) mirror: Option<MirrorCounts>,
    /// State of the stores of the home domain.
    pub(crate) stores: Vec<StoreReport>,
    /// Members that no probe connection could be opened to, with the cause.
    pub(crate) probe_troubles: BTreeMap<Peer, String>,
    /// Certificates of this process.
    pub(crate) certificates: Vec<CertificateFacts>,
    /// Counts of capacity updates; `None` without a listener for them.
    pub(crate) capacity: Option<CapacityReport>,
    /// Pools whose servers are started and stopped.
    pub(crate) scales: Vec<ScaleView>,
    /// Changes of members that are not in the file.
    pub(crate) unsaved: Vec<String>,
    /// Whether the metrics have histograms of each member.
    pub(crate) shows_member_histograms: bool,
}

impl View {
    /// Returns the name of the member at an address, if it differs from the address.
    pub(crate) fn name_at(&self, peer: Peer) -> Option<String> {
        let member = self.members.iter().find(|member| member.peer == peer)?;
        Some(&member.label).filter(|label| **label != peer.to_string()).cloned()
    }

    /// Names of pools.
    pub(crate) fn named(&self, pools: &[PoolId]) -> Vec<String> {
        let pools = pools.iter().filter_map(|pool| self.pools.iter().find(|known| known.id == *pool));
        pools.map(|pool| pool.name.clone()).collect()
    }

    /// Returns what decided the last probe of a member; `None` before the first.
    pub(crate) fn last_probe(&self, member: &ListedMember) -> Option<String> {
        let trouble = self.probe_troubles.get(&member.peer).map(|why| format!("no connection: {why}"));
        trouble.or_else(|| member.last_probe.map(|result| result.to_string()))
    }

    /// Returns the ingress flow of a message from `from`: through the port `named`, or else the first port that this
    /// peer can send to. A `named` peer of UDP, the default transport, also matches a port of another transport at the
    /// same address.
    pub(crate) fn flow(&self, from: Peer, named: Option<Peer>) -> Result<Flow, String> {
        let at = |port: &Port| Peer::new(port.transport, port.local);
        let first = |is_it: &dyn Fn(&Port) -> bool| self.ports.iter().position(is_it);
        let is_of_family = |port: &Port| port.local.is_ipv4() == from.address.is_ipv4();
        let index = match named {
            None => first(&|port| port.transport == from.transport && is_of_family(port))
                .or_else(|| first(&is_of_family))
                .or(Some(0)),
            Some(named) => first(&|port| at(port) == named)
                .or_else(|| first(&|port| named.transport == Transport::Udp && port.local == named.address)),
        };
        let Some(port) = index.and_then(|index| self.ports.get(index as u16)) else {
            let all: Vec<_> = self.ports.iter().map(|port| at(port).to_string()).collect();
            let named = named.map_or_else(String::new, |named| format!(" at {named}"));
            return Err(format!("there is no listener{named}; there are: {}", all.join(", ")));
        };
        let listener = index.unwrap_or_default() as u16;
        Ok(Flow { transport: port.transport, listener, peer: from.address, connection: None })
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&ListedMember> {
        self.members.iter().find(|member| member.slot == slot)
    }
}
