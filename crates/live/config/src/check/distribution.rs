//! `[distribution]`

use super::access::networks;
use crate::raw::RawConfig;
use crate::report::Report;
use crate::typed::PoolConfig;
use control::Address;
use distribute::Settings;
use node::Distribution;
use route::{Dialogs, Forward, Network};
use std::net::SocketAddr;

/// With whom the state of calls is shared out, if with anybody; nobody does so alone. `None` as well where something
/// is wrong.
pub(super) fn check(raw: &RawConfig, pools: &[PoolConfig], report: &mut Report<'_>) -> Option<Distribution> {
    let sharer = pools.iter().find(|pool| pool.forward == Forward::Distributed);
    let Some(table) = &raw.distribution else {
        if let Some(pool) = sharer {
            let remedy = format!(
                "`{}` has forward = \"distributed\": expected the proxies that it shares out with, a table [distribution] with \
                 neighbours = [\"10.0.0.2\"]",
                pool.name
            );
            report.missing("distribution", remedy);
        }
        return None;
    };
    let neighbours = networks(&table.neighbours);
    if table.neighbours.is_empty() {
        let remedy =
            "expected the proxies before and behind that share out as well: neighbours = [\"10.0.0.2\"]";
        report.missing("distribution.neighbours", remedy);
    }
    tell_unkept(pools, &neighbours, report);
    let high = table.high.value();
    let low = table.low.value();
    let (high, low) = (high?, low?);
    if low > high {
        let setting = if table.low.is_set() { &table.low } else { &table.high };
        report.conflict(setting, "expected `low` to be at most `high`");
    }
    let settings = Settings {
        law: table.law.value()?,
        high,
        low,
        state_cost: table.state_cost.value()?,
        ..Distribution::default().settings
    };
    Some(Distribution { neighbours, settings })
}

/// Who gets calls without transactions from one that invites its neighbours to leave them without has to keep them,
/// or pass them on to somebody who does.
fn tell_unkept(pools: &[PoolConfig], neighbours: &[Network], report: &mut Report<'_>) {
    let stateless = |pool: &&PoolConfig| (pool.forward, pool.dialogs) == (Forward::Stateless, Dialogs::Route);
    for pool in pools.iter().filter(stateless) {
        let is_stranger =
            |address: &SocketAddr| !neighbours.iter().any(|network| network.contains(address.ip()));
        let addresses = pool.members.iter().filter_map(|member| match &member.address {
            Address::Socket(peer) => Some(peer.address),
            _ => None,
        });
        if let Some(stranger) = addresses.into_iter().find(is_stranger) {
            let remedy = format!(
                "`{}` sends calls without transactions to {stranger}, which is no neighbour: nobody would keep those that a \
                 neighbour has left without; add it, or set forward = \"distributed\"",
                pool.name
            );
            report.key_problem("distribution.neighbours", remedy);
        }
    }
}
