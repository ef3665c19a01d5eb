//! Set-ups as a control plane makes them, without one: members that are always up.

use balance::Node;
use base::Flow;
use node::{Port, Routes, Setup, ShardSettings, Tokens, Topology, node_id};
use route::{Rule, Table};
use std::net::SocketAddr;
use std::sync::Arc;

/// What a shard with these listeners for UDP and these host names is set up with: no members and no pools yet.
pub fn shard_setup(listeners: &[SocketAddr], names: &[&str], tokens: Tokens) -> Setup {
    shard_setup_of(listeners.iter().copied().map(Port::udp).collect(), names, tokens)
}

/// The same with these ports.
pub fn shard_setup_of(ports: Vec<Port>, names: &[&str], tokens: Tokens) -> Setup {
    let topology = Topology::new(ports.into(), names.iter().map(|&name| (name.to_owned(), None)).collect());
    Setup::new(topology, ShardSettings::new(tokens, 1_800_000_000))
}

/// Rules for requests to any listener, who all take everybody's.
pub fn routes(rules: Vec<Rule>, setup: &Setup) -> Arc<Routes> {
    let listeners: Vec<_> = setup.topology.ports.iter().map(|port| port.advertised).collect();
    Arc::new(Routes { table: Table::new(rules, &listeners), access: Vec::new() })
}

/// Makes these the members of all pools that have all nodes, and nobody else. Who leaves keeps its slot, and has it
/// again when it comes back.
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
