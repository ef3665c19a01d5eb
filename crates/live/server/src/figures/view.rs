//! What the control task tells of itself: of this and of the shards' counts the figures are made.

use super::{PoolName, ScaleView};
use crate::capacity::CapacityReport;
use crate::records::RecordCounts;
use crate::stores::StoreReport;
use ::control::{ListedMember, MemberName};
use balance::{PoolId, Slot};
use base::{Flow, Instant};
use node::{Port, Ports};
use std::net::SocketAddr;
use streams::tls::CertificateFacts;

/// What the control task knows, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    /// By their number.
    pub(crate) pools: Vec<PoolName>,
    pub(crate) stopping: bool,
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

    /// What a message from there comes by: the port with this address, or else the first that somebody there can send
    /// to.
    pub(crate) fn flow(&self, from: SocketAddr, named: Option<SocketAddr>) -> Result<Flow, String> {
        let is_it =
            |port: &Port| named.map_or(port.local.is_ipv4() == from.is_ipv4(), |named| named == port.local);
        let listener = match (self.ports.iter().position(is_it), named) {
            (Some(index), _) => index as u16,
            (None, None) => 0,
            (None, Some(named)) => {
                let all: Vec<_> = self.ports.iter().map(|port| port.local.to_string()).collect();
                return Err(format!("no listener is at {named}; there are: {}", all.join(", ")));
            }
        };
        let transport = self.ports[listener].transport;
        Ok(Flow { transport, listener, peer: from, connection: None })
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&ListedMember> {
        self.members.iter().find(|member| member.slot == slot)
    }
}
