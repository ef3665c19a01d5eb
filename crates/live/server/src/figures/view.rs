//! What the control task tells of itself: of this and of the shards' counts the figures are made.

use super::{PoolName, ScaleView};
use crate::capacity::CapacityReport;
use ::control::{ListedMember, MemberName};
use balance::{PoolId, Slot};
use base::{Flow, Instant, Peer, Transport};
use node::{Port, Ports};
use shards::{RecordCounts, StoreReport};
use std::collections::BTreeMap;
use streams::tls::CertificateFacts;

/// What the control task knows, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    /// By their number.
    pub(crate) pools: Vec<PoolName>,
    pub(crate) stopping: bool,
    /// When it ends even with calls, once it is stopping.
    pub(crate) stops_at: Option<Instant>,
    /// What the process before still has.
    pub(crate) predecessor_calls: Option<usize>,
    /// By their index.
    pub(crate) ports: Ports,
    /// Whether there are next hops only.
    pub(crate) is_proxy: bool,
    /// The next hops.
    pub(crate) hops: Vec<Slot>,
    /// In the order of their slots; not every slot has one.
    pub(crate) members: Vec<ListedMember>,
    /// Names that shards wanted to know of and nobody asked for, because too many were being asked for.
    pub(crate) look_ups_forgotten: u64,
    /// The members that are names.
    pub(crate) names: Vec<MemberName>,
    /// What became of the records of calls, where any are kept.
    pub(crate) records: Option<RecordCounts>,
    /// How the stores of the home domain do.
    pub(crate) stores: Vec<StoreReport>,
    /// Why there is no connection for probes, of each member where that is so.
    pub(crate) probe_troubles: BTreeMap<Peer, String>,
    /// Our certificates.
    pub(crate) certificates: Vec<CertificateFacts>,
    /// What has come of updates of capacity, where they are listened for.
    pub(crate) capacity: Option<CapacityReport>,
    /// Pools whose servers are started and stopped.
    pub(crate) scales: Vec<ScaleView>,
}

impl View {
    /// Names of pools.
    pub(crate) fn named(&self, pools: &[PoolId]) -> Vec<String> {
        let pools = pools.iter().filter_map(|pool| self.pools.iter().find(|known| known.id == *pool));
        pools.map(|pool| pool.name.clone()).collect()
    }

    /// What decided the last probe of a member; `None` before the first.
    pub(crate) fn last_probe(&self, member: &ListedMember) -> Option<String> {
        let trouble = self.probe_troubles.get(&member.peer).map(|why| format!("no connection: {why}"));
        trouble.or_else(|| member.last_probe.map(|result| result.to_string()))
    }

    /// What a message from there comes by: the port that is named, or else the first that somebody there can send to.
    /// The port says over what, where its name and the sender's do not.
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
            return Err(format!("no listener is{named}; there are: {}", all.join(", ")));
        };
        let listener = index.unwrap_or_default() as u16;
        Ok(Flow { transport: port.transport, listener, peer: from.address, connection: None })
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&ListedMember> {
        self.members.iter().find(|member| member.slot == slot)
    }
}
