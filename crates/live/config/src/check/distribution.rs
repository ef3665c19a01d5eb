//! `[distribution]`

use super::access::networks;
use crate::raw::{RawConfig, RawDistribution};
use crate::report::Report;
use crate::typed::PoolConfig;
use control::Address;
use distribute::{Law, Load, Settings};
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
    let law = table.law.value()?;
    if table.keep.is_set() && law != Law::Fixed {
        report.conflict(
            &table.keep,
            "only a fixed share is set by hand; add `law = \"fixed\"`, or remove this key",
        );
    }
    if table.delta_c.is_set() && law != Law::Paper {
        report
            .conflict(&table.delta_c, "it belongs to another law; add `law = \"paper\"`, or remove this key");
    }
    let load = load(table, report)?;
    let settings = Settings {
        law,
        load,
        keep: table.keep.value()?,
        delta_c: table.delta_c.value()?,
        high,
        low,
        state_cost: table.state_cost.value()?,
        ..Distribution::default().settings
    };
    Some(Distribution { neighbours, settings })
}

/// How the proxy knows its utilisation.
fn load(table: &RawDistribution, report: &mut Report<'_>) -> Option<Load> {
    match (&table.stateful, &table.stateless) {
        (None, None) => Some(Load::Measured),
        (Some(with), Some(without)) => {
            let (stateful, stateless) = (with.value()?, without.value()?);
            if stateless < stateful {
                report.conflict(without, "expected `stateless` to be at least `stateful`");
            }
            Some(Load::Computed { stateful, stateless })
        }
        (Some(one), None) | (None, Some(one)) => {
            let remedy = "how busy the proxy is is computed from both `stateful` and `stateless`; add the other one, or remove \
                          this key";
            report.conflict(one, remedy);
            None
        }
    }
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
