//! `[distribution]`

use super::access::networks;
use crate::kind::Shared;
use crate::raw::{RawConfig, RawDistribution, RawRoute};
use crate::report::Report;
use crate::setting::Setting;
use crate::typed::{PoolConfig, RegistrarConfig};
use control::Address;
use distribute::{DistributionSettings, ShareLaw, UtilisationSource};
use node::Distribution;
use route::{Forward, Network, Origin};
use std::net::SocketAddr;

/// Returns the neighbours and settings of the division of state; `None` if no pool uses it, or something is wrong.
pub(super) fn check(
    raw: &RawConfig,
    (pools, registrar): (&[PoolConfig], Option<&RegistrarConfig>),
    report: &mut Report<'_>,
) -> Option<Distribution> {
    let mut sharers = pools
        .iter()
        .filter(|pool| pool.settings.service.forward() == Forward::Distributed)
        .map(|pool| &*pool.settings.name);
    let at_home = registrar.filter(|registrar| registrar.settings.forward == Forward::Distributed);
    let sharer = sharers.next().or(at_home.map(|_| "registrar"));
    let Some(table) = &raw.distribution else {
        if let Some(name) = sharer {
            let remedy = format!(
                "`{name}` has forward = \"distributed\": expected a table [distribution] with the proxies that share \
                 the state with this proxy: neighbours = [\"10.0.0.2\"]"
            );
            report.missing("distribution", remedy);
        }
        return None;
    };
    let neighbours = networks(&table.neighbours);
    if table.neighbours.is_empty() {
        let remedy = "expected the proxies before and behind this proxy that share the state: neighbours = [\"10.0.0.2\"]";
        report.missing("distribution.neighbours", remedy);
    }
    let shares = shares(table, report);
    let shares_out = |kind| shares.as_ref().is_some_and(|shares| shares.contains(&kind));
    report_stateless_targets(pools, (&neighbours, shares_out(Shared::Dialog)), report);
    report_stateless_relays(raw, report);
    if shares_out(Shared::Dialog) {
        report_missing_records(pools, registrar, report);
    }
    if shares_out(Shared::Authentication) {
        report_missing_authentication(raw, (&neighbours, registrar), report);
    } else if table.authentication_cost.is_set() {
        let remedy = "authentication is not shared; add \"authentication\" to `shares`, or remove this key";
        report.conflict(&table.authentication_cost, remedy);
    }
    let (high, low) = levels(table, report)?;
    let law = table.law.value()?;
    if table.keep.is_set() && law != ShareLaw::Fixed {
        report.conflict(
            &table.keep,
            "`keep` is the share of the law \"fixed\" only; add `law = \"fixed\"`, or remove this key",
        );
    }
    if table.delta_c.is_set() && law != ShareLaw::Paper {
        report.conflict(
            &table.delta_c,
            "this key belongs to the law \"paper\"; add `law = \"paper\"`, or remove this \
                                      key",
        );
    }
    let load = load(table, report)?;
    let dialogs = shares_out(Shared::Dialog);
    let settings = DistributionSettings {
        law,
        load,
        keep: table.keep.value()?,
        period: table.period.value()?,
        delta_c: table.delta_c.value()?,
        high,
        low,
        state_cost: Distribution::state_cost(dialogs),
        ..Distribution::default().settings
    };
    let authentication = table.authentication_cost.value().filter(|_| shares_out(Shared::Authentication));
    shares.map(|_| Distribution { neighbours, dialogs, authentication, settings })
}

/// The kinds of state that are divided.
fn shares(table: &RawDistribution, report: &mut Report<'_>) -> Option<Vec<Shared>> {
    let shares: Vec<_> = table.shares.iter().map(Setting::value).collect::<Option<_>>()?;
    for (index, setting) in table.shares.iter().enumerate() {
        if shares[..index].contains(&shares[index]) {
            report.conflict(setting, "expected each name once; remove this one");
        }
    }
    if !shares.contains(&Shared::Transaction) {
        let remedy = "a proxy that keeps dialogs keeps transactions, too: expected shares = [\"transaction\"] or \
                      shares = [\"transaction\", \"dialog\"]";
        report.key_problem("distribution.shares", remedy);
    }
    Some(shares)
}

/// If authentication is divided, all proxies must know the same users, each other's nonces, and each other's clients.
fn report_missing_authentication(
    raw: &RawConfig,
    (neighbours, registrar): (&[Network], Option<&RegistrarConfig>),
    report: &mut Report<'_>,
) {
    let mut report_shares = |remedy: &str| report.key_problem("distribution.shares", remedy.to_owned());
    if registrar.is_none_or(|registrar| registrar.users.is_none()) {
        report_shares(
            "a proxy that shares authentication verifies users: set `users` of [registrar], or remove \
            \"authentication\"",
        );
    }
    if raw.token.key.is_none() {
        report_shares(
            "a neighbour proves with a token that it has verified a caller: set `key` of [token], the same at all \
             proxies, or remove \"authentication\"",
        );
    }
    let trusted = registrar.map_or(&[][..], |registrar| &registrar.settings.trusted);
    let is_trusted = |network: &&Network| {
        trusted.iter().any(|wider| wider.contains(network.first()) && wider.length() <= network.length())
    };
    if let Some(outsider) = neighbours.iter().find(|network| !is_trusted(network)) {
        report_shares(&format!(
            "a nonce is valid for the address of one client, which a neighbour reports: add {outsider} to `trusted` \
             of [registrar], or remove \"authentication\""
        ));
    }
}

