//! Balancers with scaling that break rules.

use crate::canary::*;
use control::scale::{DriverServer, Order};
use std::net::SocketAddr;
use swarm::RunRule;

fn breaks(rule: RunRule) -> Canary {
    Canary::new(rule.text(), scaled)
}

/// The server at this address.
fn server(address: SocketAddr) -> DriverServer {
    DriverServer { index: 0, name: address.to_string(), address: Some(address), others: Vec::new(), count: 1 }
}

pub(crate) fn all() -> Vec<Canary> {
    vec![
        // It stops a drained server before its calls end.
        breaks(RunRule::BusyServerStopped).orders(|_, orders| {
            let drained = |order: &Order| match order {
                Order::Drain(address, true) => Some(Order::Stop(server(*address))),
                _ => None,
            };
            let stops: Vec<_> = orders.iter().filter_map(drained).collect();
            orders.extend(stops);
        }),
        // A server that is being stopped gets new calls.
        breaks(RunRule::LostByScaling).orders(|memory, orders| {
            memory.servers.extend(orders.iter().filter_map(|order| match order {
                Order::Stop(server) => Some(server.clone()),
                _ => None,
            }));
            let addresses = memory.servers.iter().filter_map(|server| server.address);
            orders.extend(addresses.map(|address| Order::Drain(address, false)));
        }),
        // It stops servers that it has just started.
        breaks(RunRule::StoppedEarly).orders(|memory, orders| {
            orders.extend(memory.servers.drain(..).map(Order::Stop));
            memory.servers.extend(orders.iter().filter_map(|order| match order {
                Order::Start(server) => Some(server.clone()),
                _ => None,
            }));
        }),
        // It never ends a drain.
        breaks(RunRule::DrainNotEnded)
            .orders(|_, orders| orders.retain(|order| !matches!(order, Order::Drain(_, false)))),
        breaks(RunRule::OperatorDrain).drains_as_operator(),
        // It repeats old stop orders every half minute.
        breaks(RunRule::OrdersAfterEnd).orders(|memory, orders| {
            if memory.turn(30) {
                orders.extend(memory.servers.iter().cloned().map(Order::Stop));
            }
            memory.servers.extend(orders.iter().find_map(|order| match order {
                Order::Stop(server) => Some(server.clone()),
                _ => None,
            }));
            memory.servers.truncate(1);
        }),
        // It drains servers, and never stops them.
        breaks(RunRule::ServersAfterEnd)
            .orders(|_, orders| orders.retain(|order| !matches!(order, Order::Stop(_)))),
    ]
}
