//! Set-ups like those of a control plane, with members that are always up.

use balance::Node;
use base::Flow;
use node::{AddressTable, Port, Routes, Setup, ShardSettings, Tokens, node_id};
use route::{Rule, Table};
use std::net::SocketAddr;
use std::sync::Arc;

/// Returns the set-up of a shard with these UDP listeners and host names, without members and pools.
pub fn shard_setup(listeners: &[SocketAddr], names: &[&str], tokens: Tokens) -> Setup {
    shard_setup_of(listeners.iter().copied().map(Port::udp).collect(), names, tokens)
}

/// Returns the set-up of a shard with these ports, host names and tokens.
pub fn shard_setup_of(ports: Vec<Port>, names: &[&str], tokens: Tokens) -> Setup {
    let topology =
        AddressTable::new(ports.into(), names.iter().map(|&name| (name.to_owned(), None)).collect());
    Setup::new(topology, ShardSettings::new(tokens, 1_800_000_000))
}

/// Returns routes with these rules for requests to any listener, and no access lists.
pub fn routes(rules: Vec<Rule>, setup: &Setup) -> Arc<Routes> {
    let listeners: Vec<_> = setup.topology.ports.iter().map(|port| port.advertised).collect();
    Arc::new(Routes { table: Table::new(rules, &listeners), access: Vec::new() })
}

/// Makes exactly these nodes the members of every pool that has all nodes. A removed member keeps its slot and gets it
/// again when it returns.
pub fn set_members(setup: &mut Setup, members: &[Flow]) {
    let mut topology = setup.topology.as_ref().clone();
    let mut nodes = setup.nodes.to_vec();
    for &member in members.iter().filter(|member| !setup.topology.nodes().contains(member)) {
        topology.push_node(member);
        nodes.push(Node::new(node_id(member.remote())));
    }
    for (slot, node) in (0..).map(balance::Slot).zip(&mut nodes) {
        node.member = members.contains(&topology.node(slot));
        if node.member { topology.find_again(slot) } else { topology.forget(slot) }
    }
    (setup.topology, setup.nodes) = (Arc::new(topology), nodes.into());
}