/// If dialogs are divided, a call that no earlier proxy keeps must not go where no proxy writes its record.
fn report_missing_records(
    pools: &[PoolConfig],
    registrar: Option<&RegistrarConfig>,
    report: &mut Report<'_>,
) {
    for pool in pools.iter().filter(|pool| !pool.settings.service.has_hops()) {
        let remedy = format!(
            "no proxy would write the records of calls to `{}` that a neighbour has left to this proxy, since this \
             pool has dialogs = \"member\"; remove \"dialog\", or set dialogs = \"route\" and forward = \
             \"distributed\" for the pool",
            pool.settings.name
        );
        report.key_problem("distribution.shares", remedy);
    }
    let keeps = |forward| matches!(forward, Forward::Dialog | Forward::Distributed);
    if registrar.is_some_and(|registrar| !keeps(registrar.settings.forward)) {
        let remedy = "no proxy would write the records of calls to users that a neighbour has left to this proxy; \
                      set forward = \"dialog\" or \"distributed\" for `registrar`, or remove \"dialog\"";
        report.key_problem("distribution.shares", remedy);
    }
}

/// Reports routes that forward by Request-URI: this proxy keeps no state of their calls, even if a neighbour left the
/// calls to it.
fn report_stateless_relays(raw: &RawConfig, report: &mut Report<'_>) {
    let is_relay = |route: &RawRoute| {
        let is_for_members = route.from.as_ref().and_then(Setting::value) == Some(Origin::Members);
        let is_set = route.request_uri.as_ref().and_then(Setting::value) == Some(true);
        route.host_network.is_some() && is_set && !is_for_members
    };
    if raw.route.iter().any(is_relay) {
        let remedy = "a route with `host_network` and `request_uri` forwards calls without state, also calls that a \
                      neighbour has left to this proxy; use `pool`, `next` or `location` in the route, or remove \
                      [distribution]";
        report.key_problem("distribution", remedy);
    }
}

/// `high` and `low`.
fn levels(table: &RawDistribution, report: &mut Report<'_>) -> Option<(f64, f64)> {
    let high = table.high.value();
    let low = table.low.value();
    let (high, low) = (high?, low?);
    if low > high {
        let setting = if table.low.is_set() { &table.low } else { &table.high };
        let percent = |share: f64| (share * 100.0).round();
        let remedy = format!("expected `low`, {} %, to be at most `high`, {} %", percent(low), percent(high));
        report.conflict(setting, remedy);
    }
    Some((high, low))
}

/// How the utilisation of the proxy is determined.
fn load(table: &RawDistribution, report: &mut Report<'_>) -> Option<UtilisationSource> {
    match (&table.stateful, &table.stateless) {
        (None, None) => Some(UtilisationSource::Measured),
        (Some(with), Some(without)) => {
            let (stateful, stateless) = (with.value()?, without.value()?);
            if stateless < stateful {
                report.conflict(without, "expected `stateless` to be at least `stateful`");
            }
            Some(UtilisationSource::Computed { stateful, stateless })
        }
        (Some(one), None) | (None, Some(one)) => {
            let remedy = "the load of the proxy is computed from both `stateful` and `stateless`; add the other key, \
                          or remove this key";
            report.conflict(one, remedy);
            None
        }
    }
}

/// Reports pools that would get calls without state from neighbours, and neither keep the state nor forward to a proxy
/// that does.
fn report_stateless_targets(
    pools: &[PoolConfig],
    (neighbours, dialogs): (&[Network], bool),
    report: &mut Report<'_>,
) {
    let keeps_less = |pool: &&PoolConfig| {
        let is_less = pool.settings.service.forward() == Forward::Stateless
            || (dialogs && pool.settings.service.forward() == Forward::Transaction);
        is_less && pool.settings.service.has_hops()
    };
    for pool in pools.iter().filter(keeps_less) {
        let is_outsider =
            |address: &SocketAddr| !neighbours.iter().any(|network| network.contains(address.ip()));
        let addresses = pool.members.iter().filter_map(|member| match &member.address {
            Address::Socket(peer) => Some(peer.address),
            _ => None,
        });
        if let Some(outsider) = addresses.into_iter().find(is_outsider) {
            let without = if pool.settings.service.forward() == Forward::Stateless {
                "transactions"
            } else {
                "their dialogs"
            };
            let remedy = format!(
                "`{}` sends calls without {without} to {outsider}, which is not in `neighbours`: no proxy would keep \
                 the state that a neighbour has left to this proxy; add the address, or set forward = \"distributed\"",
                pool.settings.name
            );
            report.key_problem("distribution.neighbours", remedy);
        }
    }
}
